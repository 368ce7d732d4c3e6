// SPDX-License-Identifier: Apache-2.0
//
// junto._kernels. Only the files of bindings/ know Python: they check arguments and call kernels/.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "kernels/cpu_features.h"

namespace {

constexpr int kMostThreads = 1024;

void make_pool(junto::ThreadPool* self, int n_threads) {
  if (n_threads < 1 || n_threads > kMostThreads)
    throw std::invalid_argument("ThreadPool: " + std::to_string(n_threads) +
                                " threads, expected 1 to " + std::to_string(kMostThreads));
  new (self) junto::ThreadPool(n_threads);
}

// How the kernels were compiled, for reports.
std::string build() {
#if defined(__clang__)
  std::string text = __VERSION__;
#elif defined(__GNUC__)
  std::string text = "GCC " __VERSION__;
#else
  std::string text = "unknown compiler";
#endif
#if !defined(__OPTIMIZE__)
  text += ", not optimised";
#endif
#if !defined(NDEBUG)
  text += ", assertions on";
#endif
  return text;
}

}  // namespace

NB_MODULE(_kernels, m) {
  m.doc() = "C++ kernels of junto.";
  // Models that a script holds when the interpreter ends are no leak worth a page of warnings.
  nb::set_leak_warnings(false);

  m.def("build", &build, "The compiler of this build, and what is unusual in its flags.");
  m.def("cpu_features",
        &junto::cpu_features,
        "Name the instruction sets that both the CPU and the operating system support.\n\n"
        "On x86 for example 'avx2', 'fma', 'avx512f', 'avx512vnni'; on aarch64 'neon'\n"
        "and 'asimddp'; elsewhere nothing.");
  m.def("levels",
        &junto::available_levels,
        "Name the levels whose kernels can run here, best first.");
  m.def("level_needs",
        &junto::level_needs,
        "All levels of this build, best first, and the instruction sets that each needs.");

  nb::class_<junto::ThreadPool>(m, "ThreadPool", "Threads that share the loops of kernels.")
      .def("__init__", &make_pool, nb::arg("n_threads"))
      .def_prop_ro("n_threads", &junto::ThreadPool::size, "Threads, the caller included.")
      .def("wake", &junto::ThreadPool::wake, "Keep the workers spinning until `rest`.")
      .def("rest", &junto::ThreadPool::rest, "Let the workers sleep between loops.");

  junto::bind_attention(m);
  junto::bind_decode(m);
  junto::bind_delta_rule(m);
  junto::bind_elementwise(m);
  junto::bind_matmul(m);
  junto::bind_peaks(m);
  junto::bind_plan(m);
  junto::bind_quantize(m);
  junto::bind_route(m);
  junto::bind_sampling(m);
}

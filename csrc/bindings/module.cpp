// SPDX-License-Identifier: Apache-2.0
//
// junto._kernels: the only file that knows Python. It checks arguments and calls kernels/.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "kernels/cpu_features.h"

namespace nb = nanobind;

NB_MODULE(_kernels, m) {
  m.doc() = "C++ kernels of junto.";

  m.def("cpu_features",
        &junto::cpu_features,
        "Name the instruction sets that both the CPU and the operating system support.\n\n"
        "On x86 for example 'avx2', 'fma', 'avx512f', 'avx512vnni'; on aarch64 'neon';\n"
        "elsewhere nothing.");
}

// SPDX-License-Identifier: Apache-2.0
//
// Limits of the machine for Python.

#include "kernels/peaks.h"

#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "bindings/bindings.h"
#include "kernels/memory.h"

namespace junto {

namespace {

constexpr int kPiecesPerThread = 32;
constexpr std::int64_t kFirstSteps = 64, kMostSteps = 1 << 22;
constexpr double kLongEnough = 0.02;  // seconds of a run, beside which starting it is nothing
constexpr std::int64_t kMostRuns = 10000;
constexpr std::int64_t kLeastFloats = 1 << 16, kMostFloats = std::int64_t{1} << 36;

void check_runs(const char* where, std::int64_t n_run) {
  if (n_run < 1 || n_run > kMostRuns)
    throw std::invalid_argument(std::string(where) + ": " + std::to_string(n_run) +
                                " runs, expected 1 to " + std::to_string(kMostRuns));
}

// Keeps the workers spinning while it lives.
class Awake {
 public:
  explicit Awake(ThreadPool& pool) : pool_(pool) { pool_.wake(); }
  ~Awake() { pool_.rest(); }
  Awake(const Awake&) = delete;
  Awake& operator=(const Awake&) = delete;

 private:
  ThreadPool& pool_;
};

std::vector<double> run_read(std::string_view level,
                             ThreadPool& pool,
                             std::int64_t n_bytes,
                             std::int64_t n_run) {
  check_runs("peak_read", n_run);
  const std::int64_t n = n_bytes / static_cast<std::int64_t>(sizeof(float));
  if (n < kLeastFloats || n > kMostFloats)
    throw std::invalid_argument("peak_read: " + std::to_string(n_bytes) +
                                " bytes, expected 256 KiB to 256 GiB");
  const auto rate = JUNTO_CHOOSE(find_level(level), read_rate);
  std::vector<double> rates;
  const nb::gil_scoped_release release;
  const Memory memory = allocate(static_cast<std::size_t>(n) * sizeof(float));
  float* data = reinterpret_cast<float*>(memory.get());
  const Awake awake(pool);
  // First writes decide where pages lie, so the threads that will read share them.
  pool.loop(n, 1 << 18, [&](std::int64_t first, std::int64_t last, int) {
    std::fill(data + first, data + last, 1.0f);
  });
  for (std::int64_t i = 0; i < n_run; ++i) rates.push_back(rate(data, n, pool));
  return rates;
}

using Rate = double (*)(std::int64_t n_piece, std::int64_t n_step, ThreadPool& pool);

// Rates of runs that last long enough.
std::vector<double> run_rate(Rate rate, ThreadPool& pool, std::int64_t n_run) {
  const std::int64_t n_piece = std::int64_t{kPiecesPerThread} * pool.size();
  const nb::gil_scoped_release release;
  const Awake awake(pool);
  std::int64_t n_step = kFirstSteps;
  const auto lasts = [&] {
    const auto start = std::chrono::steady_clock::now();
    rate(n_piece, n_step, pool);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  while (lasts() < kLongEnough && n_step < kMostSteps) n_step *= 2;
  std::vector<double> rates;
  for (std::int64_t i = 0; i < n_run; ++i) rates.push_back(rate(n_piece, n_step, pool));
  return rates;
}

std::vector<double> run_dot(std::string_view level, ThreadPool& pool, std::int64_t n_run) {
  check_runs("peak_dot", n_run);
  return run_rate(JUNTO_CHOOSE(find_level(level), dot_rate), pool, n_run);
}

std::vector<double> run_fma(std::string_view level, ThreadPool& pool, std::int64_t n_run) {
  check_runs("peak_fma", n_run);
  return run_rate(JUNTO_CHOOSE(find_level(level), fma_rate), pool, n_run);
}

}  // namespace

void bind_peaks(nb::module_& m) {
  m.def("peak_read",
        &run_read,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("n_bytes"),
        nb::arg("n_run"),
        "Bytes a second of passes over fresh memory, one figure a pass.");
  m.def("peak_dot",
        &run_dot,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("n_run"),
        "8-bit operations a second of the level's dot product, multiplications and additions.");
  m.def("peak_fma",
        &run_fma,
        nb::arg("level"),
        nb::arg("pool"),
        nb::arg("n_run"),
        "float32 operations a second, multiplications and additions.");
}

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0
//
// What the machine gives at most: the yardsticks of the other kernels, not a kernel of any model.
//
// Sums run in as many chains as the registers hold, so that latency hides. The operands of a step
// come from a small table in the first cache, as activations do in a product; what a step reads
// depends on its number, so that no compiler moves it out of the loop.

#include "kernels/peaks.h"

#include <algorithm>
#include <chrono>

#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

using std::int64_t;

constexpr int kChains = kVectors >= 32 ? 16 : std::max(1, kVectors / (kHasMatrix ? 1 : 2));
constexpr int kTable = 16;               // steps until the operands come again
constexpr int64_t kReadGrain = 1 << 18;  // floats that one thread takes at a time: 1 MB
constexpr int64_t kReadStep = 4 * 16;    // floats of one step

// Sums of the products of bytes of kWidth steps side by side.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int kWidth = 4;  // 8 k-values of two rows
struct Sums {
  vi2 rows = join_rows(set1_i32(0), set1_i32(0));
  void add(vb w, const std::int8_t* a) { rows = dot8(rows, w, w, vld1q_s8(a)); }
  vi total() const { return add_i32(first_row(rows), second_row(rows)); }
};
#else
constexpr int kWidth = 1;
struct Sums {
  vi row = set1_i32(0);
  void add(vb w, const std::int8_t* a) { row = dot4(row, w, a); }
  vi total() const { return row; }
};
#endif

template <class F>
double seconds(const F& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double read_rate(const float* data, int64_t n, ThreadPool& pool) {
  const int64_t n_step = n / kReadStep;
  const int64_t grain = kReadGrain / kReadStep;
  float* sinks = pool.buffer<float>(0, (n_step / grain + 1) * 16);
  const double s = seconds([&] {
    pool.loop(n_step, grain, [&](int64_t first, int64_t last, int) {
      vf a = set1(0), b = a, c = a, d = a;
      for (const float* p = data + first * kReadStep; p < data + last * kReadStep; p += kReadStep) {
        a = add(a, load(p));
        b = add(b, load(p + 16));
        c = add(c, load(p + 32));
        d = add(d, load(p + 48));
      }
      store(sinks + first / grain * 16, add(add(a, b), add(c, d)));
    });
  });
  return static_cast<double>(n_step * kReadStep) * sizeof(float) / s;
}

double dot_rate(int64_t n_piece, int64_t n_step, ThreadPool& pool) {
  // Weights of 1, activations that alternate between 1 and -1: no sum leaves its range.
  std::uint8_t* weights = pool.buffer<std::uint8_t>(0, 64);
  std::fill_n(weights, 64, std::uint8_t{1});
  std::int8_t* table = pool.buffer<std::int8_t>(1, kTable * kChains * 4);
  for (int i = 0; i < kTable * kChains * 4; ++i)
    table[i] = static_cast<std::int8_t>(i / (kChains * 4) % 2 == 0 ? 1 : -1);
  const std::int8_t* end = table + kTable * kChains * 4;
  float* sinks = pool.buffer<float>(2, n_piece * 16);
  const double s = seconds([&] {
    pool.loop(n_piece, 1, [&](int64_t first, int64_t last, int) {
      const vb w = load_bytes(weights);
      for (int64_t piece = first; piece < last; ++piece) {
        Sums sums[std::max(1, kChains / kWidth)];
        for (int64_t step = 0; step < n_step; ++step)
          for (const std::int8_t* a = table; a != end; a += kChains * 4)
            for (int i = 0; i < kChains; i += kWidth) sums[i / kWidth].add(w, a + 4 * i);
        vi total = set1_i32(0);
        for (const Sums& sum : sums) total = add_i32(total, sum.total());
        store(sinks + 16 * piece, to_float(total));
      }
    });
  });
  return static_cast<double>(n_piece * n_step) * kTable * kChains * 16 * 4 * 2 / s;
}

double fma_rate(int64_t n_piece, int64_t n_step, ThreadPool& pool) {
  float* sinks = pool.buffer<float>(0, n_piece * 16);
  const double s = seconds([&] {
    pool.loop(n_piece, 1, [&](int64_t first, int64_t last, int) {
      const vf factor = set1(0.5f), term = set1(1.0f);
      for (int64_t piece = first; piece < last; ++piece) {
        vf sums[kChains];
        for (int i = 0; i < kChains; ++i) sums[i] = set1(static_cast<float>(i));
        for (int64_t step = 0; step < n_step; ++step)
          for (vf& sum : sums) sum = fma(sum, factor, term);
        for (int i = 1; i < kChains; ++i) sums[0] = add(sums[0], sums[i]);
        store(sinks + 16 * piece, sums[0]);
      }
    });
  });
  return static_cast<double>(n_piece * n_step) * kChains * 16 * 2 / s;
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// Rotary position embedding: (a, b) -> (a cos - b sin, b cos + a sin) for each pair of a head.

#include "kernels/rope.h"

#include <algorithm>

#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

using std::int64_t;

constexpr int64_t kGrain = 16384;  // values that one thread takes at a time

void turn_halves(const float* x, const float* cos, const float* sin, int64_t n_pair, float* y) {
  for (int64_t i = 0; i < n_pair; i += 16) {
    const int n = static_cast<int>(std::min<int64_t>(16, n_pair - i));
    const auto part = [=](const float* p) { return n == 16 ? load(p) : load_part(p, n); };
    const vf a = part(x + i), b = part(x + n_pair + i), c = part(cos + i), s = part(sin + i);
    const vf first = fnma(b, s, mul(a, c)), second = fma(a, s, mul(b, c));
    n == 16 ? store(y + i, first) : store_part(y + i, first, n);
    n == 16 ? store(y + n_pair + i, second) : store_part(y + n_pair + i, second, n);
  }
}

void turn_adjacent(const float* x, const float* cos, const float* sin, int64_t n_pair, float* y) {
  for (int64_t i = 0; i < n_pair; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    y[2 * i] = a * cos[i] - b * sin[i];
    y[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

}  // namespace

void rope(const RopeParams& p, ThreadPool& pool) {
  const int64_t n_row = std::max<int64_t>(1, p.n_head * p.head_dim);
  pool.loop(p.n_tok, std::max<int64_t>(1, kGrain / n_row), [&](int64_t first, int64_t last, int) {
    for (int64_t t = first; t < last; ++t) {
      const float *cos = p.cos + t * p.n_pair, *sin = p.sin + t * p.n_pair;
      for (int64_t h = 0; h < p.n_head; ++h) {
        const float* x = p.x + t * p.x_tok + h * p.x_head;
        float* y = p.y + t * p.y_tok + h * p.y_head;
        (p.adjacent ? turn_adjacent : turn_halves)(x, cos, sin, p.n_pair, y);
        if (x != y) std::copy(x + 2 * p.n_pair, x + p.head_dim, y + 2 * p.n_pair);
      }
    }
  });
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// Ops that look at one row at a time: norms, gates, activations and the residual sum.
//
// Rows are shared among threads where there are many values; a few thousand stay on one thread,
// which is done before others would have woken up. A row's sum has one order: four vectors that
// each take every fourth, then the rest one vector at a time, then across lanes.

#include "kernels/elementwise.h"

#include <cmath>

#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

using std::int64_t;

constexpr int64_t kGrain = 16384;  // values that one thread takes at a time

template <class F>
void each_row(int64_t n_row, int64_t n, ThreadPool& pool, F f) {
  const int64_t grain = n < kGrain ? kGrain / (n < 1 ? 1 : n) : 1;
  pool.loop(n_row, grain, [&](int64_t first, int64_t last, int) {
    for (int64_t row = first; row < last; ++row) f(row);
  });
}

// y[i] = f(a[i], b[i]) by vectors.
template <class F>
void map(const float* a, const float* b, float* y, int64_t n, F f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(y + i, f(load(a + i), load(b + i)));
  if (i == n) return;
  const int rest = static_cast<int>(n - i);
  store_part(y + i, f(load_part(a + i, rest), load_part(b + i, rest)), rest);
}

// y = f(x, other), row by row.
template <class F>
void map(const ElementwiseParams& p, ThreadPool& pool, F f) {
  each_row(
      p.n_row, p.n, pool, [&](int64_t r) { map(p.x.row(r), p.other.row(r), p.y.row(r), p.n, f); });
}

// The sum of a row, each vector of it added by f(sum, vector); zeros stand after the end.
template <class F>
float sum_of(const float* x, int64_t n, F f) {
  vf sum[4] = {set1(0.0f), set1(0.0f), set1(0.0f), set1(0.0f)};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) sum[j] = f(sum[j], load(x + i + 16 * j));
  }
  for (; i < n; i += 16) {
    sum[0] = f(sum[0], i + 16 <= n ? load(x + i) : load_part(x + i, static_cast<int>(n - i)));
  }
  return reduce_add(JUNTO_ISA::add(JUNTO_ISA::add(sum[0], sum[1]), JUNTO_ISA::add(sum[2], sum[3])));
}

float mean(const float* x, int64_t n) {
  return sum_of(x, n, [](vf sum, vf v) { return JUNTO_ISA::add(sum, v); }) / static_cast<float>(n);
}

float sum_of_squares(const float* x, int64_t n) {
  return sum_of(x, n, [](vf sum, vf v) { return fma(v, v, sum); });
}

vf root_mean_square_inverse(const float* x, int64_t n, float eps) {
  return set1(1.0f / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps));
}

vf silu(vf x) { return mul(x, sigmoid(x)); }

}  // namespace

void rms_norm(const ElementwiseParams& p, ThreadPool& pool) {
  each_row(p.n_row, p.n, pool, [&](int64_t r) {
    const float* x = p.x.row(r);
    const vf scale = root_mean_square_inverse(x, p.n, p.eps);
    map(x, p.weight, p.y.row(r), p.n, [=](vf v, vf w) { return mul(mul(v, scale), w); });
  });
}

void layer_norm(const ElementwiseParams& p, ThreadPool& pool) {
  each_row(p.n_row, p.n, pool, [&](int64_t r) {
    const float* x = p.x.row(r);
    float* y = p.y.row(r);
    const vf middle = set1(mean(x, p.n));
    map(x, x, y, p.n, [=](vf v, vf) { return sub(v, middle); });
    const vf scale = root_mean_square_inverse(y, p.n, p.eps);
    map(y, p.weight, y, p.n, [=](vf v, vf w) { return mul(mul(v, scale), w); });
    map(y, p.bias, y, p.n, [](vf v, vf b) { return JUNTO_ISA::add(v, b); });
  });
}

void gated_rms_norm(const ElementwiseParams& p, ThreadPool& pool) {
  each_row(p.n_row, p.n, pool, [&](int64_t r) {
    const float *x = p.x.row(r), *gate = p.other.row(r);
    float* y = p.y.row(r);
    const vf scale = root_mean_square_inverse(x, p.n, p.eps);
    const auto gated = [&](int64_t i, auto vector_at) {
      const vf normed = mul(mul(vector_at(x + i), scale), vector_at(p.weight + i));
      return mul(normed, silu(vector_at(gate + i)));
    };
    int64_t i = 0;
    for (; i + 16 <= p.n; i += 16) store(y + i, gated(i, load));
    if (i == p.n) return;
    const int rest = static_cast<int>(p.n - i);
    store_part(y + i, gated(i, [=](const float* from) { return load_part(from, rest); }), rest);
  });
}

void sigmoid_gate(const ElementwiseParams& p, ThreadPool& pool) {
  if (!p.other_is_column) return map(p, pool, [](vf x, vf gate) { return mul(x, sigmoid(gate)); });
  each_row(p.n_row, p.n, pool, [&](int64_t r) {
    const vf open = sigmoid(set1(*p.other.row(r)));
    const float* x = p.x.row(r);
    map(x, x, p.y.row(r), p.n, [=](vf v, vf) { return mul(v, open); });
  });
}

void swiglu(const ElementwiseParams& p, ThreadPool& pool) {
  map(p, pool, [](vf gate, vf up) { return mul(silu(gate), up); });
}

void clamped_swiglu(const ElementwiseParams& p, ThreadPool& pool) {
  const vf high = set1(p.limit), low = set1(-p.limit), alpha = set1(p.alpha), one = set1(1.0f);
  map(p, pool, [=](vf gate, vf up) {
    // min and max return their second argument when either is not a number, so that it shows.
    gate = min(high, gate);
    up = max(low, min(high, up));
    return mul(mul(JUNTO_ISA::add(up, one), gate), sigmoid(mul(alpha, gate)));
  });
}

// The tanh form of GELU is x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
void gelu(const ElementwiseParams& p, ThreadPool& pool) {
  const vf linear = set1(1.5957691216f), cubic = set1(1.5957691216f * 0.044715f);
  each_row(p.n_row, p.n, pool, [&](int64_t r) {
    const float* x = p.x.row(r);
    map(x, x, p.y.row(r), p.n, [=](vf v, vf) {
      return mul(v, sigmoid(mul(v, fma(cubic, mul(v, v), linear))));
    });
  });
}

void add(const ElementwiseParams& p, ThreadPool& pool) {
  map(p, pool, [](vf a, vf b) { return JUNTO_ISA::add(a, b); });
}

void delta_gates(const DeltaGatesParams& p, ThreadPool& pool) {
  each_row(p.n_tok, 8 * p.n_head, pool, [&](int64_t tok) {
    const int64_t row = tok * p.n_head;
    for (int64_t h = 0; h < p.n_head; ++h) {
      const float x = p.alpha[row + h] + p.ssm_dt[h];
      const float softplus = (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
      p.decay[row + h] = p.ssm_a[h] * softplus;
    }
    const float* beta = p.beta + row;
    map(beta, beta, p.open + row, p.n_head, [](vf x, vf) { return sigmoid(x); });
  });
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// Partial softmax of one 64-position block for the (query row, head) pairs of a tile,
//     m = max s_j    l = sum e^(s_j - m)    o = sum e^(s_j - m) v_j    (j ascending)
// and how two partials join:
//     m' = max(m, n)    l' = l e^(m - m') + k e^(n - m')    o' likewise.
//
// Both products are one routine, C += A B, on up to four pairs and kWide vectors at once: scores
// are q [pair, head_dim] by K [head_dim, 64], outputs are e^(s - m) [pair, 64] by V [64, head_dim].
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

using std::int64_t;
using f16 = std::uint16_t;

constexpr int64_t kPositions = 64;  // of a block
constexpr int64_t kPairs = 4;       // pairs whose sums stay in registers together
constexpr int kWide = kVectors >= 32 ? 4 : 1;
constexpr float kNothing = std::numeric_limits<float>::lowest();  // maximum of no scores

inline int64_t whole_vectors(int64_t n) { return (n + 15) / 16 * 16; }

inline vf widen(const float* p) { return load(p); }
inline vf widen(const f16* p) { return load_f16(p); }
inline vf widen_part(const float* p, int n) { return load_part(p, n); }
inline vf widen_part(const f16* p, int n) {
  f16 lanes[16] = {};
  std::copy_n(p, n, lanes);
  return load_f16(lanes);
}

// Row-major, rows `stride` elements apart.
template <class T>
struct Matrix {
  T* data;
  int64_t stride;
  T* row(int64_t i) const { return data + i * stride; }
  Matrix below(int64_t i) const { return {row(i), stride}; }
  Matrix right(int64_t col) const { return {data + col, stride}; }
};

// A block of keys or values, and how far off (in elements) the one lies that is read after it.
template <class T>
struct Stored {
  Matrix<const T> m;
  int64_t to_next;  // 0: nothing to fetch
  Stored right(int64_t col) const { return {m.right(col), to_next}; }
};

// C[N, W vectors] += A[N, first:last] B[first:last]. n_part: how many lanes of a last, single
// vector of B there are, or 0.
template <int N, int W, class T>
inline void multiply_add(
    Matrix<const float> a, Stored<T> b, Matrix<float> c, int64_t first, int64_t last, int n_part) {
  constexpr int kLine = 64 / sizeof(T);
  vf sum[N][W];
  for (int i = 0; i < N; ++i)
    for (int w = 0; w < W; ++w) sum[i][w] = load(c.row(i) + 16 * w);
  for (int64_t j = first; j < last; ++j) {
    const T* from = b.m.row(j);
    if (b.to_next != 0)
      for (int w = 0; w < 16 * W; w += kLine) prefetch_far(from + b.to_next + w);
    vf row[W];
    for (int w = 0; w < W; ++w)
      row[w] = n_part == 0 ? widen(from + 16 * w) : widen_part(from, n_part);
    for (int i = 0; i < N; ++i) {
      const vf x = set1(a.row(i)[j]);
      for (int w = 0; w < W; ++w) sum[i][w] = fma(x, row[w], sum[i][w]);
    }
  }
  for (int i = 0; i < N; ++i)
    for (int w = 0; w < W; ++w) store(c.row(i) + 16 * w, sum[i][w]);
}

template <int N, class T>
void multiply_add(Matrix<const float> a,
                  Stored<T> b,
                  Matrix<float> c,
                  int64_t first,
                  int64_t last,
                  int64_t n_col) {
  int64_t col = 0;
  for (; col + 16 * kWide <= n_col; col += 16 * kWide)
    multiply_add<N, kWide, T>(a, b.right(col), c.right(col), first, last, 0);
  for (; col + 16 <= n_col; col += 16)
    multiply_add<N, 1, T>(a, b.right(col), c.right(col), first, last, 0);
  const int n_part = static_cast<int>(n_col - col);
  if (n_part > 0) multiply_add<N, 1, T>(a, b.right(col), c.right(col), first, last, n_part);
}

// Calls f with the number n, 1 to kPairs, as a constant.
template <class F>
inline void by_number(int64_t n, F f) {
  switch (n) {
    case 1:
      return f(std::integral_constant<int, 1>{});
    case 2:
      return f(std::integral_constant<int, 2>{});
    case 3:
      return f(std::integral_constant<int, 3>{});
    default:
      return f(std::integral_constant<int, 4>{});
  }
}

// C[n_a, n_col] += A[n_a, first:last] B[first:last], summed by ascending column of A; n_a is at
// most kPairs, and rows of C are padded to whole vectors.
template <class T>
void multiply_add(int64_t n_a,
                  Matrix<const float> a,
                  Stored<T> b,
                  Matrix<float> c,
                  int64_t first,
                  int64_t last,
                  int64_t n_col) {
  if (first >= last) return;
  by_number(n_a, [&](auto pairs) { multiply_add<pairs, T>(a, b, c, first, last, n_col); });
}

// Partial softmax of each pair of a tile; l = 0 where a pair has seen nothing.
struct Partial {
  int64_t n_pair;
  float* m;         // [n_pair], padded to whole vectors
  float* l;         // likewise
  Matrix<float> o;  // [n_pair, head_dim], rows padded likewise

  static int64_t n_float(int64_t n_pair, int64_t width) {
    return 2 * whole_vectors(n_pair) + n_pair * width;
  }
  static Partial at(float* data, int64_t n_pair, int64_t width) {
    const int64_t n = whole_vectors(n_pair);
    return {n_pair, data, data + n, {data + 2 * n, width}};
  }
  void clear() const {
    std::fill_n(m, whole_vectors(n_pair), kNothing);
    std::fill_n(l, whole_vectors(n_pair), 0.0f);
    std::fill_n(o.data, n_pair * o.stride, 0.0f);
  }
};

// Joins `part` to `into`, pair by pair.
inline void fold(const Partial& into, const Partial& part) {
  alignas(64) float keep[16], join[16];
  for (int64_t i = 0; i < into.n_pair; i += 16) {
    const vf before = load(into.m + i), after = load(part.m + i), top = max(before, after);
    const vf k = exp(sub(before, top)), j = exp(sub(after, top));
    store(keep, k);
    store(join, j);
    store(into.m + i, top);
    store(into.l + i, fma(load(part.l + i), j, mul(load(into.l + i), k)));
    for (int64_t pair = i; pair < std::min(into.n_pair, i + 16); ++pair) {
      if (part.l[pair] == 0.0f) continue;
      const vf kept = set1(keep[pair - i]), joined = set1(join[pair - i]);
      float* o = into.o.row(pair);
      const float* added = part.o.row(pair);
      for (int64_t d = 0; d < into.o.stride; d += 16)
        store(o + d, fma(load(added + d), joined, mul(load(o + d), kept)));
    }
  }
}

// Positions of a block that a query sees: first <= j < last, counted from the block's own first.
struct Seen {
  int64_t first, last;
};

// Turns the 64 scores of a pair into e^(s - m), 0 where unseen.
inline void soften(float* scores, Seen seen, float* m, float* l) {
  constexpr float never = -std::numeric_limits<float>::infinity();
  std::fill(scores, scores + seen.first, never);
  std::fill(scores + seen.last, scores + kPositions, never);
  vf s[4];
  for (int i = 0; i < 4; ++i) s[i] = load(scores + 16 * i);
  *m = reduce_max(max(max(s[0], s[1]), max(s[2], s[3])));
  for (int i = 0; i < 4; ++i) {
    s[i] = exp(sub(s[i], set1(*m)));
    store(scores + 16 * i, s[i]);
  }
  *l = reduce_add(add(add(s[0], s[1]), add(s[2], s[3])));
}

// o += e^(s - m) V for up to kPairs pairs, each over exactly the positions it sees: what lies
// beyond may not even be multiplied by 0. `seen` rises from pair to pair at both ends.
template <class T>
void weigh(int64_t n,
           Matrix<const float> weights,
           Stored<T> v,
           Matrix<float> o,
           const Seen* seen,
           int64_t head_dim) {
  const int64_t first = seen[n - 1].first, last = std::max(first, seen[0].last);
  for (int64_t i = 0; i < n; ++i)
    multiply_add<T>(
        1, weights.below(i), v, o.below(i), seen[i].first, std::min(first, seen[i].last), head_dim);
  multiply_add<T>(n, weights, v, o, first, last, head_dim);
  for (int64_t i = 0; i < n; ++i)
    multiply_add<T>(1, weights.below(i), v, o.below(i), last, seen[i].last, head_dim);
}

}  // namespace

}  // namespace junto::JUNTO_ISA

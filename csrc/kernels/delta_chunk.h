// SPDX-License-Identifier: Apache-2.0
//
// The sums of the gated delta rule over one chunk of one head; delta_rule.cpp says which and walks.
//
// Every sum has one order, whatever block it is computed in: over rows of M0 and over list entries
// a chain in ascending order, with the S_v values as lanes; over the elements of two keys a chain
// of vectors and then reduce_add. Blocks of tokens, keys or rows only share loads.
//
// All rows are padded with zeros to whole vectors: n_k and n_v floats for S_k and S_v values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/delta_rule.h"
#include "simd/simd.h"

namespace junto::JUNTO_ISA {

using std::int64_t;

constexpr int64_t kList = kDeltaList;
constexpr bool kMany = kVectors >= 32;       // enough registers for the wide blocks
constexpr int64_t kRows = kMany ? 128 : 2;   // rows of M0 that a token alone takes at a time
constexpr int kBlockTokens = kMany ? 4 : 2;  // tokens that share a load of M0
constexpr int kBlockLanes = kMany ? 2 : 1;   // vectors of S_v in such a block
constexpr int kTokenLanes = kMany ? 8 : 2;   // the same for a token alone
constexpr int kBlockKeys = kMany ? 4 : 2;    // keys that share a load of k_t and q_t
constexpr int kFoldRows = 4;                 // rows of M0 that share a load of u
constexpr int kFoldLanes = kMany ? 4 : 1;

// What one thread knows of a chunk: list entries from before, then the new tokens of this piece.
struct Chunk {
  int64_t s_k, n_k, n_v;
  int64_t n_old, n_new;
  const float* key[kList];          // [n_k] each, normalised
  const float* u[kList];            // [n_v] each
  alignas(64) double total[kList];  // G of each entry

  float* new_keys;     // [n_new, n_k]
  float* new_queries;  // [n_new, n_k]
  float* new_u;        // [n_new, n_v]
  float* pairs;        // [n_new, 2, 64]    k_t.k_j, then q_t.k_j
  float* weights;      // [n_new, 2, 64]    the same, decayed from j to t
  float* sums;         // [n_new, 2, n_v]   k_t.M0, then q_t.M0
  float* fold_keys;    // [64, n_k]
  float* fold_u;       // [64, n_v]         decayed to the end of the chunk
};

inline vf load_up_to(const float* from, int64_t n) {
  return n >= 16 ? load(from) : load_part(from, static_cast<int>(n));
}

inline void store_up_to(float* to, vf x, int64_t n) {
  if (n >= 16) {
    store(to, x);
  } else {
    store_part(to, x, static_cast<int>(n));
  }
}

// x / sqrt(sum(x^2) + 1e-6) * scale.
inline void normalise(const float* x, int64_t n, float scale, float* to) {
  vf squares = set1(0.0f);
  for (int64_t i = 0; i < n; i += 16) {
    const vf part = load_up_to(x + i, n - i);
    squares = fma(part, part, squares);
  }
  const vf factor = set1(scale / std::sqrt(reduce_add(squares) + 1e-6f));
  for (int64_t i = 0; i < n; i += 16) store(to + i, mul(load_up_to(x + i, n - i), factor));
}

// Dots of k and of q with N keys.
template <int N>
inline void dots(const float* k, const float* q, const float* const* keys, int64_t n_k, float* to) {
  vf with_k[N], with_q[N];
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) with_k[i] = with_q[i] = set1(0.0f);
  for (int64_t s = 0; s < n_k; s += 16) {
    const vf k_part = load(k + s), q_part = load(q + s);
#pragma GCC unroll 8
    for (int i = 0; i < N; ++i) {
      const vf key = load(keys[i] + s);
      with_k[i] = fma(k_part, key, with_k[i]);
      with_q[i] = fma(q_part, key, with_q[i]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
    to[i] = reduce_add(with_k[i]);
    to[kList + i] = reduce_add(with_q[i]);
  }
}

// Fills `pairs` from the keys and queries: shared by the value heads of one key head.
inline void pair_keys(const Chunk& c) {
  for (int64_t t = 0; t < c.n_new; ++t) {
    const float* k = c.new_keys + t * c.n_k;
    const float* q = c.new_queries + t * c.n_k;
    float* to = c.pairs + t * 2 * kList;
    const int64_t end = c.n_old + t + 1;
    int64_t j = 0;
    for (; j + kBlockKeys <= end; j += kBlockKeys) dots<kBlockKeys>(k, q, c.key + j, c.n_k, to + j);
    for (; j < end; ++j) dots<1>(k, q, c.key + j, c.n_k, to + j);
  }
}

// e^G since the anchor, for the whole state.
inline float decay_of_state(const Chunk& c, int64_t entry) {
  alignas(64) float lanes[16];
  store(lanes, exp(set1(static_cast<float>(std::min(c.total[entry], 0.0)))));
  return lanes[0];
}

// e^(G_t - G_j) for 16 entries from j on; 1 for those after t.
inline vf decay_since(const Chunk& c, int64_t t, int64_t j) {
  alignas(64) float difference[16];
  for (int64_t i = 0; i < 16; ++i)
    difference[i] = static_cast<float>(std::min(c.total[t] - c.total[j + i], 0.0));
  return exp(load(difference));
}

// Fills `weights` from `pairs` and the decays of one value head.
inline void weigh_pairs(const Chunk& c) {
  for (int64_t t = 0; t < c.n_new; ++t) {
    const float* from = c.pairs + t * 2 * kList;
    float* to = c.weights + t * 2 * kList;
    for (int64_t j = 0; j <= c.n_old + t; j += 16) {
      const vf since = decay_since(c, c.n_old + t, j);
      store(to + j, mul(load(from + j), since));
      store(to + kList + j, mul(load(from + kList + j), since));
    }
  }
}

// Adds rows [first, last) of the state to k.M0 and q.M0 of T tokens, on V vectors of S_v.
template <int T, int V>
inline void add_rows(
    const Chunk& c, const float* state, int64_t first, int64_t last, int64_t token, int64_t lane) {
  float* sums = c.sums + token * 2 * c.n_v + lane;
  vf with_k[T][V], with_q[T][V];
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      with_k[t][v] = load(sums + 2 * t * c.n_v + 16 * v);
      with_q[t][v] = load(sums + (2 * t + 1) * c.n_v + 16 * v);
    }
  }
  const float* k = c.new_keys + token * c.n_k;
  const float* q = c.new_queries + token * c.n_k;
  for (int64_t s = first; s < last; ++s) {
    vf m[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) m[v] = load(state + s * c.n_v + lane + 16 * v);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const vf k_s = set1(k[t * c.n_k + s]), q_s = set1(q[t * c.n_k + s]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        with_k[t][v] = fma(k_s, m[v], with_k[t][v]);
        with_q[t][v] = fma(q_s, m[v], with_q[t][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      store(sums + 2 * t * c.n_v + 16 * v, with_k[t][v]);
      store(sums + (2 * t + 1) * c.n_v + 16 * v, with_q[t][v]);
    }
  }
}

// The same for all tokens on V vectors: blocks of them, then the rest.
template <int T, int V>
inline void add_rows(
    const Chunk& c, const float* state, int64_t first, int64_t last, int64_t lane) {
  int64_t t = 0;
  for (; t + T <= c.n_new; t += T) add_rows<T, V>(c, state, first, last, t, lane);
  for (; t < c.n_new; ++t) add_rows<1, V>(c, state, first, last, t, lane);
}

// The same for all of S_v.
template <int T, int V>
inline void add_rows(const Chunk& c, const float* state, int64_t first, int64_t last) {
  int64_t lane = 0;
  for (; lane + 16 * V <= c.n_v; lane += 16 * V) add_rows<T, V>(c, state, first, last, lane);
  for (; lane < c.n_v; lane += 16) add_rows<T, 1>(c, state, first, last, lane);
}

// Fills `sums` from the state [S_k, n_v] of one value head.
inline void sum_state(const Chunk& c, const float* state) {
  std::fill(c.sums, c.sums + c.n_new * 2 * c.n_v, 0.0f);
  if (c.n_new >= kBlockTokens) return add_rows<kBlockTokens, kBlockLanes>(c, state, 0, c.s_k);
  // A state that is read once comes from memory: walk it straight.
  for (int64_t first = 0; first < c.s_k; first += kRows)
    add_rows<1, kTokenLanes>(c, state, first, std::min(first + kRows, c.s_k));
}

// Values of the new tokens of one value head: row t at v + t * v_stride, beta likewise.
struct HeadRows {
  const float* v;
  const float* beta;
  float* y;
  int64_t v_stride, beta_stride, y_stride;
  int64_t s_v;
};

// Forward substitution on V vectors of S_v: fills `new_u` and y.
template <int V>
inline void correct_lanes(const Chunk& c, const HeadRows& rows, int64_t lane) {
  for (int64_t t = 0; t < c.n_new; ++t) {
    const float* weights = c.weights + t * 2 * kList;
    const float* sums = c.sums + t * 2 * c.n_v + lane;
    const int64_t entry = c.n_old + t;
    const vf whole = set1(decay_of_state(c, entry));
    vf pred[V], y[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      pred[v] = mul(whole, load(sums + 16 * v));
      y[v] = mul(whole, load(sums + c.n_v + 16 * v));
    }
    for (int64_t j = 0; j < entry; ++j) {
      const vf k_j = set1(weights[j]), q_j = set1(weights[kList + j]);
      const float* u = c.u[j] + lane;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const vf u_j = load(u + 16 * v);
        pred[v] = fma(k_j, u_j, pred[v]);
        y[v] = fma(q_j, u_j, y[v]);
      }
    }
    const vf beta = set1(rows.beta[t * rows.beta_stride]), q_t = set1(weights[kList + entry]);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const int64_t at = lane + 16 * v, left = rows.s_v - at;
      const vf u_t = mul(beta, sub(load_up_to(rows.v + t * rows.v_stride + at, left), pred[v]));
      store(c.new_u + t * c.n_v + at, u_t);
      store_up_to(rows.y + t * rows.y_stride + at, fma(q_t, u_t, y[v]), left);
    }
  }
}

inline void correct(const Chunk& c, const HeadRows& rows) {
  int64_t lane = 0;
  for (; lane + 16 * kTokenLanes <= c.n_v; lane += 16 * kTokenLanes)
    correct_lanes<kTokenLanes>(c, rows, lane);
  for (; lane < c.n_v; lane += 16) correct_lanes<1>(c, rows, lane);
}

// state <- e^G_64 state + sum of k_j u_j on R rows and V vectors of S_v.
template <int R, int V>
inline void fold_block(const Chunk& c, float* state, vf whole, int64_t row, int64_t lane) {
  vf m[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      m[r][v] = mul(whole, load(state + (row + r) * c.n_v + lane + 16 * v));
  for (int64_t j = 0; j < kList; ++j) {
    const float* k = c.fold_keys + j * c.n_k + row;
    vf u[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) u[v] = load(c.fold_u + j * c.n_v + lane + 16 * v);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const vf k_r = set1(k[r]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) m[r][v] = fma(k_r, u[v], m[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) store(state + (row + r) * c.n_v + lane + 16 * v, m[r][v]);
}

template <int V>
inline void fold_lanes(const Chunk& c, float* state, vf whole, int64_t lane) {
  int64_t row = 0;
  for (; row + kFoldRows <= c.s_k; row += kFoldRows)
    fold_block<kFoldRows, V>(c, state, whole, row, lane);
  for (; row < c.s_k; ++row) fold_block<1, V>(c, state, whole, row, lane);
}

// Puts the 64 entries of a full chunk into the state [S_k, n_v] of one value head.
inline void fold(const Chunk& c, float* state) {
  alignas(64) float since[kList];
  for (int64_t j = 0; j < kList; j += 16) store(since + j, decay_since(c, kList - 1, j));
  for (int64_t j = 0; j < kList; ++j) {
    for (int64_t s = 0; s < c.n_k; s += 16) store(c.fold_keys + j * c.n_k + s, load(c.key[j] + s));
    for (int64_t v = 0; v < c.n_v; v += 16)
      store(c.fold_u + j * c.n_v + v, mul(set1(since[j]), load(c.u[j] + v)));
  }
  const vf whole = set1(decay_of_state(c, kList - 1));
  int64_t lane = 0;
  for (; lane + 16 * kFoldLanes <= c.n_v; lane += 16 * kFoldLanes)
    fold_lanes<kFoldLanes>(c, state, whole, lane);
  for (; lane < c.n_v; lane += 16) fold_lanes<1>(c, state, whole, lane);
}

}  // namespace junto::JUNTO_ISA

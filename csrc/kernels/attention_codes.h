// SPDX-License-Identifier: Apache-2.0
//
// Keys and values of a block as codes with scales, Q8_0 (8 bits) or Q4_0 (4 bits):
//     value = code * scale
// One scale serves 32 values along head_dim of one position, as in GGUF's types of these names;
// scales [head_dim / 32, 64] lie apart, positions side by side, for keys and values alike.
//
//     keys    codes [head_dim, 64]       values    codes [64, head_dim]
//
// With 4 bits a byte holds two rows: that of an even row, plus 8, low, and that of the next high.
//
// Codes are multiplied as they are. For keys the sum over a group of dimensions is scaled,
//     q . k = sum over groups g of scale_g * (sum over d in g of q_d code_d)
// for values the weights are, w_j scale_j. That costs no more than reading float16, from half or a
// quarter of the bytes. (A tile of floats, made once for all queries, was 1.2 to 1.5 times slower
// in decode: its stores took longer than converting again.)
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention_block.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr int64_t kScaleGroup = 32;  // values along head_dim that share a scale

// The codes of one block and key head, and how far off those lie that are read after them.
struct CodeBlock {
  std::uint8_t* codes;
  f16* scales;
  int64_t to_next;
};

// Bytes of two rows.
template <int kBits>
constexpr int64_t bytes_of_rows(int64_t n_lane) {
  return kBits == 8 ? 2 * n_lane : n_lane;
}

// Sixteen lanes of two rows.
template <int kBits>
inline void read_rows(const std::uint8_t* from, int64_t n_lane, vf& even, vf& odd) {
  if constexpr (kBits == 8) {
    even = to_float(load_i8_i32(reinterpret_cast<const std::int8_t*>(from)));
    odd = to_float(load_i8_i32(reinterpret_cast<const std::int8_t*>(from + n_lane)));
  } else {
    const vi both = load_u8_i32(from);
    even = low_nibble_minus_8(both);
    odd = high_nibble_minus_8(both);
  }
}

// sum[N, W vectors] += A[N, n_row] codes[n_row, ...]; rows of codes have n_lane lanes.
template <int kBits, int N, int W>
inline void multiply_codes(Matrix<const float> a,
                           const std::uint8_t* codes,
                           int64_t to_next,
                           int64_t n_row,
                           int64_t n_lane,
                           vf (&sum)[N][W]) {
  for (int64_t j = 0; j < n_row; j += 2, codes += bytes_of_rows<kBits>(n_lane)) {
    if (to_next != 0) {
      prefetch_far(codes + to_next);
      if constexpr (kBits == 8) prefetch_far(codes + to_next + n_lane);
    }
    vf even[W], odd[W];
    for (int w = 0; w < W; ++w) read_rows<kBits>(codes + 16 * w, n_lane, even[w], odd[w]);
    for (int i = 0; i < N; ++i) {
      const vf x = set1(a.row(i)[j]), y = set1(a.row(i)[j + 1]);
      for (int w = 0; w < W; ++w) sum[i][w] = fma(y, odd[w], fma(x, even[w], sum[i][w]));
    }
  }
}

// scores [N, 64] = q . k
template <int kBits, int N>
void score_codes(Matrix<const float> q,
                 const CodeBlock& k,
                 int64_t head_dim,
                 Matrix<float> scores) {
  for (int i = 0; i < N; ++i) std::fill_n(scores.row(i), kPositions, 0.0f);
  for (int64_t d = 0; d < head_dim; d += kScaleGroup) {
    const std::uint8_t* codes = k.codes + bytes_of_rows<kBits>(kPositions) * (d / 2);
    const f16* scales = k.scales + d / kScaleGroup * kPositions;
    for (int64_t col = 0; col < kPositions; col += 16 * kWide) {
      vf sum[N][kWide];
      for (auto& row : sum)
        for (vf& lanes : row) lanes = set1(0.0f);
      const int64_t to_next = col == 0 ? k.to_next : 0;
      multiply_codes<kBits, N, kWide>(
          q.right(d), codes + col, to_next, kScaleGroup, kPositions, sum);
      for (int w = 0; w < kWide; ++w) {
        const vf scale = load_f16(scales + col + 16 * w);
        for (int i = 0; i < N; ++i) {
          float* to = scores.row(i) + col + 16 * w;
          store(to, fma(sum[i][w], scale, load(to)));
        }
      }
    }
  }
}

// o [N, head_dim] = weights [N, 64] v
template <int kBits, int N>
void weigh_codes(Matrix<const float> weights,
                 const CodeBlock& v,
                 int64_t head_dim,
                 Matrix<float> o) {
  constexpr int kColumns = std::min(kWide, 2);
  alignas(64) float scaled[N * kPositions];
  for (int64_t d = 0; d < head_dim; d += kScaleGroup) {
    const f16* scales = v.scales + d / kScaleGroup * kPositions;
    for (int64_t j = 0; j < kPositions; j += 16) {
      const vf scale = load_f16(scales + j);
      for (int i = 0; i < N; ++i)
        store(scaled + i * kPositions + j, mul(load(weights.row(i) + j), scale));
    }
    for (int64_t col = d; col < d + kScaleGroup; col += 16 * kColumns) {
      vf sum[N][kColumns];
      for (auto& row : sum)
        for (vf& lanes : row) lanes = set1(0.0f);
      const int64_t to_next = col % 64 == 0 ? v.to_next : 0;
      multiply_codes<kBits, N, kColumns>(
          {scaled, kPositions}, v.codes + col, to_next, kPositions, head_dim, sum);
      for (int i = 0; i < N; ++i)
        for (int w = 0; w < kColumns; ++w) store(o.row(i) + col + 16 * w, sum[i][w]);
    }
  }
}

// The scale of values between low and high: Q8_0 makes the largest magnitude 127, Q4_0 makes the
// value of largest magnitude -8, and of two that are equal the negative one. Rounded to float16.
template <int kBits>
inline float scale_of(float low, float high) {
  const float scale =
      kBits == 8 ? std::max(high, -low) / 127.0f : (-low >= high ? low : high) / -8.0f;
  alignas(64) float lanes[16];
  f16 half[16];
  store_f16(half, set1(scale));
  store(lanes, load_f16(half));
  return lanes[0];
}

// 32 values, `stride` apart -> their codes and their scale.
template <int kBits>
void quantise_group(const f16* x, int64_t stride, std::int8_t* codes, f16* scale) {
  alignas(64) float values[kScaleGroup];
  f16 half[16];
  for (int64_t i = 0; i < kScaleGroup; i += 16) {
    for (int64_t j = 0; j < 16; ++j) half[j] = x[(i + j) * stride];
    store(values + i, load_f16(half));
  }
  const vf a = load(values), b = load(values + 16);
  const float high = reduce_max(max(a, b));
  const float low = -reduce_max(max(sub(set1(0.0f), a), sub(set1(0.0f), b)));
  const float divisor = scale_of<kBits>(low, high);
  store_f16(half, set1(divisor));
  *scale = half[0];
  constexpr float least = kBits == 8 ? -127.0f : -8.0f, most = kBits == 8 ? 127.0f : 7.0f;
  for (int64_t i = 0; i < kScaleGroup; i += 16) {
    const vf code = round(div(load(values + i), set1(divisor)));
    store(values + i, min(max(code, set1(least)), set1(most)));
  }
  for (int64_t i = 0; i < kScaleGroup; ++i)
    codes[i] = divisor == 0.0f ? std::int8_t{0} : static_cast<std::int8_t>(values[i]);
}

// Writes one code; with 4 bits that of an even row goes first.
template <int kBits>
inline void put_code(
    std::uint8_t* codes, int64_t n_lane, int64_t row, int64_t lane, std::int8_t code) {
  if constexpr (kBits == 8) {
    codes[row * n_lane + lane] = static_cast<std::uint8_t>(code);
  } else {
    std::uint8_t& both = codes[row / 2 * n_lane + lane];
    both = static_cast<std::uint8_t>(row % 2 == 0 ? code + 8 : both | (code + 8) << 4);
  }
}

// k [head_dim, 64] and v [64, head_dim] in float16 -> their codes and scales.
template <int kBits>
void quantise(
    const f16* k, const f16* v, int64_t head_dim, const CodeBlock& keys, const CodeBlock& values) {
  std::int8_t codes[kScaleGroup];
  for (int64_t d = 0; d < head_dim; d += kScaleGroup) {
    for (int64_t j = 0; j < kPositions; ++j) {
      const int64_t scale = d / kScaleGroup * kPositions + j;
      quantise_group<kBits>(k + d * kPositions + j, kPositions, codes, keys.scales + scale);
      for (int64_t i = 0; i < kScaleGroup; ++i)
        put_code<kBits>(keys.codes, kPositions, d + i, j, codes[i]);
      quantise_group<kBits>(v + j * head_dim + d, 1, codes, values.scales + scale);
      for (int64_t i = 0; i < kScaleGroup; ++i)
        put_code<kBits>(values.codes, head_dim, j, d + i, codes[i]);
    }
  }
}

}  // namespace

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// What the files quantize_*.cpp share: sixteen blocks side by side, one a lane. Products and sums
// are kept apart (no fma), so that every level gives the same bits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/quantize.h"
#include "simd/simd.h"

namespace junto::JUNTO_ISA {

using u8 = std::uint8_t;
using u16 = std::uint16_t;

inline constexpr float kLargestF16 = 65504.0f;
inline constexpr float kSmallestF16 = 0x1p-24f;
inline constexpr float kHuge = 3e38f;

// With importance: how many deviations the codes reach where far values may count for little.
inline constexpr float kReaches[] = {1.6f, 2.1f, 2.7f, 3.4f};

// The nearest whole number, ties to even.
inline vf nearest(vf x) { return round(x); }
inline vf clamp(vf x, float low, float high) { return max(min(x, set1(high)), set1(low)); }
inline vf multiply_add(vf x, vf y, vf sum) { return add(sum, mul(x, y)); }
inline vf square(vf x) { return mul(x, x); }
inline vf negative(vf x) { return sub(set1(0.0f), x); }

// 1 / x, and 0 for 0.
inline vf inverse(vf x) { return select(less(set1(0.0f), abs(x)), div(set1(1.0f), x), set1(0.0f)); }

inline vf square_root(vf x) {
  float lanes[16];
  store(lanes, x);
  for (float& lane : lanes) lane = std::sqrt(lane);
  return load(lanes);
}

// The float16 nearest to x, as a float; but only 0 becomes 0.
inline vf as_f16(vf x) {
  const vf size = clamp(abs(x), kSmallestF16, kLargestF16);
  const vf zero = set1(0.0f);
  x = select(less(x, zero), negative(size), select(less(zero, x), size, zero));
  alignas(32) u16 halves[16];
  store_f16(halves, x);
  return load_f16(halves);
}

// Sixteen blocks of N values with their importance; lane j of x[i] is value i of block j.
template <int N, bool kWeighted>
struct Lanes {
  vf x[N];
  vf w[kWeighted ? N : 1];

  Lanes(const float* values, const float* importance) {
    load(values, x);
    if constexpr (kWeighted) load(importance, w);
  }
  // v times the importance of value i.
  vf weighed(int i, vf v) const {
    if constexpr (kWeighted) return mul(w[i], v);
    return v;
  }
  vf total_weight() const {
    if constexpr (!kWeighted) return set1(static_cast<float>(N));
    vf sum = set1(0.0f);
    for (const vf& lane : w) sum = add(sum, lane);
    return sum;
  }

 private:
  static void load(const float* from, vf (&to)[N]) {
    for (int part = 0; part < N; part += 16) {
      vf t[16];
      for (int j = 0; j < 16; ++j) t[j] = JUNTO_ISA::load(from + N * j + part);
      transpose(t);
      for (int i = 0; i < 16; ++i) to[part + i] = t[i];
    }
  }
};

// Codes [N] of sixteen lanes to bytes [16, N]; negative codes by their low byte.
template <int N>
inline void store_codes(const vf (&codes)[N], u8* to) {
  for (int part = 0; part < N; part += 16) {
    vf t[16];
    for (int i = 0; i < 16; ++i) t[i] = codes[part + i];
    transpose(t);
    for (int j = 0; j < 16; ++j) store_low_bytes(to + N * j + part, t[j]);
  }
}

// Two codes a byte: code i in the low half, code i + n / 2 in the high one.
inline void pack_nibbles(const u8* codes, int n, u8* to) {
  for (int i = 0; i < n / 2; ++i)
    to[i] = static_cast<u8>((codes[i] & 15) | (codes[i + n / 2] << 4));
}

// The low two bits of 128 codes: byte i holds codes i, i + 32, i + 64, i + 96, lowest first.
inline void pack_pairs(const u8* codes, u8* to) {
  for (int i = 0; i < 32; ++i) {
    int pairs = 0;
    for (int k = 0; k < 4; ++k) pairs |= (codes[32 * k + i] & 3) << 2 * k;
    to[i] = static_cast<u8>(pairs);
  }
}

// Bit i is the fifth bit of code i, of 32.
inline void pack_fifth_bits(const u8* codes, u8* to) {
  std::uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= (codes[i] >> 4 & 1u) << i;
  std::memcpy(to, &bits, sizeof bits);
}

// The value of largest size in each lane, with its sign.
template <int N, bool kWeighted>
inline vf extreme_of(const Lanes<N, kWeighted>& block) {
  vf low = block.x[0], high = block.x[0];
  for (int i = 1; i < N; ++i) {
    low = min(low, block.x[i]);
    high = max(high, block.x[i]);
  }
  return select(less(high, negative(low)), low, high);
}

// The square root of the mean w x^2.
template <int N, bool kWeighted>
inline vf deviation_of(const Lanes<N, kWeighted>& block) {
  vf xx = set1(0.0f);
  for (int i = 0; i < N; ++i) xx = add(xx, block.weighed(i, square(block.x[i])));
  return square_root(div(xx, block.total_weight()));
}

// The largest step of which all x - from are multiples, if no more than 255 such steps make the
// largest of them; else 0. Values that were quantised before have one, others do not.
// Euclid's algorithm, given up as soon as a remainder is too small to be a step.
template <int N>
inline vf common_step(const vf (&x)[N], vf from, vf largest) {
  const vf zero = set1(0.0f), smallest = mul(largest, set1(1.0f / 256));
  vf step = zero, sound = set1(1.0f);
  for (int i = 0; i < N; ++i) {
    vf rest = mul(abs(sub(x[i], from)), sound);
    while (any(less(zero, rest))) {
      const vf big = max(step, rest), small = min(step, rest);
      const vf times = nearest(min(div(big, small), set1(1024.0f)));
      vf left = abs(sub(big, mul(small, times)));
      left = select(less(left, mul(small, set1(0x1p-10f))), zero, left);
      sound = select(less(zero, left), select(less(left, smallest), zero, sound), sound);
      const auto first = less(small, smallest);  // nothing to divide by yet
      step = select(first, big, small);
      rest = select(first, zero, left);
      rest = mul(rest, sound);
    }
    if (!any(less(zero, sound))) return zero;
  }
  return mul(step, sound);
}

inline void put_half(u8* to, u16 half) { std::memcpy(to, &half, 2); }

// Calls f<true> where there are weights, f<false> where there are none.
#define JUNTO_WEIGHTED(f) \
  [](const float* x, const float* w, u8* out) { w ? f<true>(x, w, out) : f<false>(x, w, out); }

// One table a file of quantize_*.cpp.
std::vector<Quantizer> plain_quantizers();
std::vector<Quantizer> scaled_quantizers();
std::vector<Quantizer> affine_quantizers();
std::vector<Quantizer> table_quantizers();
std::vector<Quantizer> k_scaled_quantizers();
std::vector<Quantizer> k_affine_quantizers();

}  // namespace junto::JUNTO_ISA

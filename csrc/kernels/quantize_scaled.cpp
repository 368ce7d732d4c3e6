// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 32 values with a scale: value = d * q (Q8_0, Q5_0, Q4_0).
//
// The sum of w (x - d q)^2 is made small by trying scales d around the plain one, which maps the
// largest value to the last code. For few codes each try takes the best d for its q,
// sum(w x q) / sum(w q^2); with many, the tries are as dense as that. Where little error is left,
// the winner is measured, rounded to float16, against the plain scale and a step that all values
// share.
//
//   Q8_0   0:2 d (f16), 2:34 q (i8)
//   Q5_0   0:2 d (f16), 2:6 fifth bits, 6:22 nibbles of q + 16
//   Q4_0   0:2 d (f16), 2:18 nibbles of q + 8

#include "kernels/quantize_lanes.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr int kN = 32;
template <bool kWeighted>
using Block = Lanes<kN, kWeighted>;

// kEnd is the code of the largest value in the plain choice. Tries are codes that it would have;
// with importance, far ones are worth a try, and turned ones, which give d the other sign.
struct Q8_0 {
  static constexpr float kLow = -128, kHigh = 127, kEnd = 127, kLowTry = -127.9f;
  static constexpr float kTries[] = {
      127.4f, 126.5f, 126, 125.5f, 125, 124.5f, 124, 123.5f, 123, 122, 121};
  static constexpr float kFarTries[] = {120, 119, 118, 117};
};
struct Q5_0 {
  static constexpr float kLow = -16, kHigh = 15, kEnd = -16;
  static constexpr float kTries[] = {-16.4f, -16.0f, -15.5f, -15.0f, -14.5f, -14.0f, -13.5f};
  static constexpr float kFarTries[] = {
      -21.0f, -19.5f, -18.5f, -17.7f, -17.1f, -16.7f, -15.8f, -15.2f, -14.7f, -13.0f};
  static constexpr float kTurnedTries[] = {14.0f, 14.5f, 15.0f, 15.5f, 16.0f, 17.0f};
};
struct Q4_0 {
  static constexpr float kLow = -8, kHigh = 7, kEnd = -8;
  static constexpr float kTries[] = {-8.3f, -7.7f, -7.1f, -6.5f};
  static constexpr float kFarTries[] = {
      -12, -10.5f, -9.5f, -9, -8.6f, -8, -7.4f, -6.8f, -6.2f, -5.8f, -5.4f, -5};
  static constexpr float kTurnedTries[] = {5.5f, 6.0f, 6.4f, 6.8f, 7.2f, 7.6f, 8.0f, 9.0f};
};

template <class T>
vf code(vf x, vf inverse_d) {
  return clamp(nearest(mul(x, inverse_d)), T::kLow, T::kHigh);
}

template <class T, bool kWeighted>
vf error_of(const Block<kWeighted>& block, vf d) {
  const vf inverse_d = inverse(d);
  vf error = set1(0.0f);
  for (int i = 0; i < kN; ++i) {
    const vf off = sub(block.x[i], mul(d, code<T>(block.x[i], inverse_d)));
    error = add(error, block.weighed(i, square(off)));
  }
  return error;
}

struct Choice {
  vf d, error;
};

template <class T, bool kWeighted>
void try_scale(const Block<kWeighted>& block, vf d, Choice& best) {
  d = as_f16(d);
  const vf error = error_of<T>(block, d);
  const auto better = less(error, best.error);
  best = {select(better, d, best.d), select(better, error, best.error)};
}

struct Sums {
  vf xq, qq;  // of w x q and of w q q
};
template <class T, bool kWeighted>
Sums sums(const Block<kWeighted>& block, vf inverse_d) {
  Sums of{set1(0.0f), set1(0.0f)};
  for (int i = 0; i < kN; ++i) {
    const vf q = code<T>(block.x[i], inverse_d), wq = block.weighed(i, q);
    of.xq = multiply_add(block.x[i], wq, of.xq);
    of.qq = multiply_add(q, wq, of.qq);
  }
  return of;
}

// A scale, and how much less than sum w x^2 its codes leave.
struct Fitted {
  vf d, gain;
};
template <class T, bool kWeighted>
void try_codes(const Block<kWeighted>& block, vf inverse_d, Fitted& best) {
  const Sums of = sums<T>(block, inverse_d);
  const vf d = div(of.xq, of.qq), gain = mul(of.xq, d);
  const auto better = less(best.gain, gain);
  best = {select(better, d, best.d), select(better, gain, best.gain)};
}

// The scale whose codes, refitted, gain most.
template <class T, bool kWeighted>
Fitted best_fit(const Block<kWeighted>& block, vf extreme) {
  const vf inverse_extreme = inverse(extreme);
  Fitted best{set1(0.0f), set1(0.0f)};
  for (const float end : T::kTries) try_codes<T>(block, mul(inverse_extreme, set1(end)), best);
  if constexpr (kWeighted) {
    for (const float end : T::kFarTries) try_codes<T>(block, mul(inverse_extreme, set1(end)), best);
    const vf inverse_deviation = inverse(deviation_of(block));
    for (const float reach : kReaches)
      try_codes<T>(block, mul(inverse_deviation, set1(T::kEnd / reach)), best);
  }
  return best;
}

// If all codes have a factor, the step has it too, and may be no float16.
template <class T, bool kWeighted>
void try_common_step(const Block<kWeighted>& block, vf extreme, Choice& best) {
  const vf step = common_step(block.x, set1(0.0f), abs(extreme));
  if (!any(less(set1(0.0f), step))) return;
  for (const float factor : {1.0f, 3.0f, 5.0f, 7.0f, 9.0f, 11.0f, 13.0f, 15.0f}) {
    const vf d = mul(step, set1(1 / factor));
    try_scale<T>(block, d, best);
    try_scale<T>(block, negative(d), best);
  }
}

// For many codes, nearly as far up as down: d is positive unless only -128 holds the largest.
template <class T, bool kWeighted>
vf measured_scale(const Block<kWeighted>& block) {
  const vf extreme = extreme_of(block), size = abs(extreme);
  Choice best{set1(0.0f), set1(kHuge)};
  try_scale<T>(block, mul(size, set1(1.0f / T::kEnd)), best);
  for (const float end : T::kTries) try_scale<T>(block, mul(size, set1(1.0f / end)), best);
  try_scale<T>(block, mul(extreme, set1(1.0f / T::kLowTry)), best);
  if constexpr (kWeighted)
    for (const float end : T::kFarTries) try_scale<T>(block, mul(size, set1(1.0f / end)), best);
  try_common_step<T>(block, extreme, best);
  return best.d;
}

// For few codes.
template <class T, bool kWeighted>
vf fitted_scale(const Block<kWeighted>& block, bool may_have_step) {
  const vf extreme = extreme_of(block), plain = as_f16(mul(extreme, set1(1.0f / T::kEnd)));
  const Fitted fitted = best_fit<T>(block, extreme);
  if constexpr (!kWeighted) {
    const Sums of = sums<T>(block, inverse(plain));
    const vf plain_gain = mul(plain, sub(add(of.xq, of.xq), mul(plain, of.qq)));
    vf xx = set1(0.0f);
    for (const vf& x : block.x) xx = add(xx, square(x));
    const auto near = less(sub(xx, max(plain_gain, fitted.gain)), mul(xx, set1(1e-4f)));
    if (!may_have_step && !any(near))
      return select(less(plain_gain, fitted.gain), as_f16(fitted.d), plain);
  }
  Choice best{plain, error_of<T>(block, plain)};
  try_scale<T>(block, fitted.d, best);
  for (int round = 0; round < 2; ++round) {
    const Sums of = sums<T>(block, inverse(best.d));
    try_scale<T>(block, div(of.xq, of.qq), best);
  }
  try_common_step<T>(block, extreme, best);
  return best.d;
}

// Products of a float16 and a code of 8 bits have 19 bits: the last five of a float are zero.
bool may_share_step(const float* x) {
  for (int j = 0; j < 16; ++j) {
    std::uint32_t all = 0;
    for (int i = 0; i < kN; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, x + kN * j + i, sizeof bits);
      all |= bits;
    }
    if ((all & 31u) == 0) return true;
  }
  return false;
}

// Codes [16, kN] plus offset, and scales.
template <class T, bool kWeighted>
void put_codes(const Block<kWeighted>& block, vf d, float offset, u8* codes, u16 (&scales)[16]) {
  const vf inverse_d = inverse(d);
  vf q[kN];
  for (int i = 0; i < kN; ++i) q[i] = add(code<T>(block.x[i], inverse_d), set1(offset));
  store_codes(q, codes);
  store_f16(scales, d);
}

template <bool kWeighted>
void q8_0(const float* x, const float* importance, u8* out) {
  u8 codes[16 * kN];
  alignas(32) u16 scales[16];
  const Block<kWeighted> block(x, importance);
  put_codes<Q8_0>(block, measured_scale<Q8_0>(block), 0, codes, scales);
  for (int j = 0; j < 16; ++j, out += 34) {
    put_half(out, scales[j]);
    std::memcpy(out + 2, codes + kN * j, kN);
  }
}

template <bool kWeighted>
void q5_0(const float* x, const float* importance, u8* out) {
  u8 codes[16 * kN];
  alignas(32) u16 scales[16];
  const Block<kWeighted> block(x, importance);
  const vf d = fitted_scale<Q5_0>(block, may_share_step(x));
  put_codes<Q5_0>(block, d, 16, codes, scales);
  for (int j = 0; j < 16; ++j, out += 22) {
    put_half(out, scales[j]);
    pack_fifth_bits(codes + kN * j, out + 2);
    pack_nibbles(codes + kN * j, kN, out + 6);
  }
}

template <bool kWeighted>
void q4_0(const float* x, const float* importance, u8* out) {
  u8 codes[16 * kN];
  alignas(32) u16 scales[16];
  const Block<kWeighted> block(x, importance);
  const vf d = fitted_scale<Q4_0>(block, may_share_step(x));
  put_codes<Q4_0>(block, d, 8, codes, scales);
  for (int j = 0; j < 16; ++j, out += 18) {
    put_half(out, scales[j]);
    pack_nibbles(codes + kN * j, kN, out + 2);
  }
}

}  // namespace

std::vector<Quantizer> scaled_quantizers() {
  return {{"Q8_0", kN, 34, 16, kLargestF16, JUNTO_WEIGHTED(q8_0)},
          {"Q5_0", kN, 22, 16, kLargestF16, JUNTO_WEIGHTED(q5_0)},
          {"Q4_0", kN, 18, 16, kLargestF16, JUNTO_WEIGHTED(q4_0)}};
}

}  // namespace junto::JUNTO_ISA

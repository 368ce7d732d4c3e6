// SPDX-License-Identifier: Apache-2.0
//
// simd.h on AArch64 with the dot product of Armv8.2: four registers for each vector. Where there
// are products of matrices of bytes (i8mm), these come in too.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "simd/prefetch.h"

namespace junto::JUNTO_ISA {

inline constexpr int kVectors = 8;  // whole vf that fit in registers

// Rows of activations that a product kernel keeps in registers: with four, GCC keeps most sums in
// memory, and has more to do.
inline constexpr int kRegisterRows = 2;

// Rows for which a product kernel has code of their own; the others share it in a loop.
inline constexpr int kUnrolledRows = 16;

// Whether there are products of matrices of bytes.
#if defined(__ARM_FEATURE_MATMUL_INT8)
inline constexpr bool kHasMatrix = true;
#else
inline constexpr bool kHasMatrix = false;
#endif

struct vf {
  float32x4_t a, b, c, d;
};
struct vi {
  int32x4_t a, b, c, d;
};
struct vb {
  uint8x16_t a, b, c, d;
};
struct mask {
  uint32x4_t a, b, c, d;
};

// f on each quarter.
template <class To, class F, class... From>
inline To quarters(const F& f, const From&... x) {
  return {f(x.a...), f(x.b...), f(x.c...), f(x.d...)};
}
using q_f32 = float32x4_t;
using q_i32 = int32x4_t;
using q_u32 = uint32x4_t;
using q_u8 = uint8x16_t;

inline vf set1(float x) {
  const q_f32 q = vdupq_n_f32(x);
  return {q, q, q, q};
}
inline vf load(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
inline void store(float* p, vf x) {
  vst1q_f32(p, x.a);
  vst1q_f32(p + 4, x.b);
  vst1q_f32(p + 8, x.c);
  vst1q_f32(p + 12, x.d);
}
inline vf add(vf x, vf y) {
  return quarters<vf>([](q_f32 p, q_f32 q) { return vaddq_f32(p, q); }, x, y);
}
inline vf sub(vf x, vf y) {
  return quarters<vf>([](q_f32 p, q_f32 q) { return vsubq_f32(p, q); }, x, y);
}
inline vf mul(vf x, vf y) {
  return quarters<vf>([](q_f32 p, q_f32 q) { return vmulq_f32(p, q); }, x, y);
}
inline vf div(vf x, vf y) {
  return quarters<vf>([](q_f32 p, q_f32 q) { return vdivq_f32(p, q); }, x, y);
}
// The second where one is not a number, as on x86; vminq and vmaxq give that one.
inline q_f32 min(q_f32 x, q_f32 y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
inline q_f32 max(q_f32 x, q_f32 y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
inline vf min(vf x, vf y) {
  return quarters<vf>([](q_f32 p, q_f32 q) { return min(p, q); }, x, y);
}
inline vf max(vf x, vf y) {
  return quarters<vf>([](q_f32 p, q_f32 q) { return max(p, q); }, x, y);
}
inline vf fma(vf x, vf y, vf z) {
  return quarters<vf>([](q_f32 p, q_f32 q, q_f32 r) { return vfmaq_f32(r, p, q); }, x, y, z);
}
inline vf fnma(vf x, vf y, vf z) {
  return quarters<vf>([](q_f32 p, q_f32 q, q_f32 r) { return vfmsq_f32(r, p, q); }, x, y, z);
}
inline vf abs(vf x) {
  return quarters<vf>([](q_f32 q) { return vabsq_f32(q); }, x);
}
inline vf round(vf x) {
  return quarters<vf>([](q_f32 q) { return vrndnq_f32(q); }, x);
}
inline mask less(vf x, vf y) {
  return quarters<mask>([](q_f32 p, q_f32 q) { return vcltq_f32(p, q); }, x, y);
}
inline bool any(mask m) {
  return vmaxvq_u32(vorrq_u32(vorrq_u32(m.a, m.b), vorrq_u32(m.c, m.d))) != 0;
}
inline vf select(mask m, vf x, vf y) {  // m ? x : y
  return quarters<vf>([](q_u32 n, q_f32 p, q_f32 q) { return vbslq_f32(n, p, q); }, m, x, y);
}
inline vf zero_where(mask m, vf x) { return select(m, set1(0.0f), x); }
inline q_f32 scale_by_power_of_two(q_f32 x, q_f32 n) {
  // Two halves, so that exponents below the normal range do not wrap.
  const q_i32 e = vcvtnq_s32_f32(n);
  const q_i32 half = vshrq_n_s32(e, 1), bias = vdupq_n_s32(127);
  const q_i32 one = vshlq_n_s32(vaddq_s32(half, bias), 23);
  const q_i32 two = vshlq_n_s32(vaddq_s32(vsubq_s32(e, half), bias), 23);
  return vmulq_f32(vmulq_f32(x, vreinterpretq_f32_s32(one)), vreinterpretq_f32_s32(two));
}
inline vf scale_by_power_of_two(vf x, vf n) {
  return quarters<vf>([](q_f32 p, q_f32 q) { return scale_by_power_of_two(p, q); }, x, n);
}

// Fixed order: lanes 8 apart, then 4, 2, 1.
inline float reduce_add(vf x) {
  const q_f32 quarter = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  const float32x2_t pair = vadd_f32(vget_low_f32(quarter), vget_high_f32(quarter));
  return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
}
inline float reduce_max(vf x) {
  float lanes[4];
  vst1q_f32(lanes, max(max(x.a, x.c), max(x.b, x.d)));
  const float even = lanes[0] > lanes[2] ? lanes[0] : lanes[2];
  const float odd = lanes[1] > lanes[3] ? lanes[1] : lanes[3];
  return even > odd ? even : odd;
}

inline vf load_f16(const std::uint16_t* p) {
  const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(p));
  const float16x8_t high = vreinterpretq_f16_u16(vld1q_u16(p + 8));
  return {vcvt_f32_f16(vget_low_f16(low)),
          vcvt_high_f32_f16(low),
          vcvt_f32_f16(vget_low_f16(high)),
          vcvt_high_f32_f16(high)};
}
inline vf load_bf16(const std::uint16_t* p) {
  const auto widen = [](const std::uint16_t* from) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
  };
  return {widen(p), widen(p + 4), widen(p + 8), widen(p + 12)};
}
inline void store_f16(std::uint16_t* p, vf x) {
  const float16x8_t low = vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b);
  const float16x8_t high = vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d);
  vst1q_u16(p, vreinterpretq_u16_f16(low));
  vst1q_u16(p + 8, vreinterpretq_u16_f16(high));
}

// The low bytes of 16 whole numbers.
inline void store_low_bytes(std::uint8_t* p, vf x) {
  const vi n = quarters<vi>([](q_f32 q) { return vcvtnq_s32_f32(q); }, x);
  const int16x8_t low = vcombine_s16(vmovn_s32(n.a), vmovn_s32(n.b));
  const int16x8_t high = vcombine_s16(vmovn_s32(n.c), vmovn_s32(n.d));
  vst1q_u8(p, vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(low), vmovn_s16(high))));
}

inline void transpose(q_f32& w, q_f32& x, q_f32& y, q_f32& z) {
  const float64x2_t even_low = vreinterpretq_f64_f32(vtrn1q_f32(w, x));
  const float64x2_t odd_low = vreinterpretq_f64_f32(vtrn2q_f32(w, x));
  const float64x2_t even_high = vreinterpretq_f64_f32(vtrn1q_f32(y, z));
  const float64x2_t odd_high = vreinterpretq_f64_f32(vtrn2q_f32(y, z));
  w = vreinterpretq_f32_f64(vtrn1q_f64(even_low, even_high));
  x = vreinterpretq_f32_f64(vtrn1q_f64(odd_low, odd_high));
  y = vreinterpretq_f32_f64(vtrn2q_f64(even_low, even_high));
  z = vreinterpretq_f32_f64(vtrn2q_f64(odd_low, odd_high));
}
// Lane j of vector i becomes lane i of vector j.
inline void transpose(vf (&x)[16]) {
  vf y[16];
  for (int i = 0; i < 4; ++i) {
    vf* v = x + 4 * i;
    transpose(v[0].a, v[1].a, v[2].a, v[3].a);
    transpose(v[0].b, v[1].b, v[2].b, v[3].b);
    transpose(v[0].c, v[1].c, v[2].c, v[3].c);
    transpose(v[0].d, v[1].d, v[2].d, v[3].d);
  }
  for (int j = 0; j < 4; ++j) {
    y[j] = {x[j].a, x[4 + j].a, x[8 + j].a, x[12 + j].a};
    y[4 + j] = {x[j].b, x[4 + j].b, x[8 + j].b, x[12 + j].b};
    y[8 + j] = {x[j].c, x[4 + j].c, x[8 + j].c, x[12 + j].c};
    y[12 + j] = {x[j].d, x[4 + j].d, x[8 + j].d, x[12 + j].d};
  }
  for (int i = 0; i < 16; ++i) x[i] = y[i];
}

inline vi set1_i32(std::int32_t x) {
  const q_i32 q = vdupq_n_s32(x);
  return {q, q, q, q};
}
inline vi widen(int16x8_t low, int16x8_t high) {
  return {vmovl_s16(vget_low_s16(low)),
          vmovl_high_s16(low),
          vmovl_s16(vget_low_s16(high)),
          vmovl_high_s16(high)};
}
inline vi widen(q_u8 x) {
  return widen(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x))),
               vreinterpretq_s16_u16(vmovl_high_u8(x)));
}
inline vi load_u8_i32(const std::uint8_t* p) { return widen(vld1q_u8(p)); }
inline vi load_i8_i32(const std::int8_t* p) {
  const int8x16_t x = vld1q_s8(p);
  return widen(vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x));
}
inline vi add_i32(vi x, vi y) {
  return quarters<vi>([](q_i32 p, q_i32 q) { return vaddq_s32(p, q); }, x, y);
}
inline vi max_i32(vi x, vi y) {
  return quarters<vi>([](q_i32 p, q_i32 q) { return vmaxq_s32(p, q); }, x, y);
}
inline vi and_i32(vi x, std::int32_t m) {
  const q_i32 keep = vdupq_n_s32(m);
  return quarters<vi>([=](q_i32 q) { return vandq_s32(q, keep); }, x);
}
inline vf to_float(vi x) {
  return quarters<vf>([](q_i32 q) { return vcvtq_f32_s32(q); }, x);
}
inline vi shift_left(vi x, int n) {
  const q_i32 by = vdupq_n_s32(n);
  return quarters<vi>([=](q_i32 q) { return vshlq_s32(q, by); }, x);
}
inline vi shift_right(vi x, int n) { return shift_left(x, -n); }
// The low, or the next, four bits of each lane less 8, as a float.
inline vf low_nibble_minus_8(vi x) { return to_float(add_i32(and_i32(x, 15), set1_i32(-8))); }
inline vf high_nibble_minus_8(vi x) { return low_nibble_minus_8(shift_right(x, 4)); }
inline vf bits_to_float(vi x) {
  return quarters<vf>([](q_i32 q) { return vreinterpretq_f32_s32(q); }, x);
}

inline vi load_u4_i32(const std::uint8_t* p) {
  const uint8x8_t both = vld1_u8(p);
  return widen(vcombine_u8(vand_u8(both, vdup_n_u8(15)), vshr_n_u8(both, 4)));
}
// 0xFF in the bytes whose bits are set.
inline q_u8 bytes_of_bits(unsigned int bits) {
  alignas(16) static constexpr std::uint8_t kOwn[16] = {
      1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const uint8x8_t low = vdup_n_u8(static_cast<std::uint8_t>(bits));
  const uint8x8_t high = vdup_n_u8(static_cast<std::uint8_t>(bits >> 8));
  return vtstq_u8(vcombine_u8(low, high), vld1q_u8(kOwn));
}
inline vi load_bits_i32(const std::uint8_t* p) {
  return widen(vandq_u8(bytes_of_bits(p[0] | static_cast<unsigned int>(p[1]) << 8), vdupq_n_u8(1)));
}

inline vb load_bytes(const std::uint8_t* p) {
  return {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)};
}
inline vb shifted_and(vb x, int n, std::uint8_t m) {
  const int8x16_t by = vdupq_n_s8(static_cast<std::int8_t>(-n));
  const q_u8 keep = vdupq_n_u8(m);
  return quarters<vb>([=](q_u8 q) { return vandq_u8(vshlq_u8(q, by), keep); }, x);
}
inline vb low_nibbles(vb x) {
  const q_u8 keep = vdupq_n_u8(15);
  return quarters<vb>([=](q_u8 q) { return vandq_u8(q, keep); }, x);
}
inline vb high_nibbles(vb x) {
  return quarters<vb>([](q_u8 q) { return vshrq_n_u8(q, 4); }, x);
}
inline vb or_shifted(vb x, vb y, int n) {
  const int8x16_t by = vdupq_n_s8(static_cast<std::int8_t>(n));
  return quarters<vb>([=](q_u8 p, q_u8 q) { return vorrq_u8(p, vshlq_u8(q, by)); }, x, y);
}

inline vb add_bytes(vb x, vb y) {
  return quarters<vb>([](q_u8 p, q_u8 q) { return vaddq_u8(p, q); }, x, y);
}
inline vb thirds(vb x) {
  return quarters<vb>(
      [](q_u8 q) {  // comparisons give -1
        const q_u8 one = vcgtq_u8(q, vdupq_n_u8(85)), two = vcgtq_u8(q, vdupq_n_u8(170));
        return vsubq_u8(vdupq_n_u8(0), vaddq_u8(one, two));
      },
      x);
}
inline vb plus_or_minus(std::uint8_t offset, vb x, std::uint64_t minus) {
  const q_u8 middle = vdupq_n_u8(offset);
  const auto part = [=](q_u8 q, int n) {
    const q_u8 flip = bytes_of_bits(static_cast<unsigned int>(minus >> (16 * n)));
    return vaddq_u8(middle, vsubq_u8(veorq_u8(q, flip), flip));
  };
  return {part(x.a, 0), part(x.b, 1), part(x.c, 2), part(x.d, 3)};
}
inline vb gather(const std::int32_t* table, vi index) {
  const auto part = [=](q_i32 i) {
    q_i32 words = vdupq_n_s32(table[vgetq_lane_s32(i, 0)]);
    words = vsetq_lane_s32(table[vgetq_lane_s32(i, 1)], words, 1);
    words = vsetq_lane_s32(table[vgetq_lane_s32(i, 2)], words, 2);
    words = vsetq_lane_s32(table[vgetq_lane_s32(i, 3)], words, 3);
    return vreinterpretq_u8_s32(words);
  };
  return quarters<vb>(part, index);
}

struct lut16 {
  q_u8 v;
};
inline lut16 load_lut(const std::uint8_t* table) { return {vld1q_u8(table)}; }
inline vb look_up(lut16 table, vb codes) {
  return quarters<vb>([=](q_u8 q) { return vqtbl1q_u8(table.v, q); }, codes);
}

inline int8x16_t repeat_four(const std::int8_t* a) {
  std::int32_t four;
  __builtin_memcpy(&four, a, 4);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

#if defined(__ARM_FEATURE_MATMUL_INT8)

inline vi dot4(vi acc, vb w, const std::int8_t* a) {
  const int8x16_t v = repeat_four(a);
  return quarters<vi>([=](q_i32 sum, q_u8 q) { return vusdotq_s32(sum, q, v); }, acc, w);
}
inline constexpr int kWideOffset = 128;
inline vi dot4_wide(vi acc, vb w, const std::int8_t* a) { return dot4(acc, w, a); }

// An instruction multiplies 2 outputs of 8 k-values with 2 rows. That takes codes zipped, two
// vectors at a time, and the sums of both rows in one place.
struct vi2 {
  vi low, high;  // outputs 0-1 (high: 2-3), 4-5, 8-9, 12-13; of each the first row, then the second
};
inline vi2 join_rows(vi x, vi y) {
  return {quarters<vi>([](q_i32 p, q_i32 q) { return vzip1q_s32(p, q); }, x, y),
          quarters<vi>([](q_i32 p, q_i32 q) { return vzip2q_s32(p, q); }, x, y)};
}
inline vi first_row(vi2 x) {
  return quarters<vi>([](q_i32 p, q_i32 q) { return vuzp1q_s32(p, q); }, x.low, x.high);
}
inline vi second_row(vi2 x) {
  return quarters<vi>([](q_i32 p, q_i32 q) { return vuzp2q_s32(p, q); }, x.low, x.high);
}
inline q_u8 zip_low(q_u8 x, q_u8 y) {
  return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(x), vreinterpretq_u32_u8(y)));
}
inline q_u8 zip_high(q_u8 x, q_u8 y) {
  return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(x), vreinterpretq_u32_u8(y)));
}
inline void zip_codes(vb& x, vb& y) {
  const vb low = quarters<vb>([](q_u8 p, q_u8 q) { return zip_low(p, q); }, x, y);
  y = quarters<vb>([](q_u8 p, q_u8 q) { return zip_high(p, q); }, x, y);
  x = low;
}
inline vi2 dot8(vi2 acc, vb low, vb high, int8x16_t rows) {
  const auto part = [=](q_i32 sum, q_u8 q) { return vusmmlaq_s32(sum, q, rows); };
  return {quarters<vi>(part, acc.low, low), quarters<vi>(part, acc.high, high)};
}
// Adds the products of four zipped vectors with 16 activations of each of two rows.
inline vi2 dot16(vi2 acc, const vb* w, const std::int8_t* first, const std::int8_t* second) {
  const int64x2_t x = vreinterpretq_s64_s8(vld1q_s8(first));
  const int64x2_t y = vreinterpretq_s64_s8(vld1q_s8(second));
  acc = dot8(acc, w[0], w[1], vreinterpretq_s8_s64(vzip1q_s64(x, y)));
  return dot8(acc, w[2], w[3], vreinterpretq_s8_s64(vzip2q_s64(x, y)));
}

#else

// The machine multiplies signed bytes; codes of up to 127 are the same either way.
inline vi dot4(vi acc, vb w, const std::int8_t* a) {
  const int8x16_t v = repeat_four(a);
  return quarters<vi>(
      [=](q_i32 sum, q_u8 q) { return vdotq_s32(sum, vreinterpretq_s8_u8(q), v); }, acc, w);
}

// The same for codes that use all 8 bits, stored plus 128: back to signed, so no offset is left.
inline constexpr int kWideOffset = 0;
inline vi dot4_wide(vi acc, vb w, const std::int8_t* a) {
  const q_u8 sign = vdupq_n_u8(0x80);
  return dot4(acc, quarters<vb>([=](q_u8 q) { return veorq_u8(q, sign); }, w), a);
}

#endif

// Four dot4 one after the other, of codes below 32.
inline vi dot16_small(vi acc, const vb* w, const std::int8_t* a) {
  for (int i = 0; i < 4; ++i) acc = dot4(acc, w[i], a + 4 * i);
  return acc;
}

}  // namespace junto::JUNTO_ISA

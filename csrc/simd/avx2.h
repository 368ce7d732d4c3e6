// SPDX-License-Identifier: Apache-2.0
//
// simd.h on AVX2 with FMA and F16C, with or without AVX-VNNI: two registers for each vector.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "simd/prefetch.h"

namespace junto::JUNTO_ISA {

inline constexpr int kVectors = 8;  // whole vf that fit in registers

// Rows of activations that a product kernel keeps in registers.
inline constexpr int kRegisterRows = 4;

// Rows for which a product kernel has code of their own; the others share it in a loop.
inline constexpr int kUnrolledRows = 16;

// Whether there are products of matrices of bytes: see neon.h.
inline constexpr bool kHasMatrix = false;

struct vf {
  __m256 a, b;
};
struct vi {
  __m256i a, b;
};
struct vb {
  __m256i a, b;
};
struct mask {
  __m256 a, b;
};

inline vf set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline vf load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, vf x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
inline vf add(vf x, vf y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline vf sub(vf x, vf y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline vf mul(vf x, vf y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline vf div(vf x, vf y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline vf min(vf x, vf y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline vf max(vf x, vf y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline vf fma(vf x, vf y, vf z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline vf fnma(vf x, vf y, vf z) {
  return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
inline vf abs(vf x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline vf round(vf x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(x.a, mode), _mm256_round_ps(x.b, mode)};
}
inline mask less(vf x, vf y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
inline bool any(mask m) { return _mm256_movemask_ps(_mm256_or_ps(m.a, m.b)) != 0; }
inline vf select(mask m, vf x, vf y) {  // m ? x : y
  return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
}
inline vf zero_where(mask m, vf x) {
  return {_mm256_andnot_ps(m.a, x.a), _mm256_andnot_ps(m.b, x.b)};
}
inline __m256 scale_by_power_of_two(__m256 x, __m256 n) {
  // Two halves, so that exponents below the normal range do not wrap.
  const __m256i e = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(e, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i one = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i two = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(e, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(one)), _mm256_castsi256_ps(two));
}
inline vf scale_by_power_of_two(vf x, vf n) {
  return {scale_by_power_of_two(x.a, n.a), scale_by_power_of_two(x.b, n.b)};
}

// Fixed order: lanes 8 apart, then 4, 2, 1.
inline float reduce_add(vf x) {
  const __m256 half = _mm256_add_ps(x.a, x.b);
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
inline float reduce_max(vf x) {
  const __m256 half = _mm256_max_ps(x.a, x.b);
  const __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
}

inline __m256 widen_f16(const std::uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
inline __m256 widen_bf16(const std::uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
inline vf load_f16(const std::uint16_t* p) { return {widen_f16(p), widen_f16(p + 8)}; }
inline vf load_bf16(const std::uint16_t* p) { return {widen_bf16(p), widen_bf16(p + 8)}; }
inline void store_f16(std::uint16_t* p, vf x) {
  constexpr int mode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x.a, mode));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(x.b, mode));
}

// The low bytes of 16 whole numbers.
inline void store_low_bytes(std::uint8_t* p, vf x) {
  const __m256i low = _mm256_set1_epi32(255);
  const __m256i a = _mm256_and_si256(_mm256_cvtps_epi32(x.a), low);
  const __m256i b = _mm256_and_si256(_mm256_cvtps_epi32(x.b), low);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
  const __m128i bytes =
      _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

inline void transpose(__m256 (&x)[8]) {
  __m256 t[8];
  for (int i = 0; i < 8; i += 4) {
    const __m256 ab_low = _mm256_unpacklo_ps(x[i], x[i + 1]);
    const __m256 ab_high = _mm256_unpackhi_ps(x[i], x[i + 1]);
    const __m256 cd_low = _mm256_unpacklo_ps(x[i + 2], x[i + 3]);
    const __m256 cd_high = _mm256_unpackhi_ps(x[i + 2], x[i + 3]);
    t[i] = _mm256_shuffle_ps(ab_low, cd_low, 0x44);
    t[i + 1] = _mm256_shuffle_ps(ab_low, cd_low, 0xee);
    t[i + 2] = _mm256_shuffle_ps(ab_high, cd_high, 0x44);
    t[i + 3] = _mm256_shuffle_ps(ab_high, cd_high, 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
    x[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
  }
}
// Lane j of vector i becomes lane i of vector j.
inline void transpose(vf (&x)[16]) {
  __m256 quarters[2][2][8];  // [half of the vectors][half of the lanes]
  for (int i = 0; i < 16; ++i) {
    quarters[i / 8][0][i % 8] = x[i].a;
    quarters[i / 8][1][i % 8] = x[i].b;
  }
  for (auto& half : quarters)
    for (auto& quarter : half) transpose(quarter);
  for (int i = 0; i < 16; ++i) x[i] = {quarters[0][i / 8][i % 8], quarters[1][i / 8][i % 8]};
}

inline vi set1_i32(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline vi load_u8_i32(const std::uint8_t* p) {
  return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline vi load_i8_i32(const std::int8_t* p) {
  return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
}
inline vi add_i32(vi x, vi y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
inline vi max_i32(vi x, vi y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
inline vi and_i32(vi x, std::int32_t m) {
  const __m256i keep = _mm256_set1_epi32(m);
  return {_mm256_and_si256(x.a, keep), _mm256_and_si256(x.b, keep)};
}
inline vf to_float(vi x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
// The low, or the next, four bits of each lane less 8, as a float.
inline __m256 nibble_minus_8(__m256i x) {
  const __m256i code = _mm256_and_si256(x, _mm256_set1_epi32(15));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(8)));
}
inline vf low_nibble_minus_8(vi x) { return {nibble_minus_8(x.a), nibble_minus_8(x.b)}; }
inline vf high_nibble_minus_8(vi x) {
  return {nibble_minus_8(_mm256_srli_epi32(x.a, 4)), nibble_minus_8(_mm256_srli_epi32(x.b, 4))};
}
inline vf bits_to_float(vi x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
inline vi shift_left(vi x, int n) { return {_mm256_slli_epi32(x.a, n), _mm256_slli_epi32(x.b, n)}; }

inline vi shift_right(vi x, int n) {
  return {_mm256_srli_epi32(x.a, n), _mm256_srli_epi32(x.b, n)};
}
inline vi load_u4_i32(const std::uint8_t* p) {
  const __m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_and_si256(both, _mm256_set1_epi32(15)), _mm256_srli_epi32(both, 4)};
}
inline vi load_bits_i32(const std::uint8_t* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, 2);
  const __m256i all = _mm256_set1_epi32(bits), one = _mm256_set1_epi32(1);
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i upper = _mm256_add_epi32(lane, _mm256_set1_epi32(8));
  return {_mm256_and_si256(_mm256_srlv_epi32(all, lane), one),
          _mm256_and_si256(_mm256_srlv_epi32(all, upper), one)};
}

inline vb load_bytes(const std::uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
inline vb shifted_and(vb x, int n, std::uint8_t m) {
  const __m256i keep = _mm256_set1_epi8(static_cast<char>(m));
  return {_mm256_and_si256(_mm256_srli_epi16(x.a, n), keep),
          _mm256_and_si256(_mm256_srli_epi16(x.b, n), keep)};
}
inline vb low_nibbles(vb x) { return shifted_and(x, 0, 15); }
inline vb high_nibbles(vb x) { return shifted_and(x, 4, 15); }
inline vb or_shifted(vb x, vb y, int n) {
  return {_mm256_or_si256(x.a, _mm256_slli_epi16(y.a, n)),
          _mm256_or_si256(x.b, _mm256_slli_epi16(y.b, n))};
}

inline vb add_bytes(vb x, vb y) { return {_mm256_add_epi8(x.a, y.a), _mm256_add_epi8(x.b, y.b)}; }
inline __m256i thirds(__m256i x) {
  const __m256i one = _mm256_set1_epi8(1);
  const __m256i low = _mm256_subs_epu8(x, _mm256_set1_epi8(85));
  const __m256i high = _mm256_subs_epu8(x, _mm256_set1_epi8(static_cast<char>(170)));
  return _mm256_add_epi8(_mm256_min_epu8(low, one), _mm256_min_epu8(high, one));
}
inline vb thirds(vb x) { return {thirds(x.a), thirds(x.b)}; }
// 0xFF in the bytes whose bits are set.
inline __m256i bytes_of_bits(std::uint32_t bits) {
  const __m256i spread = _mm256_shuffle_epi8(
      _mm256_set1_epi32(static_cast<int>(bits)),
      _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i own = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  return _mm256_cmpeq_epi8(_mm256_and_si256(spread, own), own);
}
inline __m256i plus_or_minus(__m256i middle, __m256i x, std::uint32_t minus) {
  const __m256i flip = bytes_of_bits(minus);
  return _mm256_add_epi8(middle, _mm256_sub_epi8(_mm256_xor_si256(x, flip), flip));
}
inline vb plus_or_minus(std::uint8_t offset, vb x, std::uint64_t minus) {
  const __m256i middle = _mm256_set1_epi8(static_cast<char>(offset));
  return {plus_or_minus(middle, x.a, static_cast<std::uint32_t>(minus)),
          plus_or_minus(middle, x.b, static_cast<std::uint32_t>(minus >> 32))};
}
inline vb gather(const std::int32_t* table, vi index) {
  return {_mm256_i32gather_epi32(table, index.a, 4), _mm256_i32gather_epi32(table, index.b, 4)};
}

struct lut16 {
  __m256i v;
};
inline lut16 load_lut(const std::uint8_t* table) {
  return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)))};
}
inline vb look_up(lut16 table, vb codes) {
  return {_mm256_shuffle_epi8(table.v, codes.a), _mm256_shuffle_epi8(table.v, codes.b)};
}

#if defined(__AVXVNNI__) || defined(__AVX512VNNI__)

inline __m256i dot4(__m256i acc, __m256i w, __m256i a) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(acc, w, a);
#else  // the form with AVX-512's encoding, for tests on processors that lack the other
  return _mm256_dpbusd_epi32(acc, w, a);
#endif
}
inline constexpr int kWideOffset = 128;
inline __m256i dot4_wide(__m256i acc, __m256i w, __m256i a) { return dot4(acc, w, a); }

#else

// Products of 8-bit pairs are summed in 16 bits and saturate above 32,767. Codes of up to 128 are
// safe (128 * 127 * 2 = 32,512); wider ones take dot4_wide.
inline __m256i dot4(__m256i acc, __m256i w, __m256i a) {
  const __m256i pairs = _mm256_maddubs_epi16(w, a);
  return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
// The same for codes that use all 8 bits, stored plus 128: back to signed, and the sign goes over
// to the activation, so that nothing saturates and no offset is left.
inline constexpr int kWideOffset = 0;
inline __m256i dot4_wide(__m256i acc, __m256i w, __m256i a) {
  const __m256i signed_w = _mm256_xor_si256(w, _mm256_set1_epi8(static_cast<char>(0x80)));
  return dot4(acc, _mm256_abs_epi8(signed_w), _mm256_sign_epi8(a, signed_w));
}

#endif

inline __m256i repeat_four(const std::int8_t* a) {
  std::int32_t four;
  __builtin_memcpy(&four, a, 4);
  return _mm256_set1_epi32(four);
}
inline vi dot4(vi acc, vb w, const std::int8_t* a) {
  const __m256i v = repeat_four(a);
  return {dot4(acc.a, w.a, v), dot4(acc.b, w.b, v)};
}
inline vi dot4_wide(vi acc, vb w, const std::int8_t* a) {
  const __m256i v = repeat_four(a);
  return {dot4_wide(acc.a, w.a, v), dot4_wide(acc.b, w.b, v)};
}

// Four dot4 one after the other, of codes below 32.
#if defined(__AVXVNNI__) || defined(__AVX512VNNI__)
inline vi dot16_small(vi acc, const vb* w, const std::int8_t* a) {
  for (int i = 0; i < 4; ++i) acc = dot4(acc, w[i], a + 4 * i);
  return acc;
}
#else
// 16 bits hold the products of four, so that widening them is done once (31 * 127 * 2 * 4 =
// 31,496).
inline __m256i dot16_small(__m256i acc, const __m256i (&w)[4], const __m256i (&a)[4]) {
  const __m256i low =
      _mm256_add_epi16(_mm256_maddubs_epi16(w[0], a[0]), _mm256_maddubs_epi16(w[1], a[1]));
  const __m256i high =
      _mm256_add_epi16(_mm256_maddubs_epi16(w[2], a[2]), _mm256_maddubs_epi16(w[3], a[3]));
  const __m256i pairs = _mm256_add_epi16(low, high);
  return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
inline vi dot16_small(vi acc, const vb* w, const std::int8_t* a) {
  std::int32_t four[4];
  __builtin_memcpy(four, a, 16);
  const __m256i v[4] = {_mm256_set1_epi32(four[0]),
                        _mm256_set1_epi32(four[1]),
                        _mm256_set1_epi32(four[2]),
                        _mm256_set1_epi32(four[3])};
  return {dot16_small(acc.a, {w[0].a, w[1].a, w[2].a, w[3].a}, v),
          dot16_small(acc.b, {w[0].b, w[1].b, w[2].b, w[3].b}, v)};
}
#endif

}  // namespace junto::JUNTO_ISA

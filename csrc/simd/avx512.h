// SPDX-License-Identifier: Apache-2.0
//
// simd.h on AVX-512 with BW and VNNI: one register for each vector.
#pragma once

// GCC before 14 takes the undefined operand of masked intrinsics for a mistake (its bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstddef>
#include <cstdint>

#include "simd/prefetch.h"

namespace junto::JUNTO_ISA {

inline constexpr int kVectors = 32;  // whole vf that fit in registers

// Rows of activations that a product kernel keeps in registers.
inline constexpr int kRegisterRows = 16;

// Rows for which a product kernel has code of their own; the others share it in a loop.
inline constexpr int kUnrolledRows = 16;

// Whether there are products of matrices of bytes: see neon.h.
inline constexpr bool kHasMatrix = false;

struct vf {
  __m512 v;
};
struct vi {
  __m512i v;
};
struct vb {
  __m512i v;
};
using mask = __mmask16;

inline vf set1(float x) { return {_mm512_set1_ps(x)}; }
inline vf load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, vf x) { _mm512_storeu_ps(p, x.v); }
inline vf add(vf a, vf b) { return {_mm512_add_ps(a.v, b.v)}; }
inline vf sub(vf a, vf b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline vf mul(vf a, vf b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline vf div(vf a, vf b) { return {_mm512_div_ps(a.v, b.v)}; }
inline vf min(vf a, vf b) { return {_mm512_min_ps(a.v, b.v)}; }
inline vf max(vf a, vf b) { return {_mm512_max_ps(a.v, b.v)}; }
inline vf fma(vf a, vf b, vf c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }    // a * b + c
inline vf fnma(vf a, vf b, vf c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a * b
inline vf abs(vf a) { return {_mm512_abs_ps(a.v)}; }
inline vf round(vf a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline mask less(vf a, vf b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
inline bool any(mask m) { return m != 0; }
inline vf select(mask m, vf a, vf b) { return {_mm512_mask_blend_ps(m, b.v, a.v)}; }  // m ? a : b
inline vf zero_where(mask m, vf a) { return {_mm512_maskz_mov_ps(static_cast<mask>(~m), a.v)}; }
inline vf scale_by_power_of_two(vf a, vf n) { return {_mm512_scalef_ps(a.v, n.v)}; }

// Fixed order: lanes 8 apart, then 4, 2, 1.
inline float reduce_add(vf a) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
inline float reduce_max(vf a) { return _mm512_reduce_max_ps(a.v); }

// 16 float16 or bfloat16 values.
inline vf load_f16(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline vf load_bf16(const std::uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
}
inline void store_f16(std::uint16_t* p, vf x) {
  const __m256i half = _mm512_cvtps_ph(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), half);
}

// The low bytes of 16 whole numbers.
inline void store_low_bytes(std::uint8_t* p, vf x) {
  const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x.v));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

// Lane j of vector i becomes lane i of vector j.
inline void transpose(vf (&x)[16]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 4) {
    const __m512 ab_low = _mm512_unpacklo_ps(x[i].v, x[i + 1].v);
    const __m512 ab_high = _mm512_unpackhi_ps(x[i].v, x[i + 1].v);
    const __m512 cd_low = _mm512_unpacklo_ps(x[i + 2].v, x[i + 3].v);
    const __m512 cd_high = _mm512_unpackhi_ps(x[i + 2].v, x[i + 3].v);
    t[i] = _mm512_shuffle_ps(ab_low, cd_low, 0x44);
    t[i + 1] = _mm512_shuffle_ps(ab_low, cd_low, 0xee);
    t[i + 2] = _mm512_shuffle_ps(ab_high, cd_high, 0x44);
    t[i + 3] = _mm512_shuffle_ps(ab_high, cd_high, 0xee);
  }
  for (int i = 0; i < 4; ++i) {  // quarters of 4 lanes are in place within each t
    const __m512 even_low = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88);
    const __m512 odd_low = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
    const __m512 even_high = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88);
    const __m512 odd_high = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
    x[i].v = _mm512_shuffle_f32x4(even_low, even_high, 0x88);
    x[i + 8].v = _mm512_shuffle_f32x4(even_low, even_high, 0xdd);
    x[i + 4].v = _mm512_shuffle_f32x4(odd_low, odd_high, 0x88);
    x[i + 12].v = _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd);
  }
}

inline vi set1_i32(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
inline vi load_u8_i32(const std::uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline vi load_i8_i32(const std::int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline vi add_i32(vi a, vi b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline vi max_i32(vi a, vi b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline vi and_i32(vi a, std::int32_t m) { return {_mm512_and_si512(a.v, _mm512_set1_epi32(m))}; }
inline vf to_float(vi a) { return {_mm512_cvtepi32_ps(a.v)}; }
// ((a >> n) & 15) - 8 as a float, by a table: vpermps reads the low four bits of each lane alone.
inline vf nibble_minus_8(__m512i a) {
  const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm512_permutexvar_ps(a, table)};
}
inline vf low_nibble_minus_8(vi a) { return nibble_minus_8(a.v); }
inline vf high_nibble_minus_8(vi a) { return nibble_minus_8(_mm512_srli_epi32(a.v, 4)); }
inline vf bits_to_float(vi a) { return {_mm512_castsi512_ps(a.v)}; }
inline vi shift_left(vi a, int n) { return {_mm512_slli_epi32(a.v, static_cast<unsigned int>(n))}; }

inline vi shift_right(vi a, int n) {  // of numbers that are not negative
  return {_mm512_srli_epi32(a.v, static_cast<unsigned int>(n))};
}
// Lanes 0-7 from the low nibbles of eight bytes, 8-15 from the high ones.
inline vi load_u4_i32(const std::uint8_t* p) {
  const __m128i both = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i halves = _mm_unpacklo_epi64(both, _mm_srli_epi16(both, 4));
  return {_mm512_cvtepu8_epi32(_mm_and_si128(halves, _mm_set1_epi8(15)))};
}
// Lane r is bit r of two bytes.
inline vi load_bits_i32(const std::uint8_t* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, 2);
  return {_mm512_maskz_set1_epi32(bits, 1)};
}

inline vb load_bytes(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
inline vb low_nibbles(vb a) { return {_mm512_and_si512(a.v, _mm512_set1_epi8(15))}; }
inline vb high_nibbles(vb a) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.v, 4), _mm512_set1_epi8(15))};
}
// (a >> n) & m, byte by byte; n is 0 to 7 and m keeps only bits that stay in their byte.
inline vb shifted_and(vb a, int n, std::uint8_t m) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.v, static_cast<unsigned int>(n)),
                           _mm512_set1_epi8(static_cast<char>(m)))};
}
inline vb or_shifted(vb a, vb b, int n) {  // a | (b << n), no byte overflows
  return {_mm512_or_si512(a.v, _mm512_slli_epi16(b.v, static_cast<unsigned int>(n)))};
}

inline vb add_bytes(vb a, vb b) { return {_mm512_add_epi8(a.v, b.v)}; }
// 3 * a / 256, byte by byte: 0, 1 or 2.
inline vb thirds(vb a) {
  const __m512i one = _mm512_set1_epi8(1);
  const __m512i low = _mm512_min_epu8(_mm512_subs_epu8(a.v, _mm512_set1_epi8(85)), one);
  const __m512i high =
      _mm512_min_epu8(_mm512_subs_epu8(a.v, _mm512_set1_epi8(static_cast<char>(170))), one);
  return {_mm512_add_epi8(low, high)};
}
// offset - a where the bit of a byte is set, offset + a elsewhere.
inline vb plus_or_minus(std::uint8_t offset, vb a, std::uint64_t minus) {
  const __m512i middle = _mm512_set1_epi8(static_cast<char>(offset));
  return {_mm512_mask_sub_epi8(_mm512_add_epi8(middle, a.v), minus, middle, a.v)};
}
// The word table[index] in each lane.
inline vb gather(const std::int32_t* table, vi index) {
  return {_mm512_i32gather_epi32(index.v, table, 4)};
}

struct lut16 {
  __m512i v;
};
inline lut16 load_lut(const std::uint8_t* table) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)))};
}
inline vb look_up(lut16 table, vb codes) { return {_mm512_shuffle_epi8(table.v, codes.v)}; }

// acc + sum over the 4 bytes of each lane of w (unsigned) * a (signed); a points to 4 bytes.
inline vi dot4(vi acc, vb w, const std::int8_t* a) {
  std::int32_t four;
  __builtin_memcpy(&four, a, 4);
  return {_mm512_dpbusd_epi32(acc.v, w.v, _mm512_set1_epi32(four))};
}

// The same for codes that use all 8 bits, stored plus 128: without the offset where the machine
// multiplies signed bytes, with it (to be taken off by kWideOffset) where it does not.
inline constexpr int kWideOffset = 128;
inline vi dot4_wide(vi acc, vb w, const std::int8_t* a) { return dot4(acc, w, a); }

// Four dot4 one after the other, of codes below 32.
inline vi dot16_small(vi acc, const vb* w, const std::int8_t* a) {
  for (int i = 0; i < 4; ++i) acc = dot4(acc, w[i], a + 4 * i);
  return acc;
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// How each packed type becomes vectors that dot4 can take. A codec gives, for tile i of a unit, 32
// k-values of 16 rows: eight vectors of unsigned codes, and for each of its one or two groups a
// scale vector and, where the type has one, a minimum. value = scale * (code - kOffset) - minimum.
// kSmall: all codes are below 32; kWide: they use all 8 bits, stored plus 128.
//
// Here are the types with one scale a block; codecs_k.h and codecs_iq.h have the others.
//
// Included once for each instruction set; see simd.h.
#pragma once

#include "kernels/packed.h"
#include "simd/simd.h"

namespace junto::JUNTO_ISA {

using u8 = std::uint8_t;

inline vf f16_at(const u8* p) { return load_f16(reinterpret_cast<const std::uint16_t*>(p)); }

inline void four_bits(const u8* from, vb (&codes)[8]) {
  for (int v = 0; v < 4; ++v) {
    const vb packed = load_bytes(from + 64 * v);
    codes[2 * v] = low_nibbles(packed);
    codes[2 * v + 1] = high_nibbles(packed);
  }
}

inline void pairs(const u8* from, vb (&codes)[8]) {
  for (int h = 0; h < 2; ++h) {
    const vb packed = load_bytes(from + 64 * h);
    codes[4 * h] = shifted_and(packed, 0, 3);
    codes[4 * h + 1] = shifted_and(packed, 2, 3);
    codes[4 * h + 2] = shifted_and(packed, 4, 3);
    codes[4 * h + 3] = shifted_and(packed, 6, 3);
  }
}

// Adds bit `kBit` of every code, from one vector.
template <int kBit>
inline void or_plane(const u8* from, vb (&codes)[8]) {
  const vb packed = load_bytes(from);
  codes[0] = or_shifted(codes[0], shifted_and(packed, 0, 1), kBit);
  codes[1] = or_shifted(codes[1], shifted_and(packed, 1, 1), kBit);
  codes[2] = or_shifted(codes[2], shifted_and(packed, 2, 1), kBit);
  codes[3] = or_shifted(codes[3], shifted_and(packed, 3, 1), kBit);
  codes[4] = or_shifted(codes[4], shifted_and(packed, 4, 1), kBit);
  codes[5] = or_shifted(codes[5], shifted_and(packed, 5, 1), kBit);
  codes[6] = or_shifted(codes[6], shifted_and(packed, 6, 1), kBit);
  codes[7] = or_shifted(codes[7], shifted_and(packed, 7, 1), kBit);
}

// The float32 minus x, for minima that are stored to be added.
inline vf negated(vf x) { return sub(set1(0.0f), x); }

// Twice e2m1, plus 12 to be unsigned.
inline void e2m1_codes(const u8* from, vb (&codes)[8]) {
  alignas(16) static constexpr u8 kTwice[16] = {
      12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  const lut16 table = load_lut(kTwice);
  four_bits(from, codes);
  for (vb& code : codes) code = look_up(table, code);
}

// The values of IQ4, plus 128.
inline void iq4_codes(const u8* from, vb (&codes)[8]) {
  alignas(16) static constexpr u8 kTable[16] = {
      1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
  const lut16 table = load_lut(kTable);
  four_bits(from, codes);
  for (vb& code : codes) code = look_up(table, code);
}

struct Q8_0 {
  static constexpr int kTiles = 1, kUnitBytes = 544, kGroups = 1, kOffset = kWideOffset;
  static constexpr bool kMinimum = false, kWide = true, kSmall = false;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    for (int j = 0; j < 8; ++j) codes[j] = load_bytes(unit + 64 * j);
    scale[0] = f16_at(unit + 512);
  }
};

struct Q4_0 {
  static constexpr int kTiles = 1, kUnitBytes = 288, kGroups = 1, kOffset = 8;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    four_bits(unit, codes);
    scale[0] = f16_at(unit + 256);
  }
};

struct Q4_1 {
  static constexpr int kTiles = 1, kUnitBytes = 320, kGroups = 1, kOffset = 0;
  static constexpr bool kMinimum = true, kWide = false, kSmall = true;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf (&minimum)[1]) {
    four_bits(unit, codes);
    scale[0] = f16_at(unit + 256);
    minimum[0] = negated(f16_at(unit + 288));
  }
};

struct Q5_0 {
  static constexpr int kTiles = 1, kUnitBytes = 352, kGroups = 1, kOffset = 16;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    four_bits(unit, codes);
    or_plane<4>(unit + 256, codes);
    scale[0] = f16_at(unit + 320);
  }
};

struct Q5_1 {
  static constexpr int kTiles = 1, kUnitBytes = 384, kGroups = 1, kOffset = 0;
  static constexpr bool kMinimum = true, kWide = false, kSmall = true;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf (&minimum)[1]) {
    four_bits(unit, codes);
    or_plane<4>(unit + 256, codes);
    scale[0] = f16_at(unit + 320);
    minimum[0] = negated(f16_at(unit + 352));
  }
};

// d or -d: scale 2d and codes 0 and 1 would want an offset of a half.
struct Q1_0 {
  static constexpr int kTiles = 4, kUnitBytes = 288, kGroups = 1, kOffset = 1;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    const vb zero = shifted_and(load_bytes(unit), 0, 0);
    for (vb& code : codes) code = zero;
    or_plane<1>(unit + 64 * i, codes);
    scale[0] = f16_at(unit + 256);
  }
};

struct Q2_0 {
  static constexpr int kTiles = 2, kUnitBytes = 288, kGroups = 1, kOffset = 1;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    pairs(unit + 128 * i, codes);
    scale[0] = f16_at(unit + 256);
  }
};

struct TQ2_0 {
  static constexpr int kTiles = 8, kUnitBytes = 1056, kGroups = 1, kOffset = 1;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    pairs(unit + 128 * i, codes);
    scale[0] = f16_at(unit + 1024);
  }
};

struct TQ1_0 {
  static constexpr int kTiles = 8, kUnitBytes = 864, kGroups = 1, kOffset = 1;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    for (int j = 0; j < 8; ++j) {
      const int n = (8 * i + j) / 13, v = (8 * i + j) % 13;
      vb digits = load_bytes(unit + 64 * v);
      for (int passed = 0; passed < n; ++passed)
        digits = add_bytes(digits, add_bytes(digits, digits));
      codes[j] = thirds(digits);
    }
    scale[0] = f16_at(unit + 832);
  }
};

struct IQ4_NL {
  static constexpr int kTiles = 1, kUnitBytes = 288, kGroups = 1, kOffset = kWideOffset;
  static constexpr bool kMinimum = false, kWide = true, kSmall = false;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    iq4_codes(unit, codes);
    scale[0] = f16_at(unit + 256);
  }
};

struct MXFP4 {
  static constexpr int kTiles = 1, kUnitBytes = 272, kGroups = 1, kOffset = 12;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    e2m1_codes(unit, codes);
    scale[0] = half_power(load_u8_i32(unit + 256));
  }
  // 2^(e - 128), half of e8m0's value; exponents 0 and 1 give numbers so small that they count as
  // 0.
  static vf half_power(vi e) {
    return bits_to_float(shift_left(add_i32(max_i32(e, set1_i32(1)), set1_i32(-1)), 23));
  }
};

struct NVFP4 {
  static constexpr int kTiles = 2, kUnitBytes = 576, kGroups = 2, kOffset = 12;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[2], vf (&)[2]) {
    e2m1_codes(unit + 256 * i, codes);
    for (int g = 0; g < 2; ++g) scale[g] = half_e4m3(load_u8_i32(unit + 512 + 32 * i + 16 * g));
  }
  // Half the value of an e4m3 number without its sign. Exponent 0 counts as 1 with no leading bit,
  // which is subtracted again: the processor reads its own subnormals as 0.
  static vf half_e4m3(vi code) {
    const vi normal = max_i32(code, add_i32(and_i32(code, 7), set1_i32(8)));
    const vf with_bit = bits_to_float(add_i32(shift_left(normal, 20), set1_i32(119 << 23)));
    return sub(with_bit, zero_where(less(set1(7.5f), to_float(code)), set1(0x1p-7f)));
  }
};

}  // namespace junto::JUNTO_ISA

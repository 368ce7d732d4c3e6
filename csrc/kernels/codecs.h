// SPDX-License-Identifier: Apache-2.0
//
// How each packed type becomes vectors that dot4 can take. A codec gives, for 32 k-values of 16
// rows: eight vectors of unsigned codes, a scale vector for each group, and for types that have
// one a minimum. value = scale * (code - kOffset) - minimum.
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

struct Q8_0 {
  static constexpr int kTiles = 1, kUnitBytes = 544, kGroups = 1, kOffset = kWideOffset;
  static constexpr bool kMinimum = false, kWide = true;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf&) {
    for (int j = 0; j < 8; ++j) codes[j] = load_bytes(unit + 64 * j);
    scale[0] = f16_at(unit + 512);
  }
};

struct Q4_0 {
  static constexpr int kTiles = 1, kUnitBytes = 288, kGroups = 1, kOffset = 8;
  static constexpr bool kMinimum = false, kWide = false;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf&) {
    four_bits(unit, codes);
    scale[0] = f16_at(unit + 256);
  }
};

struct Q4_1 {
  static constexpr int kTiles = 1, kUnitBytes = 320, kGroups = 1, kOffset = 0;
  static constexpr bool kMinimum = true, kWide = false;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf& minimum) {
    four_bits(unit, codes);
    scale[0] = f16_at(unit + 256);
    minimum = sub(set1(0.0f), f16_at(unit + 288));  // stored to be added
  }
};

struct MXFP4 {
  static constexpr int kTiles = 1, kUnitBytes = 272, kGroups = 1, kOffset = 12;
  static constexpr bool kMinimum = false, kWide = false;
  static void load(const u8* unit, int, vb (&codes)[8], vf (&scale)[1], vf&) {
    // Twice e2m1, plus 12 to be unsigned.
    alignas(16) static constexpr u8 kTwice[16] = {
        12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    const lut16 table = load_lut(kTwice);
    four_bits(unit, codes);
    for (vb& code : codes) code = look_up(table, code);
    scale[0] = half_power(load_u8_i32(unit + 256));
  }
  // 2^(e - 128), half of e8m0's value; exponents 0 and 1 give numbers so small that they count as
  // 0.
  static vf half_power(vi e) {
    return bits_to_float(shift_left(add_i32(max_i32(e, set1_i32(1)), set1_i32(-1)), 23));
  }
};

struct Q4_K {
  static constexpr int kTiles = 8, kUnitBytes = 2368, kGroups = 1, kOffset = 0;
  static constexpr bool kMinimum = true, kWide = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf& minimum) {
    four_bits(unit + 256 * i, codes);
    const u8* scales = unit + 2048;
    scale[0] = mul(f16_at(scales), to_float(load_u8_i32(scales + 64 + 16 * i)));
    minimum = mul(f16_at(scales + 32), to_float(load_u8_i32(scales + 64 + 128 + 16 * i)));
  }
};

struct Q6_K {
  static constexpr int kTiles = 8, kUnitBytes = 3360, kGroups = 2, kOffset = 32;
  static constexpr bool kMinimum = false, kWide = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[2], vf&) {
    const u8* tile = unit + 384 * i;
    four_bits(tile, codes);
    for (int h = 0; h < 2; ++h) {
      const vb pairs = load_bytes(tile + 256 + 64 * h);
      codes[4 * h] = or_shifted(codes[4 * h], shifted_and(pairs, 0, 3), 4);
      codes[4 * h + 1] = or_shifted(codes[4 * h + 1], shifted_and(pairs, 2, 3), 4);
      codes[4 * h + 2] = or_shifted(codes[4 * h + 2], shifted_and(pairs, 4, 3), 4);
      codes[4 * h + 3] = or_shifted(codes[4 * h + 3], shifted_and(pairs, 6, 3), 4);
    }
    const u8* scales = unit + 3072;
    const vf d = f16_at(scales);
    for (int g = 0; g < 2; ++g) {
      const auto* part = reinterpret_cast<const std::int8_t*>(scales + 32 + 16 * (2 * i + g));
      scale[g] = mul(d, to_float(load_i8_i32(part)));
    }
  }
};

}  // namespace junto::JUNTO_ISA

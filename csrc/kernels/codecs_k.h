// SPDX-License-Identifier: Apache-2.0
//
// Codecs (see codecs.h) of K-quants and of IQ4_XS: eight tiles a unit, then d and the scales.
#pragma once

#include "kernels/codecs.h"

namespace junto::JUNTO_ISA {

// d, dmin, then a byte of scale and a byte of minimum for each tile.
inline void scale_and_minimum(const u8* from, int i, vf& scale, vf& minimum) {
  scale = mul(f16_at(from), to_float(load_u8_i32(from + 64 + 16 * i)));
  minimum = mul(f16_at(from + 32), to_float(load_u8_i32(from + 64 + 128 + 16 * i)));
}

// d, then two signed bytes for each tile.
inline void two_scales(const u8* from, int i, vf (&scale)[2]) {
  const vf d = f16_at(from);
  for (int g = 0; g < 2; ++g) {
    const auto* part = reinterpret_cast<const std::int8_t*>(from + 32 + 16 * (2 * i + g));
    scale[g] = mul(d, to_float(load_i8_i32(part)));
  }
}

struct Q2_K {
  static constexpr int kTiles = 8, kUnitBytes = 1344, kGroups = 2, kOffset = 0;
  static constexpr bool kMinimum = true, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[2], vf (&minimum)[2]) {
    pairs(unit + 128 * i, codes);
    const u8* scales = unit + 1024;
    for (int g = 0; g < 2; ++g) {
      const vi both = load_u8_i32(scales + 64 + 16 * (2 * i + g));
      scale[g] = mul(f16_at(scales), to_float(and_i32(both, 15)));
      minimum[g] = mul(f16_at(scales + 32), to_float(shift_right(both, 4)));
    }
  }
};

struct Q3_K {
  static constexpr int kTiles = 8, kUnitBytes = 1824, kGroups = 2, kOffset = 4;
  static constexpr bool kMinimum = false, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[2], vf (&)[2]) {
    pairs(unit + 192 * i, codes);
    or_plane<2>(unit + 192 * i + 128, codes);
    two_scales(unit + 1536, i, scale);
  }
};

struct Q4_K {
  static constexpr int kTiles = 8, kUnitBytes = 2368, kGroups = 1, kOffset = 0;
  static constexpr bool kMinimum = true, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&minimum)[1]) {
    four_bits(unit + 256 * i, codes);
    scale_and_minimum(unit + 2048, i, scale[0], minimum[0]);
  }
};

struct Q5_K {
  static constexpr int kTiles = 8, kUnitBytes = 2880, kGroups = 1, kOffset = 0;
  static constexpr bool kMinimum = true, kWide = false, kSmall = true;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&minimum)[1]) {
    four_bits(unit + 320 * i, codes);
    or_plane<4>(unit + 320 * i + 256, codes);
    scale_and_minimum(unit + 2560, i, scale[0], minimum[0]);
  }
};

struct Q6_K {
  static constexpr int kTiles = 8, kUnitBytes = 3360, kGroups = 2, kOffset = 32;
  static constexpr bool kMinimum = false, kWide = false, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[2], vf (&)[2]) {
    const u8* tile = unit + 384 * i;
    four_bits(tile, codes);
    for (int h = 0; h < 2; ++h) {
      const vb pairs = load_bytes(tile + 256 + 64 * h);
      codes[4 * h] = or_shifted(codes[4 * h], shifted_and(pairs, 0, 3), 4);
      codes[4 * h + 1] = or_shifted(codes[4 * h + 1], shifted_and(pairs, 2, 3), 4);
      codes[4 * h + 2] = or_shifted(codes[4 * h + 2], shifted_and(pairs, 4, 3), 4);
      codes[4 * h + 3] = or_shifted(codes[4 * h + 3], shifted_and(pairs, 6, 3), 4);
    }
    two_scales(unit + 3072, i, scale);
  }
};

struct IQ4_XS {
  static constexpr int kTiles = 8, kUnitBytes = 2208, kGroups = 1, kOffset = kWideOffset;
  static constexpr bool kMinimum = false, kWide = true, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    iq4_codes(unit + 256 * i, codes);
    const auto* part = reinterpret_cast<const std::int8_t*>(unit + 2080 + 16 * i);
    scale[0] = mul(f16_at(unit + 2048), to_float(load_i8_i32(part)));
  }
};

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// Codecs (see codecs.h) of the types that name entries of a codebook: the entries of 16 rows index
// a table of four-byte words, and bits say which of their bytes are negative. pack_iq.cpp has the
// layout of a tile; d of the unit stands behind its eight tiles.
#pragma once

#include "kernels/codecs.h"
#include "kernels/grids.h"

namespace junto::JUNTO_ISA {

// Entries of 16 rows: a byte each, and kPlanes bits above it, whose planes lie `step` bytes apart.
template <int kPlanes>
inline vi entries(const u8* low, const u8* planes, int step) {
  vi index = load_u8_i32(low);
  for (int bit = 0; bit < kPlanes; ++bit)
    index = add_i32(index, shift_left(load_bits_i32(planes + step * bit), 8 + bit));
  return index;
}

// Signs of eight k-values of 16 rows: bit n of a word is that of byte n of a vector.
struct Signs {
  std::uint64_t first, second;
};

inline Signs eight_signs(const u8* from) {
  Signs signs;
  std::memcpy(&signs.first, from, 8);
  std::memcpy(&signs.second, from + 8, 8);
  return signs;
}

// Seven signs a row; the eighth makes the number of negative values even.
inline Signs seven_signs(const u8* from) {
  Signs signs{0, 0};
  std::memcpy(&signs.first, from, 8);
  std::memcpy(&signs.second, from + 8, 6);
  // Three bits a row move apart to four.
  std::uint64_t& x = signs.second;
  x = (x & 0xFFFFFFu) | (x & 0xFFFFFF000000u) << 8;
  x = (x & 0x00000FFF00000FFFu) | (x & 0x00FFF00000FFF000u) << 4;
  x = (x & 0x003F003F003F003Fu) | (x & 0x0FC00FC00FC00FC0u) << 2;
  x = (x & 0x0707070707070707u) | (x & 0x3838383838383838u) << 1;
  std::uint64_t parity = signs.first ^ x;
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  x |= (parity & 0x1111111111111111u) << 3;
  return signs;
}

// (scale + 1/2) / 4 times d, or / 2: IQ3_XXS.
inline vf half_up(const u8* nibbles, vf d, float factor) {
  return mul(mul(d, add(to_float(load_u4_i32(nibbles)), set1(0.5f))), set1(factor));
}

// 2 * scale + 1 times d.
inline vf odd_multiple(vi scale, vf d) {
  return mul(d, to_float(add_i32(shift_left(scale, 1), set1_i32(1))));
}

template <int kOffset, int kPlanes, std::size_t n, class ReadSigns>
inline void grid8_codes(const u8* tile,
                        const Grid8<n>& grid,
                        const u8* signs,
                        int signs_step,
                        ReadSigns read_signs,
                        vb (&codes)[8]) {
  for (int v = 0; v < 4; ++v) {
    const vi index = entries<kPlanes>(tile + 16 * v, tile + 64 + 2 * v, 8);
    const Signs minus = read_signs(signs + signs_step * v);
    codes[2 * v] = plus_or_minus(kOffset, gather(grid.first(), index), minus.first);
    codes[2 * v + 1] = plus_or_minus(kOffset, gather(grid.second(), index), minus.second);
  }
}

template <int kOffset, int kPlanes, std::size_t n, class ReadSigns>
inline void grid4_codes(const u8* tile,
                        const std::array<std::int32_t, n>& grid,
                        const u8* signs,
                        int signs_step,
                        ReadSigns read_signs,
                        vb (&codes)[8]) {
  for (int v = 0; v < 4; ++v) {
    const Signs minus = read_signs(signs + signs_step * v);
    const std::uint64_t words[2] = {minus.first, minus.second};
    for (int j = 0; j < 2; ++j) {
      const int at = 2 * v + j;
      const vi index = entries<kPlanes>(tile + 16 * at, tile + 128 + 2 * at, 16);
      codes[at] = plus_or_minus(kOffset, gather(grid.data(), index), words[j]);
    }
  }
}

struct IQ2_XXS {
  static constexpr int kTiles = 8, kUnitBytes = 1056, kGroups = 1, kOffset = 43;
  static constexpr bool kMinimum = false, kWide = false, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    const u8* tile = unit + 128 * i;
    grid8_codes<kOffset, 0>(tile, kGridIQ2_XXS, tile + 64, 14, seven_signs, codes);
    scale[0] = half_up(tile + 120, f16_at(unit + 1024), 0.25f);
  }
};

struct IQ2_XS {
  static constexpr int kTiles = 8, kUnitBytes = 1184, kGroups = 2, kOffset = 43;
  static constexpr bool kMinimum = false, kWide = false, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[2], vf (&)[2]) {
    const u8* tile = unit + 144 * i;
    grid8_codes<kOffset, 1>(tile, kGridIQ2_XS, tile + 72, 14, seven_signs, codes);
    for (int g = 0; g < 2; ++g) scale[g] = half_up(tile + 128 + 8 * g, f16_at(unit + 1152), 0.25f);
  }
};

struct IQ2_S {
  static constexpr int kTiles = 8, kUnitBytes = 1312, kGroups = 2, kOffset = 43;
  static constexpr bool kMinimum = false, kWide = false, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[2], vf (&)[2]) {
    const u8* tile = unit + 160 * i;
    grid8_codes<kOffset, 2>(tile, kGridIQ2_S, tile + 80, 16, eight_signs, codes);
    for (int g = 0; g < 2; ++g) scale[g] = half_up(tile + 144 + 8 * g, f16_at(unit + 1280), 0.25f);
  }
};

struct IQ3_XXS {
  static constexpr int kTiles = 8, kUnitBytes = 1568, kGroups = 1, kOffset = 62;
  static constexpr bool kMinimum = false, kWide = false, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    const u8* tile = unit + 192 * i;
    grid4_codes<kOffset, 0>(tile, kGridIQ3_XXS, tile + 128, 14, seven_signs, codes);
    scale[0] = half_up(tile + 184, f16_at(unit + 1536), 0.5f);
  }
};

struct IQ3_S {
  static constexpr int kTiles = 8, kUnitBytes = 1760, kGroups = 1, kOffset = 15;
  static constexpr bool kMinimum = false, kWide = false, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    const u8* tile = unit + 216 * i;
    grid4_codes<kOffset, 1>(tile, kGridIQ3_S, tile + 144, 16, eight_signs, codes);
    scale[0] = odd_multiple(load_u4_i32(tile + 208), f16_at(unit + 1728));
  }
};

// IQ1 values are d * (2 * scale + 1) * (-1, 0 or 1, plus or minus 1/8). Eight times the bracket is
// a code less 9: 8 * (value + 1), and 2 more where the shift goes up.
inline vb shifted_up(vi minus) {
  alignas(8) static constexpr std::int32_t kUp[2] = {0x02020202, 0};
  return gather(kUp, minus);
}

struct IQ1_S {
  static constexpr int kTiles = 8, kUnitBytes = 800, kGroups = 1, kOffset = 9;
  static constexpr bool kMinimum = false, kWide = false, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[1], vf (&)[1]) {
    const u8* tile = unit + 96 * i;
    const vi both = load_u4_i32(tile + 88);
    const vb up = shifted_up(shift_right(both, 3));
    for (int v = 0; v < 4; ++v) {
      const vi index = entries<3>(tile + 16 * v, tile + 64 + 2 * v, 8);
      codes[2 * v] = add_bytes(gather(kGridIQ1.first(), index), up);
      codes[2 * v + 1] = add_bytes(gather(kGridIQ1.second(), index), up);
    }
    scale[0] = odd_multiple(and_i32(both, 7), mul(f16_at(unit + 768), set1(0.125f)));
  }
};

struct IQ1_M {
  static constexpr int kTiles = 8, kUnitBytes = 896, kGroups = 2, kOffset = 9;
  static constexpr bool kMinimum = false, kWide = false, kSmall = false;
  static void load(const u8* unit, int i, vb (&codes)[8], vf (&scale)[2], vf (&)[2]) {
    const u8* tile = unit + 108 * i;
    for (int v = 0; v < 4; ++v) {
      const vi index = entries<3>(tile + 16 * v, tile + 64 + 2 * v, 8);
      const vb up = shifted_up(load_bits_i32(tile + 88 + 2 * v));
      codes[2 * v] = add_bytes(gather(kGridIQ1.first(), index), up);
      codes[2 * v + 1] = add_bytes(gather(kGridIQ1.second(), index), up);
    }
    const vf d = mul(f16_at(unit + 864), set1(0.125f));
    for (int g = 0; g < 2; ++g) scale[g] = odd_multiple(three_bits(tile + 96 + 6 * g), d);
  }
  static vi three_bits(const u8* planes) {
    const vi high = shift_left(load_bits_i32(planes + 4), 2);
    return add_i32(add_i32(load_bits_i32(planes), shift_left(load_bits_i32(planes + 2), 1)), high);
  }
};

}  // namespace junto::JUNTO_ISA

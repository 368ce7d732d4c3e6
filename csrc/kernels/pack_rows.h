// SPDX-License-Identifier: Apache-2.0
//
// What the packing of every type is made of: the stored blocks of 16 rows, codes spread out to one
// byte a value, and the ways in which packed.h lays codes and scales down.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/packed.h"

namespace junto {

using u8 = std::uint8_t;

// The stored blocks of 16 rows at one unit; rows beyond the last are null.
using Blocks = std::array<const u8*, kRows>;

// One byte a value: codes[row][k].
using RowCodes = std::array<u8, kBlock>;
using Codes = std::array<RowCodes, kRows>;

// One small number of each row.
using Column = std::array<unsigned, kRows>;

// Packs a unit of 16 rows.
using Pack = void(u8* to, const Blocks& blocks);

Pack pack_q8_0, pack_q4_0, pack_q4_1, pack_q5_0, pack_q5_1, pack_q1_0, pack_q2_0;
Pack pack_mxfp4, pack_mxfp4_pairs, pack_nvfp4, pack_tq1_0, pack_tq2_0;
Pack pack_q2_k, pack_q3_k, pack_q4_k, pack_q5_k, pack_q6_k;
Pack pack_iq4_xs, pack_iq1_s, pack_iq1_m, pack_iq2_xxs, pack_iq2_xs, pack_iq2_s;
Pack pack_iq3_xxs, pack_iq3_s;

// spread(block, codes of the row) for every row that exists.
template <class Spread>
Codes gather(const Blocks& blocks, Spread spread) {
  Codes codes{};
  for (std::size_t r = 0; r < kRows; ++r)
    if (blocks[r] != nullptr) spread(blocks[r], codes[r]);
  return codes;
}

// value(block) of every row; 0 for rows that do not exist.
template <class Value>
Column column(const Blocks& blocks, Value value) {
  Column out{};
  for (std::size_t r = 0; r < kRows; ++r)
    if (blocks[r] != nullptr) out[r] = static_cast<unsigned>(value(blocks[r]));
  return out;
}

inline u8* put_8_bits(u8* to, const Codes& codes) {
  for (std::size_t j = 0; j < 8; ++j)
    for (const RowCodes& row : codes) {
      std::memcpy(to, row.data() + 4 * j, 4);
      to += 4;
    }
  return to;
}

// Four or eight codes at once, a byte each.
static_assert(std::endian::native == std::endian::little, "the first code is the lowest byte");
inline std::uint32_t four_at(const u8* p) {
  std::uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}
inline std::uint64_t eight_at(const u8* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}
inline u8* put_word(u8* to, std::uint32_t word) {
  std::memcpy(to, &word, sizeof word);
  return to + sizeof word;
}

// Two vectors of codes into the nibbles of one, the low four bits of each.
inline u8* put_nibbles(u8* to, const Codes& codes) {
  constexpr std::uint32_t kLow = 0x0F0F0F0Fu;
  for (std::size_t v = 0; v < 4; ++v)
    for (const RowCodes& row : codes) {
      const std::uint32_t low = four_at(row.data() + 8 * v), high = four_at(row.data() + 8 * v + 4);
      to = put_word(to, (low & kLow) | (high & kLow) << 4);
    }
  return to;
}

// 8 / n_bit vectors of codes into the bits of one: bits `shift` to `shift` + n_bit of each code.
inline u8* put_bits(u8* to, const Codes& codes, std::size_t n_bit, unsigned shift) {
  const std::size_t per_byte = 8 / n_bit;
  const std::uint32_t mask = ((1u << n_bit) - 1) * 0x01010101u;
  for (std::size_t h = 0; h < n_bit; ++h)
    for (const RowCodes& row : codes) {
      std::uint32_t bits = 0;
      for (std::size_t p = 0; p < per_byte; ++p)
        bits |= ((four_at(row.data() + 4 * (per_byte * h + p)) >> shift) & mask) << (n_bit * p);
      to = put_word(to, bits);
    }
  return to;
}
inline u8* put_pairs(u8* to, const Codes& codes, unsigned shift) {
  return put_bits(to, codes, 2, shift);
}
inline u8* put_plane(u8* to, const Codes& codes, unsigned shift) {
  return put_bits(to, codes, 1, shift);
}

// Copies `n` bytes at `offset` of every row's block.
inline u8* put_field(u8* to, const Blocks& blocks, std::size_t offset, std::size_t n) {
  for (const u8* block : blocks) {
    if (block != nullptr) {
      std::memcpy(to, block + offset, n);
    } else {
      std::memset(to, 0, n);
    }
    to += n;
  }
  return to;
}

// A byte a row.
inline u8* put_bytes(u8* to, const Column& values) {
  for (const unsigned value : values) *to++ = static_cast<u8>(value);
  return to;
}

// Nibbles of a 32-value block: low nibbles are values 0-15, high ones 16-31.
inline void split_halves(const u8* bytes, RowCodes& row) {
  constexpr std::uint64_t kLow = 0x0F0F0F0F0F0F0F0Fu;
  for (std::size_t i = 0; i < 16; i += 8) {
    const std::uint64_t low = eight_at(bytes + i) & kLow, high = (eight_at(bytes + i) >> 4) & kLow;
    std::memcpy(row.data() + i, &low, sizeof low);
    std::memcpy(row.data() + i + 16, &high, sizeof high);
  }
}

inline std::uint16_t u16_at(const u8* p) {
  std::uint16_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

}  // namespace junto

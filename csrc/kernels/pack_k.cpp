// SPDX-License-Identifier: Apache-2.0
//
// Packing of K-quants and of IQ4_XS: blocks of 256 values in eight tiles of 32, scales behind the
// codes. Source of the block layouts: the GGUF specification and gguf-py.

#include "kernels/pack_rows.h"

namespace junto {

namespace {

constexpr std::size_t kTiles = 8;

// Bit pair of value k of tile i: each half of 128 values takes 32 bytes, lowest pairs first.
unsigned pair_at(const u8* bytes, std::size_t i, std::size_t k) {
  return (bytes[32 * (i / 4) + k] >> (2 * (i % 4))) & 3u;
}

// Nibble of value k of tile i: 32 bytes hold tile 2n in their low nibbles, 2n + 1 in their high
// ones.
unsigned nibble_at(const u8* bytes, std::size_t i, std::size_t k) {
  const unsigned byte = bytes[32 * (i / 2) + k];
  return i % 2 == 0 ? byte & 15u : byte >> 4;
}

template <class Code>
Codes tile_codes(const Blocks& blocks, Code code) {
  return gather(blocks, [code](const u8* block, RowCodes& row) {
    for (std::size_t k = 0; k < kBlock; ++k) row[k] = static_cast<u8>(code(block, k));
  });
}

// The 6-bit scale and minimum of sub-block j, from the 12 bytes of a Q4_K or Q5_K block.
unsigned k_scale(const u8* packed, std::size_t j) {
  if (j < 4) return packed[j] & 63u;
  return (packed[j + 4] & 15u) | static_cast<unsigned>(packed[j - 4] >> 6) << 4;
}
unsigned k_minimum(const u8* packed, std::size_t j) {
  if (j < 4) return packed[j + 4] & 63u;
  return static_cast<unsigned>(packed[j + 4] >> 4) | static_cast<unsigned>(packed[j] >> 6) << 4;
}

// d, dmin, then eight scales and eight minima of each row.
void put_scales_and_minima(u8* to, const Blocks& blocks) {
  to = put_field(put_field(to, blocks, 0, 2), blocks, 2, 2);
  for (std::size_t j = 0; j < kTiles; ++j)
    to = put_bytes(to, column(blocks, [j](const u8* block) { return k_scale(block + 4, j); }));
  for (std::size_t j = 0; j < kTiles; ++j)
    to = put_bytes(to, column(blocks, [j](const u8* block) { return k_minimum(block + 4, j); }));
}

// The 6-bit scale j of a Q3_K block, less 32: eight bytes of nibbles, four of bit pairs.
int q3_scale(const u8* packed, std::size_t j) {
  const int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
  const int high = (packed[8 + j % 4] >> (2 * (j / 4))) & 3;
  return (low | high << 4) - 32;
}

}  // namespace

void pack_q2_k(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i)
    to = put_pairs(
        to,
        tile_codes(blocks,
                   [i](const u8* block, std::size_t k) { return pair_at(block + 16, i, k); }),
        0);
  to = put_field(put_field(to, blocks, 80, 2), blocks, 82, 2);
  for (std::size_t g = 0; g < 16; ++g) to = put_field(to, blocks, g, 1);
}

void pack_q3_k(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    const Codes codes = tile_codes(blocks, [i](const u8* block, std::size_t k) {
      return pair_at(block + 32, i, k) | ((block[k] >> i) & 1u) << 2;
    });
    to = put_plane(put_pairs(to, codes, 0), codes, 2);
  }
  to = put_field(to, blocks, 108, 2);
  for (std::size_t g = 0; g < 16; ++g)
    to = put_bytes(to, column(blocks, [g](const u8* block) { return q3_scale(block + 96, g); }));
}

void pack_q4_k(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i)
    to = put_nibbles(to, tile_codes(blocks, [i](const u8* block, std::size_t k) {
                       return nibble_at(block + 16, i, k);
                     }));
  put_scales_and_minima(to, blocks);
}

void pack_q5_k(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    const Codes codes = tile_codes(blocks, [i](const u8* block, std::size_t k) {
      return nibble_at(block + 48, i, k) | ((block[16 + k] >> i) & 1u) << 4;
    });
    to = put_plane(put_nibbles(to, codes), codes, 4);
  }
  put_scales_and_minima(to, blocks);
}

void pack_q6_k(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    // Each half of 128 values: 64 bytes of low nibbles, 32 bytes of high bit pairs.
    const Codes codes = tile_codes(blocks, [i](const u8* block, std::size_t k) {
      const unsigned byte = block[64 * (i / 4) + 32 * (i % 2) + k];
      const unsigned nibble = i % 4 < 2 ? byte & 15u : byte >> 4;
      return nibble | pair_at(block + 128, i, k) << 4;
    });
    to = put_pairs(put_nibbles(to, codes), codes, 4);
  }
  to = put_field(to, blocks, 208, 2);
  for (std::size_t g = 0; g < 16; ++g) to = put_field(to, blocks, 192 + g, 1);
}

void pack_iq4_xs(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i)
    to = put_nibbles(to, gather(blocks, [i](const u8* block, RowCodes& row) {
                       split_halves(block + 8 + 16 * i, row);
                     }));
  to = put_field(to, blocks, 0, 2);
  for (std::size_t i = 0; i < kTiles; ++i)
    to = put_bytes(to, column(blocks, [i](const u8* block) {
                     const int low = (block[4 + i / 2] >> (4 * (i % 2))) & 15;
                     const int high = (u16_at(block + 2) >> (2 * i)) & 3;
                     return (low | high << 4) - 32;
                   }));
}

}  // namespace junto

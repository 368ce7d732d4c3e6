// SPDX-License-Identifier: Apache-2.0
//
// Packing of the types whose blocks have one scale of their own, four-bit floats and ternary types
// among them. Source of the block layouts: the GGUF specification and gguf-py.

#include "kernels/pack_rows.h"

namespace junto {

void pack_q8_0(u8* to, const Blocks& blocks) {
  Codes codes = gather(blocks, [](const u8* block, RowCodes& row) {
    for (std::size_t k = 0; k < kBlock; ++k) row[k] = block[2 + k] ^ 0x80;
  });
  for (std::size_t r = 0; r < kRows; ++r)
    if (blocks[r] == nullptr) codes[r].fill(0x80);
  put_field(put_8_bits(to, codes), blocks, 0, 2);
}

namespace {

Codes halves_at(const Blocks& blocks, std::size_t offset) {
  return gather(blocks,
                [offset](const u8* block, RowCodes& row) { split_halves(block + offset, row); });
}

}  // namespace

void pack_q4_0(u8* to, const Blocks& blocks) {
  put_field(put_nibbles(to, halves_at(blocks, 2)), blocks, 0, 2);
}

void pack_q4_1(u8* to, const Blocks& blocks) {
  to = put_nibbles(to, halves_at(blocks, 4));
  put_field(put_field(to, blocks, 0, 2), blocks, 2, 2);
}

namespace {

// Four bytes of fifth bits at `offset`, then the nibbles.
u8* put_five_bits(u8* to, const Blocks& blocks, std::size_t offset) {
  const Codes codes = gather(blocks, [offset](const u8* block, RowCodes& row) {
    split_halves(block + offset + 4, row);
    const std::uint32_t fifth = four_at(block + offset);
    for (std::size_t k = 0; k < kBlock; ++k)
      row[k] = static_cast<u8>(row[k] | ((fifth >> k) & 1u) << 4);
  });
  return put_plane(put_nibbles(to, codes), codes, 4);
}

}  // namespace

void pack_q5_0(u8* to, const Blocks& blocks) {
  put_field(put_five_bits(to, blocks, 2), blocks, 0, 2);
}

void pack_q5_1(u8* to, const Blocks& blocks) {
  to = put_five_bits(to, blocks, 4);
  put_field(put_field(to, blocks, 0, 2), blocks, 2, 2);
}

void pack_q1_0(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < 4; ++i)
    to = put_plane(to,
                   gather(blocks,
                          [i](const u8* block, RowCodes& row) {
                            const std::uint32_t bits = four_at(block + 2 + 4 * i);
                            for (std::size_t k = 0; k < kBlock; ++k)
                              row[k] = static_cast<u8>((bits >> k) & 1u);
                          }),
                   0);
  put_field(to, blocks, 0, 2);
}

void pack_q2_0(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < 2; ++i)
    to = put_pairs(to,
                   gather(blocks,
                          [i](const u8* block, RowCodes& row) {
                            const u8* bytes = block + 2 + 8 * i;
                            for (std::size_t k = 0; k < kBlock; ++k)
                              row[k] = (bytes[k / 4] >> (2 * (k % 4))) & 3;
                          }),
                   0);
  put_field(to, blocks, 0, 2);
}

void pack_mxfp4(u8* to, const Blocks& blocks) {
  put_field(put_nibbles(to, halves_at(blocks, 1)), blocks, 0, 1);
}

// Byte i holds values 2i and 2i + 1.
void pack_mxfp4_pairs(u8* to, const Blocks& blocks) {
  to = put_nibbles(to, gather(blocks, [](const u8* block, RowCodes& row) {
                     for (std::size_t i = 0; i < 16; ++i) {
                       row[2 * i] = block[1 + i] & 15;
                       row[2 * i + 1] = static_cast<u8>(block[1 + i] >> 4);
                     }
                   }));
  put_field(to, blocks, 0, 1);
}

// Scales lose their sign, which does not count, and 0x7F becomes 0, which it stands for.
void pack_nvfp4(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < 2; ++i)
    to = put_nibbles(to, gather(blocks, [i](const u8* block, RowCodes& row) {
                       for (std::size_t k = 0; k < kBlock; ++k) {
                         const u8 byte = block[4 + 16 * i + 8 * (k / 16) + k % 8];
                         row[k] = k % 16 < 8 ? byte & 15 : static_cast<u8>(byte >> 4);
                       }
                     }));
  for (std::size_t g = 0; g < 4; ++g)
    to = put_bytes(to, column(blocks, [g](const u8* block) {
                     return block[g] == 0x7F ? 0 : block[g] & 0x7F;
                   }));
}

void pack_tq2_0(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < 8; ++i)
    to = put_pairs(to,
                   gather(blocks,
                          [i](const u8* block, RowCodes& row) {
                            const u8* bytes = block + 32 * (i / 4);
                            for (std::size_t k = 0; k < kBlock; ++k)
                              row[k] = (bytes[k] >> (2 * (i % 4))) & 3;
                          }),
                   0);
  put_field(to, blocks, 64, 2);
}

namespace {

constexpr unsigned kPowers[] = {1, 3, 9, 27, 81};

// Digit n of a byte that is five digits as a fraction of 243 in 256ths.
unsigned digit_of(unsigned byte, std::size_t n) { return (byte * kPowers[n] % 256 * 3) >> 8; }

// Digit k of a stored block: runs of 32 and of 16 bytes hold five digits each, a run of 4 has four.
unsigned stored_digit(const u8* block, std::size_t k) {
  if (k < 160) return digit_of(block[k % 32], k / 32);
  if (k < 240) return digit_of(block[32 + (k - 160) % 16], (k - 160) / 16);
  return digit_of(block[48 + (k - 240) % 4], (k - 240) / 4);
}

}  // namespace

// Code vectors 0 to 63 (32 k-values are eight of them) lie five in a vector, as the digits of each
// byte, the first one highest: digit n of packed vector v is code vector 13n + v; the last is zero.
void pack_tq1_0(u8* to, const Blocks& blocks) {
  for (std::size_t v = 0; v < 13; ++v)
    for (const u8* block : blocks)
      for (std::size_t b = 0; b < 4; ++b) {
        unsigned number = 0;
        for (std::size_t n = 0; n < 5; ++n) {
          const std::size_t k = 4 * (13 * n + v) + b;
          const bool exists = block != nullptr && k < 256;
          number = 3 * number + (exists ? stored_digit(block, k) : 0u);
        }
        *to++ = static_cast<u8>((number * 256 + 242) / 243);
      }
  put_field(to, blocks, 52, 2);
}

}  // namespace junto

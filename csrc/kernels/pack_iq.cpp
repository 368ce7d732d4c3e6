// SPDX-License-Identifier: Apache-2.0
//
// Packing of the types that name entries of a codebook: IQ1, IQ2 and IQ3. Nothing is decoded here;
// the fields of a block move to where a kernel finds those of 16 rows side by side. A unit is eight
// tiles of 32 k-values, then 16 x f16 d. Of a tile, for 16 rows each:
//
//   entries   16 bytes for each entry of a row: four of eight values, or eight of four (IQ3)
//   planes    bits above the byte: for each entry 1, 2 or 3 planes of 16 bits, bit r that of row r
//   shifts    IQ1_M: a plane for each entry
//   signs     IQ2, IQ3: for each 8 values the signs of two vectors (see packed.h), bit n that of
//             byte n: 64 bits for the first one, 64 for the second. Where a file has seven bits and
//             makes the eighth even, 48 bits: three for each row.
//   scales    8 bytes: row r in the low nibble of byte r, row r + 8 in the high one; IQ1_M: three
//             planes. One of these for each 16 values, or for 32 (IQ2_XXS, IQ3, IQ1_S)
//
//   type     bytes of a tile        entries  planes  shifts  signs  scales
//   IQ2_XXS            128               64       -       -     56       8
//   IQ2_XS             144               64       8       -     56      16
//   IQ2_S              160               64      16       -     64      16
//   IQ3_XXS            192              128       -       -     56       8
//   IQ3_S              216              128      16       -     64       8
//   IQ1_S               96               64      24       -      -       8 (the shift is bit 3)
//   IQ1_M              108               64      24       8      -      12
//
// Source of the block layouts: gguf-py and ggml-common.h.

#include "kernels/pack_rows.h"

namespace junto {

namespace {

constexpr std::size_t kTiles = 8;

u8* put_integer(u8* to, std::uint64_t word, std::size_t n_byte) {
  for (std::size_t n = 0; n < n_byte; ++n) *to++ = static_cast<u8>(word >> (8 * n));
  return to;
}

// Bit `bit` of every row's value.
u8* put_row_bits(u8* to, const Column& values, unsigned bit) {
  std::uint64_t word = 0;
  for (std::size_t r = 0; r < kRows; ++r)
    word |= static_cast<std::uint64_t>((values[r] >> bit) & 1u) << r;
  return put_integer(to, word, 2);
}

u8* put_row_nibbles(u8* to, const Column& values) {
  for (std::size_t r = 0; r < 8; ++r)
    *to++ = static_cast<u8>((values[r] & 15u) | (values[r + 8] & 15u) << 4);
  return to;
}

// Bits `shift` to `shift` + n_bit of every row's value, n_bit apart.
u8* put_row_fields(u8* to, const Column& values, unsigned shift, unsigned n_bit) {
  std::uint64_t word = 0;
  for (std::size_t r = 0; r < kRows; ++r)
    word |= static_cast<std::uint64_t>((values[r] >> shift) & ((1u << n_bit) - 1)) << (n_bit * r);
  return put_integer(to, word, 2 * n_bit);
}

u8* put_seven_signs(u8* to, const Column& signs) {
  return put_row_fields(put_row_fields(to, signs, 0, 4), signs, 4, 3);
}
u8* put_eight_signs(u8* to, const Column& signs) {
  return put_row_fields(put_row_fields(to, signs, 0, 4), signs, 4, 4);
}

// Entries first + 0 .. n - 1, then the planes above the byte; entry(block, index) has all its bits.
template <class Entry>
u8* put_entries(u8* to, const Blocks& blocks, std::size_t n, unsigned n_plane, Entry entry) {
  for (std::size_t v = 0; v < n; ++v)
    to = put_bytes(to, column(blocks, [&](const u8* block) { return entry(block, v); }));
  for (unsigned bit = 0; bit < n_plane; ++bit)
    for (std::size_t v = 0; v < n; ++v)
      to = put_row_bits(to, column(blocks, [&](const u8* b) { return entry(b, v); }), 8 + bit);
  return to;
}

// Nibble g of a run of bytes, low before high.
unsigned nibble(const u8* bytes, std::size_t g) { return (bytes[g / 2] >> (4 * (g % 2))) & 15u; }

// Scales 2i and 2i + 1, each of 16 values.
u8* put_two_scales(u8* to, const Blocks& blocks, std::size_t offset, std::size_t i) {
  for (std::size_t g = 2 * i; g < 2 * i + 2; ++g)
    to = put_row_nibbles(
        to, column(blocks, [=](const u8* block) { return nibble(block + offset, g); }));
  return to;
}

// Four sets of seven signs, then a scale of four bits, from a word of each row.
u8* put_word(u8* to, const Blocks& blocks, std::size_t offset) {
  const Column word = column(blocks, [=](const u8* block) { return four_at(block + offset); });
  for (unsigned v = 0; v < 4; ++v) {
    Column signs{};
    for (std::size_t r = 0; r < kRows; ++r) signs[r] = (word[r] >> (7 * v)) & 127u;
    to = put_seven_signs(to, signs);
  }
  Column scale{};
  for (std::size_t r = 0; r < kRows; ++r) scale[r] = word[r] >> 28;
  return put_row_nibbles(to, scale);
}

u8* put_stored_signs(u8* to, const Blocks& blocks, std::size_t offset) {
  for (std::size_t v = 0; v < 4; ++v)
    to = put_eight_signs(to, column(blocks, [=](const u8* block) { return block[offset + v]; }));
  return to;
}

}  // namespace

void pack_iq2_xxs(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    const std::size_t at = 2 + 8 * i;
    to = put_entries(
        to, blocks, 4, 0, [=](const u8* block, std::size_t v) { return block[at + v]; });
    to = put_word(to, blocks, at + 4);
  }
  put_field(to, blocks, 0, 2);
}

void pack_iq2_xs(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    const auto word = [i](const u8* block, std::size_t v) {
      return static_cast<unsigned>(u16_at(block + 2 + 8 * i + 2 * v));
    };
    to = put_entries(
        to, blocks, 4, 1, [&](const u8* block, std::size_t v) { return word(block, v) & 511u; });
    for (std::size_t v = 0; v < 4; ++v)
      to =
          put_seven_signs(to, column(blocks, [&](const u8* block) { return word(block, v) >> 9; }));
    to = put_two_scales(to, blocks, 66, i);
  }
  put_field(to, blocks, 0, 2);
}

void pack_iq2_s(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    to = put_entries(to, blocks, 4, 2, [i](const u8* block, std::size_t v) {
      const unsigned high = (block[66 + i] >> (2 * v)) & 3u;
      return block[2 + 4 * i + v] | high << 8;
    });
    to = put_stored_signs(to, blocks, 34 + 4 * i);
    to = put_two_scales(to, blocks, 74, i);
  }
  put_field(to, blocks, 0, 2);
}

void pack_iq3_xxs(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    to = put_entries(
        to, blocks, 8, 0, [i](const u8* block, std::size_t v) { return block[2 + 8 * i + v]; });
    to = put_word(to, blocks, 66 + 4 * i);
  }
  put_field(to, blocks, 0, 2);
}

void pack_iq3_s(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    to = put_entries(to, blocks, 8, 1, [i](const u8* block, std::size_t v) {
      const unsigned high = (block[66 + i] >> v) & 1u;
      return block[2 + 8 * i + v] | high << 8;
    });
    to = put_stored_signs(to, blocks, 74 + 4 * i);
    to = put_row_nibbles(to,
                         column(blocks, [i](const u8* block) { return nibble(block + 106, i); }));
  }
  put_field(to, blocks, 0, 2);
}

void pack_iq1_s(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    const auto word = [i](const u8* block) {
      return static_cast<unsigned>(u16_at(block + 34 + 2 * i));
    };
    to = put_entries(to, blocks, 4, 3, [&](const u8* block, std::size_t v) {
      return block[2 + 4 * i + v] | ((word(block) >> (3 * v)) & 7u) << 8;
    });
    to = put_row_nibbles(to, column(blocks, [&](const u8* block) { return word(block) >> 12; }));
  }
  put_field(to, blocks, 0, 2);
}

void pack_iq1_m(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < kTiles; ++i) {
    const auto above = [i](const u8* block, std::size_t v) {
      return nibble(block + 32, 4 * i + v);
    };
    to = put_entries(to, blocks, 4, 3, [&](const u8* block, std::size_t v) {
      return block[4 * i + v] | (above(block, v) & 7u) << 8;
    });
    for (std::size_t v = 0; v < 4; ++v)
      to = put_row_bits(to, column(blocks, [&](const u8* block) { return above(block, v); }), 3);
    for (std::size_t g = 2 * i; g < 2 * i + 2; ++g)
      for (unsigned bit = 0; bit < 3; ++bit)
        to = put_row_bits(to,
                          column(blocks,
                                 [g](const u8* block) {
                                   return u16_at(block + 48 + 2 * (g / 4)) >> (3 * (g % 4));
                                 }),
                          bit);
  }
  // d lies in the top four bits of the four words of scales, the lowest bits in the first one.
  const Column d = column(blocks, [](const u8* block) {
    unsigned word = 0;
    for (std::size_t n = 0; n < 4; ++n)
      word |= static_cast<unsigned>(u16_at(block + 48 + 2 * n) >> 12) << (4 * n);
    return word;
  });
  for (const unsigned word : d) to = put_integer(to, word, 2);
}

}  // namespace junto

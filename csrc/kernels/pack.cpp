// SPDX-License-Identifier: Apache-2.0
//
// From the blocks of a GGUF to the packed form of packed.h. Codes are spread out to one byte a
// value for 16 rows and 32 k-values, then laid into vectors; scales move as they are.
// Source of the block layouts: the GGUF specification and gguf-py.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "kernels/packed.h"

namespace junto {

namespace {

constexpr TypeInfo kTypes[] = {
    {"F32", Type::kF32, 1, 64, 4, true},
    {"F16", Type::kF16, 1, 32, 2, true},
    {"BF16", Type::kBF16, 1, 32, 2, true},
    {"Q8_0", Type::kQ8_0, 32, 544, 34, false},
    {"Q4_0", Type::kQ4_0, 32, 288, 18, false},
    {"Q4_1", Type::kQ4_1, 32, 320, 20, false},
    {"MXFP4", Type::kMXFP4, 32, 272, 17, false},
    {"Q4_K", Type::kQ4_K, 256, 2368, 144, false},
    {"Q6_K", Type::kQ6_K, 256, 3360, 210, false},
};

using u8 = std::uint8_t;

// One byte a value: codes[row][k].
using Codes = std::array<std::array<u8, kBlock>, kRows>;

u8* put_8_bits(u8* to, const Codes& codes) {
  for (std::size_t j = 0; j < 8; ++j)
    for (const auto& row : codes) to = std::copy_n(row.data() + 4 * j, 4, to);
  return to;
}

u8* put_4_bits(u8* to, const Codes& codes) {
  for (std::size_t v = 0; v < 4; ++v)
    for (const auto& row : codes)
      for (std::size_t b = 0; b < 4; ++b) {
        const unsigned low = row[8 * v + b] & 15u, high = row[8 * v + 4 + b] & 15u;
        *to++ = static_cast<u8>(low | high << 4);
      }
  return to;
}

u8* put_6_bits(u8* to, const Codes& codes) {
  to = put_4_bits(to, codes);
  for (std::size_t h = 0; h < 2; ++h)
    for (const auto& row : codes)
      for (std::size_t b = 0; b < 4; ++b) {
        unsigned bits = 0;
        for (std::size_t p = 0; p < 4; ++p)
          bits |= static_cast<unsigned>(row[4 * (4 * h + p) + b] >> 4) << (2 * p);
        *to++ = static_cast<u8>(bits);
      }
  return to;
}

// Nibbles of a 32-value block: low nibbles are values 0-15, high ones 16-31.
void split_halves(const u8* bytes, std::array<u8, kBlock>& row) {
  for (std::size_t i = 0; i < 16; ++i) {
    row[i] = bytes[i] & 15;
    row[i + 16] = static_cast<u8>(bytes[i] >> 4);
  }
}

// The stored blocks of 16 rows at one unit; rows beyond the last are null.
using Blocks = std::array<const u8*, kRows>;

template <class Spread>
Codes gather(const Blocks& blocks, Spread spread) {
  Codes codes{};
  for (std::size_t r = 0; r < kRows; ++r)
    if (blocks[r] != nullptr) spread(blocks[r], codes[r]);
  return codes;
}

// Copies `n` bytes at `offset` of every row's block.
u8* put_field(u8* to, const Blocks& blocks, std::size_t offset, std::size_t n) {
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

void pack_q8_0(u8* to, const Blocks& blocks) {
  Codes codes = gather(blocks, [](const u8* block, std::array<u8, kBlock>& row) {
    for (std::size_t k = 0; k < kBlock; ++k) row[k] = block[2 + k] ^ 0x80;
  });
  for (std::size_t r = 0; r < kRows; ++r)
    if (blocks[r] == nullptr) codes[r].fill(0x80);
  put_field(put_8_bits(to, codes), blocks, 0, 2);
}

void pack_q4_0(u8* to, const Blocks& blocks) {
  to = put_4_bits(to, gather(blocks, [](const u8* b, auto& row) { split_halves(b + 2, row); }));
  put_field(to, blocks, 0, 2);
}

void pack_q4_1(u8* to, const Blocks& blocks) {
  to = put_4_bits(to, gather(blocks, [](const u8* b, auto& row) { split_halves(b + 4, row); }));
  put_field(put_field(to, blocks, 0, 2), blocks, 2, 2);
}

void pack_mxfp4(u8* to, const Blocks& blocks) {
  to = put_4_bits(to, gather(blocks, [](const u8* b, auto& row) { split_halves(b + 1, row); }));
  put_field(to, blocks, 0, 1);
}

// The 6-bit scale and minimum of sub-block j of a Q4_K block, from its 12 bytes.
void k_scale(const u8* packed, std::size_t j, u8& scale, u8& minimum) {
  if (j < 4) {
    scale = packed[j] & 63;
    minimum = packed[j + 4] & 63;
  } else {
    scale = static_cast<u8>((packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4));
    minimum = static_cast<u8>((packed[j + 4] >> 4) | ((packed[j] >> 6) << 4));
  }
}

void pack_q4_k(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < 8; ++i) {
    to = put_4_bits(to, gather(blocks, [i](const u8* block, auto& row) {
                      const u8* bytes = block + 16 + 32 * (i / 2);
                      for (std::size_t k = 0; k < kBlock; ++k)
                        row[k] = i % 2 == 0 ? bytes[k] & 15 : static_cast<u8>(bytes[k] >> 4);
                    }));
  }
  to = put_field(put_field(to, blocks, 0, 2), blocks, 2, 2);
  u8* scales = to;
  u8* minima = to + 8 * kRows;
  for (std::size_t i = 0; i < 8; ++i)
    for (const u8* block : blocks) {
      *scales = *minima = 0;
      if (block != nullptr) k_scale(block + 4, i, *scales, *minima);
      ++scales;
      ++minima;
    }
}

void pack_q6_k(u8* to, const Blocks& blocks) {
  for (std::size_t i = 0; i < 8; ++i) {
    // Each half of 128 values: 64 bytes of low nibbles, 32 bytes of high bit pairs.
    to = put_6_bits(to, gather(blocks, [i](const u8* block, auto& row) {
                      const std::size_t half = i / 4, quarter = i % 4;
                      const u8* low = block + 64 * half + 32 * (quarter % 2);
                      const u8* high = block + 128 + 32 * half;
                      for (std::size_t k = 0; k < kBlock; ++k) {
                        const unsigned nibble = quarter < 2 ? low[k] & 15u : low[k] >> 4;
                        const unsigned pair = (high[k] >> (2 * quarter)) & 3u;
                        row[k] = static_cast<u8>(nibble | pair << 4);
                      }
                    }));
  }
  to = put_field(to, blocks, 208, 2);
  for (std::size_t i = 0; i < 16; ++i) to = put_field(to, blocks, 192 + i, 1);
}

void pack_float(u8* to, const Blocks& blocks, std::size_t n) { put_field(to, blocks, 0, n); }

void pack_unit(Type type, u8* to, const Blocks& blocks) {
  switch (type) {
    case Type::kF32:
      return pack_float(to, blocks, 4);
    case Type::kF16:
      return pack_float(to, blocks, 2);
    case Type::kBF16:
      return pack_float(to, blocks, 2);
    case Type::kQ8_0:
      return pack_q8_0(to, blocks);
    case Type::kQ4_0:
      return pack_q4_0(to, blocks);
    case Type::kQ4_1:
      return pack_q4_1(to, blocks);
    case Type::kMXFP4:
      return pack_mxfp4(to, blocks);
    case Type::kQ4_K:
      return pack_q4_k(to, blocks);
    case Type::kQ6_K:
      return pack_q6_k(to, blocks);
  }
}

// 0, or errno.
int write_all(int descriptor, const u8* from, std::size_t n, std::int64_t offset) {
  while (n > 0) {
    const ssize_t written = ::pwrite(descriptor, from, n, static_cast<off_t>(offset));
    if (written < 0 && errno != EINTR) return errno;
    if (written == 0) return ENOSPC;
    if (written > 0) {
      from += written;
      offset += written;
      n -= static_cast<std::size_t>(written);
    }
  }
  return 0;
}

}  // namespace

const TypeInfo* find_type(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTypes),
                                   std::end(kTypes),
                                   [name](const TypeInfo& info) { return info.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

PackedMatrix::PackedMatrix(const TypeInfo& info,
                           std::int64_t n_expert,
                           std::int64_t n_out,
                           std::int64_t n_in,
                           const std::uint8_t* data)
    : info_(info),
      n_expert_(n_expert),
      n_out_(n_out),
      n_in_(n_in),
      memory_(data == nullptr ? allocate(n_bytes()) : Memory()),
      data_(data == nullptr ? memory_.get() : data) {}

void PackedMatrix::pack_group(const std::uint8_t* rows,
                              std::int64_t row_stride,
                              std::int64_t g,
                              std::uint8_t* to) const {
  Blocks blocks{};
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::int64_t row = g * kRows + static_cast<std::int64_t>(r);
    blocks[r] = row < n_out_ ? rows + row * row_stride : nullptr;
  }
  for (std::int64_t unit = 0; unit < n_unit(); ++unit) {
    pack_unit(info_.type, to, blocks);
    to += info_.unit_bytes;
    for (const std::uint8_t*& block : blocks)
      if (block != nullptr) block += info_.stored_bytes;
  }
}

void PackedMatrix::fill(std::int64_t expert,
                        const std::uint8_t* rows,
                        std::int64_t row_stride,
                        ThreadPool& pool) {
  std::uint8_t* const first_group = memory_.get() + (group(expert, 0) - data_);
  pool.loop(n_group(), 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t g = first; g < last; ++g)
      pack_group(rows, row_stride, g, first_group + static_cast<std::size_t>(g) * group_bytes());
  });
}

int PackedMatrix::write(std::int64_t expert,
                        const std::uint8_t* rows,
                        std::int64_t row_stride,
                        const FileRange& file,
                        ThreadPool& pool) const {
  constexpr std::size_t kPiece = std::size_t{1} << 20;  // stays in the second-level cache
  const auto in_piece = static_cast<std::int64_t>(std::max<std::size_t>(1, kPiece / group_bytes()));
  const std::size_t piece_bytes = static_cast<std::size_t>(in_piece) * group_bytes();
  std::uint8_t* const scratch =
      pool.buffer<std::uint8_t>(0, pool.size() * static_cast<std::int64_t>(piece_bytes));
  std::atomic<int> error{0};
  pool.loop(n_group(), in_piece, [&](std::int64_t first, std::int64_t last, int thread) {
    std::uint8_t* const piece = scratch + static_cast<std::size_t>(thread) * piece_bytes;
    for (std::int64_t g = first; g < last; ++g)
      pack_group(rows, row_stride, g, piece + static_cast<std::size_t>(g - first) * group_bytes());
    const std::int64_t skipped =
        (expert * n_group() + first) * static_cast<std::int64_t>(group_bytes());
    const int failed = write_all(file.descriptor,
                                 piece,
                                 static_cast<std::size_t>(last - first) * group_bytes(),
                                 file.offset + skipped);
    if (failed != 0) error.store(failed);
  });
  return error.load();
}

}  // namespace junto

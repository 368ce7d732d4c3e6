// SPDX-License-Identifier: Apache-2.0
//
// Quantises rows of float32 to the tiles of activations.h: scale = max |x| / 127 of 32 values,
// codes round to nearest even.

#include "kernels/activations.h"

#include <algorithm>
#include <cstring>

#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

struct Block {
  float scale, low, high;  // whole numbers: sums of codes 0-15 and 16-31
};

Block quantise_block(const float* x, std::uint8_t* codes) {
  const vf a = load(x), b = load(x + 16);
  const float scale = reduce_max(max(abs(a), abs(b))) / 127.0f;
  const vf inverse = set1(scale > 0.0f ? 1.0f / scale : 0.0f);
  const vf low = round(mul(a, inverse)), high = round(mul(b, inverse));
  store_low_bytes(codes, low);
  store_low_bytes(codes + 16, high);
  return {scale, reduce_add(low), reduce_add(high)};
}

// Row `t` of the sums of one block of a tile of `n_row`.
void put_sums(const CodeSums& form, const Block& block, int n_row, int t, std::uint8_t* to) {
  const float of_group[2] = {form.n_group == 1 ? block.low + block.high : block.low, block.high};
  for (int g = 0; g < form.n_group; ++g) {
    std::uint8_t* place = to + sizeof(float) * static_cast<std::size_t>(g * n_row + t);
    const float minimum = block.scale * of_group[g];
    const std::int32_t start = -form.offset * static_cast<std::int32_t>(of_group[g]);
    std::memcpy(
        place, form.has_minimum ? static_cast<const void*>(&minimum) : &start, sizeof(float));
  }
}

}  // namespace

void quantise_tile(const RowSource& from,
                   const CodeSums& sums,
                   std::int64_t first,
                   int n_row,
                   std::int64_t n_block,
                   std::uint8_t* to) {
  for (std::int64_t b = 0; b < n_block; ++b) {
    std::uint8_t* codes = to + b * n_row * kRowBlock;
    std::uint8_t* scales = codes + n_row * kBlock;
    const std::int64_t left = std::clamp<std::int64_t>(from.n_in - b * kBlock, 0, kBlock);
    for (int t = 0; t < n_row; ++t) {
      const std::int64_t row = from.row == nullptr ? first + t : from.row[first + t];
      const float* values = from.x + row * from.stride + b * kBlock;
      alignas(64) float padded[kBlock];
      if (left < kBlock) {
        std::fill_n(padded, kBlock, 0.0f);
        std::copy_n(values, left, padded);
        values = padded;
      }
      const Block block = quantise_block(values, codes + t * kBlock);
      reinterpret_cast<float*>(scales)[t] = block.scale;
      put_sums(sums, block, n_row, t, scales + sizeof(float) * static_cast<std::size_t>(n_row));
    }
  }
}

void gather_rows(const std::uint8_t* rows,
                 const std::int64_t* row,
                 int n_row,
                 std::int64_t n_block,
                 std::uint8_t* to) {
  constexpr std::size_t kNumber = sizeof(float);
  const auto n = static_cast<std::size_t>(n_row);
  for (std::int64_t b = 0; b < n_block; ++b, to += n_row * kRowBlock) {
    for (std::size_t t = 0; t < n; ++t) {
      const std::uint8_t* from = rows + (row[t] * n_block + b) * kRowBlock;
      std::memcpy(to + t * kBlock, from, kBlock);
      std::uint8_t* numbers = to + n * kBlock + t * kNumber;  // the scale and two sums
      for (std::size_t i = 0; i < 3; ++i)
        std::memcpy(numbers + i * n * kNumber, from + kBlock + i * kNumber, kNumber);
    }
  }
}

}  // namespace junto::JUNTO_ISA

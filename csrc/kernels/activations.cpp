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

struct BlockSums {
  float scale;
  std::int32_t low, high;  // of codes 0-15 and 16-31
};

// Sixteen codes from values * inverse; gives their sum.
std::int32_t put_codes(vf x, vf inverse, std::int8_t* to) {
  alignas(64) float rounded[16];
  store(rounded, round(mul(x, inverse)));
  std::int32_t sum = 0;
  for (int i = 0; i < 16; ++i) {
    const auto code = static_cast<std::int32_t>(rounded[i]);
    to[i] = static_cast<std::int8_t>(code);
    sum += code;
  }
  return sum;
}

BlockSums quantise_block(const float* x, std::int8_t* codes) {
  const vf a = load(x), b = load(x + 16);
  const float top = reduce_max(max(abs(a), abs(b)));
  const float scale = top / 127.0f;
  const vf inverse = set1(scale > 0.0f ? 1.0f / scale : 0.0f);
  BlockSums sums{scale, 0, 0};
  sums.low = put_codes(a, inverse, codes);
  sums.high = put_codes(b, inverse, codes + 16);
  return sums;
}

}  // namespace

void quantise_tile(
    const RowSource& from, std::int64_t first, int n_row, std::int64_t n_block, std::uint8_t* to) {
  const std::int64_t block_bytes = static_cast<std::int64_t>(n_row) * kRowBlock;
  for (int t = 0; t < n_row; ++t) {
    const std::int64_t row = from.row == nullptr ? first + t : from.row[first + t];
    const float* x = from.x + row * from.stride;
    for (std::int64_t b = 0; b < n_block; ++b) {
      std::uint8_t* block = to + b * block_bytes;
      alignas(64) float padded[kBlock] = {};
      const std::int64_t left = from.n_in - b * kBlock;
      const float* values = x + b * kBlock;
      if (left < kBlock) {
        if (left > 0) std::copy_n(values, left, padded);
        values = padded;
      }
      const BlockSums sums =
          quantise_block(values, reinterpret_cast<std::int8_t*>(block) + t * kBlock);
      float* scale = reinterpret_cast<float*>(block + n_row * kBlock);
      scale[t] = sums.scale;
      scale[n_row + t] = sums.scale * static_cast<float>(sums.low + sums.high);
      auto* whole = reinterpret_cast<std::int32_t*>(scale + 2 * n_row);
      whole[t] = sums.low;
      whole[n_row + t] = sums.high;
    }
  }
}

}  // namespace junto::JUNTO_ISA

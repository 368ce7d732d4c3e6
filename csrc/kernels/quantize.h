// SPDX-License-Identifier: Apache-2.0
//
// float32 rows to stored blocks. A type is quantised in groups of blocks that are neighbours in
// memory, one block (or sub-block) a lane, so that a lane's sums run along its own values: bits
// depend on the block alone, on every level and with any number of threads.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/levels.h"
#include "kernels/threads.h"

namespace junto {

struct QuantizeParams {
  const float* rows;        // [n_row, n]
  std::int64_t n_row, n;    // n: a multiple of the type's block
  const float* importance;  // [n], finite and not negative; null: every value counts alike
  std::uint8_t* out;        // [n_row, bytes of a row]
};

// How one type is quantised.
struct Quantizer {
  std::string_view type;
  int n_per_block, n_bytes_per_block;
  int n_block_group;  // blocks that `run` takes at once
  float largest;      // values beyond it, infinity and NaN are refused
  // x and importance [n_block_group * n_per_block]; importance is positive, or null
  void (*run)(const float* x, const float* importance, std::uint8_t* out);
};

// `quantize` returns the index in `rows` of the first value that the type cannot hold, or -1. Where
// there is one, `out` is not complete.
JUNTO_DECLARE_SHARED(const std::vector<Quantizer>& quantizers();)
JUNTO_DECLARE_SHARED(std::int64_t quantize(const Quantizer& how,
                                           const QuantizeParams& params,
                                           ThreadPool& pool);)

}  // namespace junto

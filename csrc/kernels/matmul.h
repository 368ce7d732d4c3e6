// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/activations.h"
#include "kernels/levels.h"
#include "kernels/packed.h"
#include "kernels/threads.h"

namespace junto {

// One tile of rows, as activations.h says for quantised weights; for float weights the float32
// values, k after k, `n_row` of them at each k.
struct TileInput {
  const std::uint8_t* data;
  int n_row;
};

// Sums of 16 outputs for every row of a tile: out[t * stride + 0 .. 15].
using TileKernel = void (*)(const std::uint8_t* group,
                            std::int64_t n_unit,
                            const TileInput& in,
                            float* out,
                            std::int64_t stride);

// y = x @ weight.T + bias of the first expert.
//
//   x        [n_row, n_in]     rows `x_stride` floats apart
//   bias     [n_out] or null
//   y        [n_row, n_out]
struct LinearParams {
  const PackedMatrix* weight;
  const float* x;
  std::int64_t n_row, x_stride;
  const float* bias;
  float* y;
};

JUNTO_DECLARE(TileKernel tile_kernel(Type type);
              std::int64_t tile_bytes(const PackedMatrix& weight, int n_row);
              void make_tile(const PackedMatrix& weight,
                             const RowSource& from,
                             std::int64_t first,
                             int n_row,
                             std::uint8_t* to);
              void linear(const LinearParams& params, ThreadPool& pool);)

}  // namespace junto

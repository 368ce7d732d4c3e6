// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/activations.h"
#include "kernels/levels.h"
#include "kernels/packed.h"
#include "kernels/threads.h"

namespace junto {

// One tile of rows: as activations.h says for quantised weights, in float32 for float weights.
struct TileInput {
  const std::uint8_t* data;
  int n_row;
};

inline constexpr int kBand = 8;  // most tiles of one call of a kernel

// Sums of 16 outputs for every row of n_tile tiles: row t of tile i goes to
// out[(i * kTile + t) * stride + 0 .. 15].
using TileKernel = void (*)(const std::uint8_t* group,
                            std::int64_t n_unit,
                            const TileInput* in,
                            int n_tile,
                            float* out,
                            std::int64_t stride);

// How rows are multiplied with weights of a type, and what its tiles hold beside codes.
struct TileProduct {
  TileKernel kernel;
  CodeSums sums;
};

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

// make_tile       the tile of rows `first` on
// make_tile_part  its k-values 32 * part on, 32 or all that are left, which `from` begins with
// gather_tile     the tile of rows that lie as tiles of one row each, one behind the other
JUNTO_DECLARE(TileProduct tile_product(Type type);
              std::int64_t tile_bytes(const PackedMatrix& weight, int n_row);
              void make_tile(const PackedMatrix& weight,
                             const RowSource& from,
                             std::int64_t first,
                             int n_row,
                             std::uint8_t* to);
              void make_tile_part(const PackedMatrix& weight,
                                  const RowSource& from,
                                  std::int64_t first,
                                  int n_row,
                                  std::int64_t part,
                                  std::uint8_t* to);
              void gather_tile(const PackedMatrix& weight,
                               const std::uint8_t* rows,
                               const std::int64_t* row,
                               int n_row,
                               std::uint8_t* to);
              void linear(const LinearParams& params, ThreadPool& pool);)

}  // namespace junto

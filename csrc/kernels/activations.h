// SPDX-License-Identifier: Apache-2.0
//
// Activations in int8 with a scale per 32 values, in tiles of up to 16 rows:
//
//   block b of a tile of T rows, T * 44 bytes, b = 0 .. n_block - 1:
//     int8  [T][32]   codes in -127 .. 127
//     f32   [T]       scale: largest |value| / 127
//     [2][T]          what the type of the weights makes of the sums of codes, see CodeSums
//
// A row is quantised by itself, so its bytes do not depend on its neighbours.
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/packed.h"

namespace junto {

inline constexpr int kTile = 16;      // most rows of a tile
inline constexpr int kRowBlock = 44;  // bytes of a block for each row of a tile

// Tiles that hold n rows: all of 16, and one of the rest.
inline std::int64_t n_tile(std::int64_t n) { return (n + kTile - 1) / kTile; }
inline int tile_rows(std::int64_t n, std::int64_t tile) {
  const std::int64_t left = n - tile * kTile;
  return static_cast<int>(left < kTile ? left : kTile);
}

// Where a kernel reads rows and what it leaves out: row i is x + row[i] * stride, or i when row is
// null; values beyond n_in count as zero.
struct RowSource {
  const float* x;
  std::int64_t stride;
  std::int64_t n_in;
  const std::int64_t* row;
};

// The sums of a block's codes in the form that a type's product takes: of all 32 (n_group 1), or of
// 0-15 and of 16-31. For types with a minimum in float32, times the scale: what the minimum is
// multiplied by. For all others in int32, times -offset: what the product begins with.
struct CodeSums {
  int n_group;
  bool has_minimum;
  int offset;
  friend bool operator==(const CodeSums&, const CodeSums&) = default;
};

// quantise_tile  the tile of rows `first` on
// gather_rows    the tile of rows that lie as tiles of one row each, one behind the other
JUNTO_DECLARE_SHARED(void quantise_tile(const RowSource& from,
                                        const CodeSums& sums,
                                        std::int64_t first,
                                        int n_row,
                                        std::int64_t n_block,
                                        std::uint8_t* to);
                     void gather_rows(const std::uint8_t* rows,
                                      const std::int64_t* row,
                                      int n_row,
                                      std::int64_t n_block,
                                      std::uint8_t* to);)

}  // namespace junto

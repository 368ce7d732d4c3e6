// SPDX-License-Identifier: Apache-2.0
//
// Rows sorted by the experts they use, so that each expert's weights are read once for all of them.
#pragma once

#include <cstdint>
#include <vector>

namespace junto {

// Pairs (row, expert) of one expert that share a tile. `first` counts pairs in sorted order.
struct PairTile {
  std::int64_t first;
  int n_row;
};

// Up to kBand tiles of one expert, from first_tile on; its pairs, from first_pair on.
struct PairRun {
  std::int64_t expert, first_tile, first_pair, n_pair;
};

// Pairs are sorted by expert, those of one expert by row.
struct Grouping {
  std::vector<std::int64_t> row_of_pair;  // sorted pair -> row
  std::vector<std::int64_t> pair_of_use;  // row * n_used + use -> sorted pair
  std::vector<PairTile> tiles;
  std::vector<PairRun> runs;
};

// expert_ids [n_row, n_used], each in [0, n_expert).
Grouping group_by_expert(const std::int64_t* expert_ids,
                         std::int64_t n_row,
                         std::int64_t n_used,
                         std::int64_t n_expert);

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0

#include "kernels/grouping.h"

#include <algorithm>

#include "kernels/activations.h"
#include "kernels/matmul.h"

namespace junto {

namespace {

// Where the pairs of each expert begin, and behind the last where they end.
std::vector<std::int64_t> starts_of(const std::int64_t* expert_ids,
                                    std::int64_t n_pair,
                                    std::int64_t n_expert) {
  std::vector<std::int64_t> start(static_cast<std::size_t>(n_expert) + 1, 0);
  for (std::int64_t i = 0; i < n_pair; ++i) ++start[static_cast<std::size_t>(expert_ids[i]) + 1];
  for (std::size_t e = 1; e < start.size(); ++e) start[e] += start[e - 1];
  return start;
}

void add_tiles(std::int64_t expert, std::int64_t begin, std::int64_t end, Grouping& g) {
  for (std::int64_t i = begin; i < end; i += kTile) {
    if ((i - begin) % (kBand * kTile) == 0) {
      const auto first_tile = static_cast<std::int64_t>(g.tiles.size());
      const std::int64_t n_pair = std::min<std::int64_t>(kBand * kTile, end - i);
      g.runs.push_back({expert, first_tile, i, n_pair});
    }
    g.tiles.push_back({i, static_cast<int>(std::min<std::int64_t>(kTile, end - i))});
  }
}

}  // namespace

Grouping group_by_expert(const std::int64_t* expert_ids,
                         std::int64_t n_row,
                         std::int64_t n_used,
                         std::int64_t n_expert) {
  const std::int64_t n_pair = n_row * n_used;
  const std::vector<std::int64_t> start = starts_of(expert_ids, n_pair, n_expert);
  Grouping g;
  g.row_of_pair.resize(static_cast<std::size_t>(n_pair));
  g.pair_of_use.resize(static_cast<std::size_t>(n_pair));
  std::vector<std::int64_t> next(start.begin(), start.end() - 1);
  for (std::int64_t i = 0; i < n_pair; ++i) {
    const std::int64_t pair = next[static_cast<std::size_t>(expert_ids[i])]++;
    g.row_of_pair[static_cast<std::size_t>(pair)] = i / n_used;
    g.pair_of_use[static_cast<std::size_t>(i)] = pair;
  }
  for (std::int64_t e = 0; e < n_expert; ++e) {
    const auto at = static_cast<std::size_t>(e);
    add_tiles(e, start[at], start[at + 1], g);
  }
  return g;
}

}  // namespace junto

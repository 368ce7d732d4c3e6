// SPDX-License-Identifier: Apache-2.0
//
// Grouped experts. Rows are sorted by expert, so that each weight is read once for all rows that
// want it:
//
//   group    (row, use) pairs by expert, ascending row; tiles of up to 16 pairs
//   hidden   for every expert and 16 of its n_ff outputs: gate and up, then the activation
//   output   for every expert and 16 of n_embd outputs: down
//   combine  for every row: its experts' outputs, by ascending expert
//
// A pair's numbers depend on its row alone, and the last sum has one order, so the result does not
// depend on what else is in the batch.

#include "kernels/experts.h"

#include <algorithm>
#include <vector>

#include "kernels/matmul.h"
#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

using u8 = std::uint8_t;

// Pairs of one expert that share a tile. `first` counts pairs in sorted order.
struct Tile {
  std::int64_t first;
  int n_row;
};

// Up to kBand tiles of one expert, from first_tile on; its pairs, from first_pair on.
struct Run {
  std::int64_t expert, first_tile, first_pair, n_pair;
};

struct Grouping {
  std::vector<std::int64_t> row_of_pair;  // sorted pair -> row of x
  std::vector<std::int64_t> pair_of_use;  // row * n_used + use -> sorted pair
  std::vector<Tile> tiles;
  std::vector<Run> runs;
};

Grouping group_by_expert(const ExpertsParams& p) {
  const std::int64_t n_use = p.n_tok * p.n_used, n_expert = p.gate->n_expert();
  std::vector<std::int64_t> start(static_cast<std::size_t>(n_expert) + 1, 0);
  for (std::int64_t i = 0; i < n_use; ++i) ++start[static_cast<std::size_t>(p.expert_ids[i]) + 1];
  for (std::size_t e = 0; e < static_cast<std::size_t>(n_expert); ++e) start[e + 1] += start[e];

  Grouping g;
  g.row_of_pair.resize(static_cast<std::size_t>(n_use));
  g.pair_of_use.resize(static_cast<std::size_t>(n_use));
  std::vector<std::int64_t> next(start.begin(), start.end() - 1);
  for (std::int64_t i = 0; i < n_use; ++i) {
    const std::int64_t pair = next[static_cast<std::size_t>(p.expert_ids[i])]++;
    g.row_of_pair[static_cast<std::size_t>(pair)] = i / p.n_used;
    g.pair_of_use[static_cast<std::size_t>(i)] = pair;
  }
  for (std::int64_t e = 0; e < n_expert; ++e) {
    const std::int64_t begin = start[static_cast<std::size_t>(e)];
    const std::int64_t end = start[static_cast<std::size_t>(e) + 1];
    for (std::int64_t i = begin; i < end; i += kTile) {
      if ((i - begin) % (kBand * kTile) == 0) {
        const auto first_tile = static_cast<std::int64_t>(g.tiles.size());
        g.runs.push_back({e, first_tile, i, std::min<std::int64_t>(kBand * kTile, end - i)});
      }
      g.tiles.push_back({i, static_cast<int>(std::min<std::int64_t>(kTile, end - i))});
    }
  }
  return g;
}

// Sixteen gates and ups of one pair -> sixteen hidden values.
vf activate(vf gate, vf up, float limit, float alpha) {
  if (limit == 0.0f) return mul(mul(gate, sigmoid(gate)), up);
  const vf top = set1(limit);
  gate = min(gate, top);
  up = max(min(up, top), set1(-limit));
  return mul(mul(add(up, set1(1.0f)), gate), sigmoid(mul(set1(alpha), gate)));
}

// Adds a bias to the first n of sixteen values.
vf with_bias(vf x, const float* bias, int n) {
  if (bias == nullptr) return x;
  return add(x, n == kRows ? load(bias) : load_part(bias, n));
}

void put(float* to, vf x, int n) {
  if (n == kRows) {
    store(to, x);
  } else {
    store_part(to, x, n);
  }
}

int rows_of_group(const PackedMatrix& w, std::int64_t g) {
  return static_cast<int>(std::min<std::int64_t>(kRows, w.n_out() - g * kRows));
}

// One pass over (run, group of 16 outputs).
template <class F>
void for_each_band(const Grouping& g, std::int64_t n_group, ThreadPool& pool, const F& f) {
  const std::int64_t n = static_cast<std::int64_t>(g.runs.size()) * n_group;
  const std::int64_t grain = std::max<std::int64_t>(1, n / (pool.size() * 32));
  pool.loop(n, grain, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t item = first; item < last; ++item)
      f(g.runs[static_cast<std::size_t>(item / n_group)], item % n_group);
  });
}

// The rows of all tiles in the form that the weights' product takes, in a buffer of the pool.
std::vector<TileInput> make_tiles(const PackedMatrix& w,
                                  const Grouping& g,
                                  const RowSource& from,
                                  std::size_t buffer,
                                  ThreadPool& pool) {
  const auto n = static_cast<std::int64_t>(g.tiles.size());
  const std::int64_t tile_size = tile_bytes(w, kTile);
  u8* const bytes = pool.buffer<u8>(buffer, n * tile_size);
  std::vector<TileInput> made(g.tiles.size());
  pool.loop(n, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i) {
      const Tile& tile = g.tiles[static_cast<std::size_t>(i)];
      make_tile(w, from, tile.first, tile.n_row, bytes + i * tile_size);
      made[static_cast<std::size_t>(i)] = {bytes + i * tile_size, tile.n_row};
    }
  });
  return made;
}

// Whether both weights' products take the same tiles.
bool share_tiles(const PackedMatrix& a, const PackedMatrix& b) {
  return a.info().is_float == b.info().is_float && tile_bytes(a, 1) == tile_bytes(b, 1) &&
         tile_product(a.info().type).sums == tile_product(b.info().type).sums;
}

// 16 outputs of one expert for all pairs of a run.
void multiply(TileKernel kernel,
              const PackedMatrix& w,
              const Run& run,
              std::int64_t group,
              const std::vector<TileInput>& tiles,
              float* out) {
  const TileInput* in = tiles.data() + run.first_tile;
  const int n = static_cast<int>(n_tile(run.n_pair));
  kernel(w.group(run.expert, group), w.n_unit(), in, n, out, kRows);
}

}  // namespace

void experts(const ExpertsParams& p, ThreadPool& pool) {
  const PackedMatrix &gate = *p.gate, &up = *p.up, &down = *p.down;
  const std::int64_t n_ff = gate.n_out(), n_embd = down.n_out();
  const Grouping g = group_by_expert(p);
  const std::int64_t n_pair = p.n_tok * p.n_used;

  const RowSource rows{p.x, gate.n_in(), gate.n_in(), g.row_of_pair.data()};
  const std::vector<TileInput> gate_in = make_tiles(gate, g, rows, 0, pool);
  const std::vector<TileInput> up_in =
      share_tiles(gate, up) ? gate_in : make_tiles(up, g, rows, 4, pool);
  const TileKernel gate_kernel = tile_product(gate.info().type).kernel;
  const TileKernel up_kernel = tile_product(up.info().type).kernel;
  float* const hidden = pool.buffer<float>(1, n_pair * n_ff);
  for_each_band(g, gate.n_group(), pool, [&](const Run& run, std::int64_t group) {
    alignas(64) float gates[kBand * kTile * kRows], ups[kBand * kTile * kRows];
    const int n = rows_of_group(gate, group);
    const std::int64_t at = run.expert * n_ff + group * kRows;
    const float* bias_gate = p.bias_gate == nullptr ? nullptr : p.bias_gate + at;
    const float* bias_up = p.bias_up == nullptr ? nullptr : p.bias_up + at;
    multiply(gate_kernel, gate, run, group, gate_in, gates);
    multiply(up_kernel, up, run, group, up_in, ups);
    for (std::int64_t t = 0; t < run.n_pair; ++t) {
      const vf a = with_bias(load(gates + t * kRows), bias_gate, n);
      const vf b = with_bias(load(ups + t * kRows), bias_up, n);
      float* to = hidden + (run.first_pair + t) * n_ff + group * kRows;
      put(to, activate(a, b, p.limit, p.alpha), n);
    }
  });

  const std::vector<TileInput> down_in =
      make_tiles(down, g, {hidden, n_ff, n_ff, nullptr}, 2, pool);
  const TileKernel down_kernel = tile_product(down.info().type).kernel;
  float* const output = pool.buffer<float>(3, n_pair * n_embd);
  for_each_band(g, down.n_group(), pool, [&](const Run& run, std::int64_t group) {
    alignas(64) float out[kBand * kTile * kRows];
    const int n = rows_of_group(down, group);
    const float* bias =
        p.bias_down == nullptr ? nullptr : p.bias_down + run.expert * n_embd + group * kRows;
    multiply(down_kernel, down, run, group, down_in, out);
    for (std::int64_t t = 0; t < run.n_pair; ++t) {
      float* to = output + (run.first_pair + t) * n_embd + group * kRows;
      put(to, with_bias(load(out + t * kRows), bias, n), n);
    }
  });

  pool.loop(p.n_tok, 16, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t row = first; row < last; ++row) {
      float* y = p.y + row * n_embd;
      std::fill_n(y, n_embd, 0.0f);
      for (std::int64_t use = row * p.n_used; use < (row + 1) * p.n_used; ++use) {
        const float weight = p.weights[use];
        const std::int64_t pair = g.pair_of_use[static_cast<std::size_t>(use)];
        const float* from = output + pair * n_embd;
        for (std::int64_t k = 0; k < n_embd; ++k) y[k] = y[k] + weight * from[k];
      }
    }
  });
}

}  // namespace junto::JUNTO_ISA

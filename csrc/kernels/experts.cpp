// SPDX-License-Identifier: Apache-2.0
//
// Grouped experts, in passes over all pairs of a row and one of its experts (see grouping.h):
//
//   tiles    each row rounded once, then copied to the tiles of its experts
//   hidden   for every expert and 32 of its n_ff outputs: gate and up, the activation, and what
//            comes out in the form that down takes
//   output   for every expert and 16 of n_embd outputs: down
//   combine  for every row: its experts' outputs, by ascending expert
//
// A pair's numbers depend on its row alone, and the last sum has one order, so the result does not
// depend on what else is in the batch.

#include "kernels/experts.h"

#include <algorithm>
#include <vector>

#include "kernels/grouping.h"
#include "kernels/matmul.h"
#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

using u8 = std::uint8_t;

constexpr int kRunRows = kBand * kTile;  // most pairs of a run

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

const float* bias_of(const float* bias, const PackedMatrix& w, std::int64_t expert) {
  return bias == nullptr ? nullptr : bias + expert * w.n_out();
}

// One pass over (run, part of the outputs).
template <class F>
void for_each_band(const Grouping& g, std::int64_t n_part, ThreadPool& pool, const F& f) {
  const std::int64_t n = static_cast<std::int64_t>(g.runs.size()) * n_part;
  const std::int64_t grain = std::max<std::int64_t>(1, n / (pool.size() * 64));
  pool.loop(n, grain, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t item = first; item < last; ++item)
      f(g.runs[static_cast<std::size_t>(item / n_part)], item % n_part);
  });
}

// Tiles for the pairs of all runs, for a product with w: room in a buffer of the pool.
struct Tiles {
  Tiles(const PackedMatrix& w, const Grouping& g, std::size_t buffer, ThreadPool& pool)
      : size(tile_bytes(w, kTile)),
        bytes(pool.buffer<u8>(buffer, static_cast<std::int64_t>(g.tiles.size()) * size)) {
    for (const PairTile& tile : g.tiles)
      inputs.push_back({bytes + static_cast<std::int64_t>(inputs.size()) * size, tile.n_row});
  }
  u8* at(std::int64_t tile) const { return bytes + tile * size; }

  std::int64_t size;
  u8* bytes;
  std::vector<TileInput> inputs;
};

// The rows of x in the tiles of their pairs. Buffer 1 holds each row by itself in between.
Tiles tiles_of_rows(const ExpertsParams& p,
                    const PackedMatrix& w,
                    const Grouping& g,
                    std::size_t buffer,
                    ThreadPool& pool) {
  const Tiles tiles(w, g, buffer, pool);
  const RowSource from{p.x, w.n_in(), w.n_in(), nullptr};
  const std::int64_t row_bytes = tile_bytes(w, 1);
  u8* const rows = pool.buffer<u8>(1, p.n_tok * row_bytes);
  pool.loop(p.n_tok, 4, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t t = first; t < last; ++t) make_tile(w, from, t, 1, rows + t * row_bytes);
  });
  const auto n_tile = static_cast<std::int64_t>(g.tiles.size());
  pool.loop(n_tile, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i) {
      const PairTile& tile = g.tiles[static_cast<std::size_t>(i)];
      gather_tile(w, rows, g.row_of_pair.data() + tile.first, tile.n_row, tiles.at(i));
    }
  });
  return tiles;
}

// Whether both weights' products take the same tiles.
bool share_tiles(const PackedMatrix& a, const PackedMatrix& b) {
  return a.info().is_float == b.info().is_float && tile_bytes(a, 1) == tile_bytes(b, 1) &&
         tile_product(a.info().type).sums == tile_product(b.info().type).sums;
}

// A matrix of every expert, its tiles and its bias.
struct Product {
  const PackedMatrix& w;
  const Tiles& in;
  const float* bias;
  TileKernel kernel = tile_product(w.info().type).kernel;

  // 16 outputs of one expert for all pairs of a run, without the bias.
  void multiply(const PairRun& run, std::int64_t group, float* out, std::int64_t stride) const {
    const TileInput* first = in.inputs.data() + run.first_tile;
    const int n = static_cast<int>(n_tile(run.n_pair));
    kernel(w.group(run.expert, group), w.n_unit(), first, n, out, stride);
  }
};

// 32 hidden values of all pairs of a run, into the tiles of down.
void hidden_part(const ExpertsParams& p,
                 const Product& gate,
                 const Product& up,
                 const PairRun& run,
                 std::int64_t part,
                 const Tiles& hidden) {
  constexpr int kGroups = kBlock / kRows;
  alignas(64) float gates[kRunRows * kBlock], ups[kRunRows * kBlock];
  const std::int64_t first_group = part * kGroups;
  const std::int64_t n = std::min<std::int64_t>(kGroups, gate.w.n_group() - first_group);
  const float* bias_gate = bias_of(gate.bias, gate.w, run.expert);
  const float* bias_up = bias_of(up.bias, up.w, run.expert);
  for (std::int64_t h = 0; h < n; ++h) {
    const std::int64_t group = first_group + h;
    const int n_out = rows_of_group(gate.w, group);
    gate.multiply(run, group, gates + h * kRows, kBlock);
    up.multiply(run, group, ups + h * kRows, kBlock);
    const auto at = [&](const float* bias) {
      return bias == nullptr ? bias : bias + group * kRows;
    };
    for (std::int64_t t = 0; t < run.n_pair; ++t) {
      const std::int64_t place = t * kBlock + h * kRows;
      const vf a = with_bias(load(gates + place), at(bias_gate), n_out);
      const vf b = with_bias(load(ups + place), at(bias_up), n_out);
      store(gates + place, activate(a, b, p.limit, p.alpha));
    }
  }
  const RowSource from{gates, kBlock, gate.w.n_out() - part * kBlock, nullptr};
  for (std::int64_t i = 0; i < n_tile(run.n_pair); ++i) {
    const int n_row = tile_rows(run.n_pair, i);
    make_tile_part(*p.down, from, i * kTile, n_row, part, hidden.at(run.first_tile + i));
  }
}

// 16 outputs of down for all pairs of a run.
void output_part(const Product& down, const PairRun& run, std::int64_t group, float* output) {
  const std::int64_t n_embd = down.w.n_out();
  const int n = rows_of_group(down.w, group);
  float* const first = output + run.first_pair * n_embd + group * kRows;
  if (n == kRows && down.bias == nullptr) {
    down.multiply(run, group, first, n_embd);
    return;
  }
  alignas(64) float out[kRunRows * kRows];
  const float* bias = bias_of(down.bias, down.w, run.expert);
  if (bias != nullptr) bias += group * kRows;
  down.multiply(run, group, out, kRows);
  for (std::int64_t t = 0; t < run.n_pair; ++t)
    put(first + t * n_embd, with_bias(load(out + t * kRows), bias, n), n);
}

// One row's sum over its experts. All their outputs are read side by side, 64 values at a time.
void combine(const ExpertsParams& p, const Grouping& g, const float* output, std::int64_t row) {
  constexpr std::int64_t kStep = 64;
  const std::int64_t n_embd = p.down->n_out();
  float* const y = p.y + row * n_embd;
  std::fill_n(y, n_embd, 0.0f);
  for (std::int64_t k = 0; k < n_embd; k += kStep) {
    const std::int64_t end = std::min(k + kStep, n_embd);
    for (std::int64_t use = row * p.n_used; use < (row + 1) * p.n_used; ++use) {
      const float weight = p.weights[use];
      const float* from = output + g.pair_of_use[static_cast<std::size_t>(use)] * n_embd;
      for (std::int64_t i = k; i < end; ++i) y[i] = y[i] + weight * from[i];
    }
  }
}

}  // namespace

void experts(const ExpertsParams& p, ThreadPool& pool) {
  const std::int64_t n_embd = p.down->n_out();
  const Grouping g = group_by_expert(p.expert_ids, p.n_tok, p.n_used, p.gate->n_expert());

  const Tiles gate_in = tiles_of_rows(p, *p.gate, g, 0, pool);
  const Tiles up_in = share_tiles(*p.gate, *p.up) ? gate_in : tiles_of_rows(p, *p.up, g, 4, pool);
  const Tiles hidden(*p.down, g, 2, pool);
  const Product gate{*p.gate, gate_in, p.bias_gate}, up{*p.up, up_in, p.bias_up};
  const Product down{*p.down, hidden, p.bias_down};

  const std::int64_t n_part = (p.gate->n_out() + kBlock - 1) / kBlock;
  for_each_band(g, n_part, pool, [&](const PairRun& run, std::int64_t part) {
    hidden_part(p, gate, up, run, part, hidden);
  });
  float* const output = pool.buffer<float>(3, p.n_tok * p.n_used * n_embd);
  for_each_band(g, p.down->n_group(), pool, [&](const PairRun& run, std::int64_t group) {
    output_part(down, run, group, output);
  });
  pool.loop(p.n_tok, 4, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t row = first; row < last; ++row) combine(p, g, output, row);
  });
}

}  // namespace junto::JUNTO_ISA

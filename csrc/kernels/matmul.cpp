// SPDX-License-Identifier: Apache-2.0
//
// Matrix products on packed weights, 16 outputs by up to 16 rows at a time.
//
// tile_product.h has the products of quantised weights. Float weights: two chains, of even and of
// odd k, added at the end. Neither order depends on how many rows share the weights, so a row alone
// and a row among many give the same bits.

#include "kernels/matmul.h"

#include <algorithm>
#include <cstring>

#include "kernels/tile_product.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr std::int64_t kBandBytes = 384 << 10;  // of rows that stay in the second-level cache

struct F32 {
  static constexpr int kBytes = 64;
  static vf load16(const u8* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16 {
  static constexpr int kBytes = 32;
  static vf load16(const u8* p) { return load_f16(reinterpret_cast<const std::uint16_t*>(p)); }
};
struct BF16 {
  static constexpr int kBytes = 32;
  static vf load16(const u8* p) { return load_bf16(reinterpret_cast<const std::uint16_t*>(p)); }
};

template <class Stored, int T>
void float_rows(
    const u8* group, std::int64_t n_in, const RowRange& rows, float* out, std::int64_t stride) {
  const float* x = reinterpret_cast<const float*>(rows.tile) + rows.first * n_in;
  vf even[T], odd[T];
  for (int t = 0; t < T; ++t) even[t] = odd[t] = set1(0.0f);
  prefetch_rows<T>(out, stride);
  std::int64_t k = 0;
  for (; k + 2 <= n_in; k += 2) {
    prefetch_far(group + kAhead);
    const vf w0 = Stored::load16(group), w1 = Stored::load16(group + Stored::kBytes);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      even[t] = fma(w0, set1(x[t * n_in + k]), even[t]);
      odd[t] = fma(w1, set1(x[t * n_in + k + 1]), odd[t]);
    }
    group += 2 * Stored::kBytes;
  }
  if (k < n_in) {
    const vf w = Stored::load16(group);
    for (int t = 0; t < T; ++t) even[t] = fma(w, set1(x[t * n_in + k]), even[t]);
  }
  for (int t = 0; t < T; ++t) store(out + t * stride, add(even[t], odd[t]));
}

template <class Stored>
void floating(const u8* group,
              std::int64_t n_in,
              const TileInput* in,
              int n_tile,
              float* out,
              std::int64_t stride) {
  for (int j = 0; j < n_tile; ++j)
    in_steps<(kRegisterRows > 8 ? 8 : kRegisterRows)>(in[j], [&](auto n, const RowRange& rows) {
      float* to = out + (j * kTile + rows.first) * stride;
      float_rows<Stored, decltype(n)::value>(group, n_in, rows, to, stride);
    });
}

// Rows one after the other.
void copy_tile(const RowSource& from, std::int64_t first, int n_row, u8* to) {
  auto* x = reinterpret_cast<float*>(to);
  for (int t = 0; t < n_row; ++t) {
    const std::int64_t row = from.row == nullptr ? first + t : from.row[first + t];
    std::copy_n(from.x + row * from.stride, from.n_in, x + t * from.n_in);
  }
}

std::int64_t n_block(const PackedMatrix& weight) {
  return weight.n_unit() * weight.info().unit / kBlock;
}

// All tiles of x, `full` bytes apart. Floats without gaps between rows are their own tiles.
const u8* make_tiles(const LinearParams& p,
                     std::int64_t tiles,
                     std::int64_t full,
                     ThreadPool& pool) {
  const PackedMatrix& w = *p.weight;
  if (w.info().is_float && p.x_stride == w.n_in()) return reinterpret_cast<const u8*>(p.x);
  const RowSource from{p.x, p.x_stride, w.n_in(), nullptr};
  u8* const input = pool.buffer<u8>(0, tiles * full);
  const auto make = [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t i = first; i < last; ++i)
      make_tile(w, from, i * kTile, tile_rows(p.n_row, i), input + i * full);
  };
  if (tiles == 1) {
    make(0, 1, 0);
  } else {
    pool.loop(tiles, 1, make);
  }
  return input;
}

}  // namespace

TileProduct tile_product(Type type) {
  switch (type) {
    case Type::kF32:
      return {floating<F32>, {}};
    case Type::kF16:
      return {floating<F16>, {}};
    case Type::kBF16:
      return {floating<BF16>, {}};
    default:
      break;
  }
  for (const auto family : {legacy_product, k_product, iq_product})
    if (const TileProduct product = family(type); product.kernel != nullptr) return product;
  return {};
}

std::int64_t tile_bytes(const PackedMatrix& weight, int n_row) {
  if (weight.info().is_float)
    return static_cast<std::int64_t>(sizeof(float)) * weight.n_in() * n_row;
  return n_block(weight) * kRowBlock * n_row;
}

void make_tile(const PackedMatrix& weight,
               const RowSource& from,
               std::int64_t first,
               int n_row,
               std::uint8_t* to) {
  if (weight.info().is_float) {
    copy_tile(from, first, n_row, to);
  } else {
    quantise_tile(from, tile_product(weight.info().type).sums, first, n_row, n_block(weight), to);
  }
}

void make_tile_part(const PackedMatrix& weight,
                    const RowSource& from,
                    std::int64_t first,
                    int n_row,
                    std::int64_t part,
                    std::uint8_t* to) {
  const bool is_last = (part + 1) * kBlock >= weight.n_in();
  if (weight.info().is_float) {
    auto* x = reinterpret_cast<float*>(to) + part * kBlock;
    const std::int64_t n = is_last ? weight.n_in() - part * kBlock : kBlock;
    for (int t = 0; t < n_row; ++t)
      std::copy_n(from.x + (first + t) * from.stride, n, x + t * weight.n_in());
  } else {
    const CodeSums& sums = tile_product(weight.info().type).sums;
    const std::int64_t n = is_last ? n_block(weight) - part : 1;
    quantise_tile(from, sums, first, n_row, n, to + part * n_row * kRowBlock);
  }
}

void gather_tile(const PackedMatrix& weight,
                 const std::uint8_t* rows,
                 const std::int64_t* row,
                 int n_row,
                 std::uint8_t* to) {
  const std::int64_t row_bytes = tile_bytes(weight, 1);
  if (weight.info().is_float) {
    for (int t = 0; t < n_row; ++t)
      std::copy_n(rows + row[t] * row_bytes, row_bytes, to + t * row_bytes);
  } else {
    gather_rows(rows, row, n_row, n_block(weight), to);
  }
}

void linear(const LinearParams& p, ThreadPool& pool) {
  const PackedMatrix& w = *p.weight;
  const TileKernel kernel = tile_product(w.info().type).kernel;
  const std::int64_t tiles = n_tile(p.n_row), full = tile_bytes(w, kTile);
  const u8* const input = make_tiles(p, tiles, full, pool);
  // Rows go in bands that stay in the second-level cache while the weights pass by.
  const std::int64_t groups = w.n_group();
  const std::int64_t band = std::clamp<std::int64_t>(kBandBytes / full, 1, kBand);
  const std::int64_t bands = (tiles + band - 1) / band;
  const auto multiply = [&](std::int64_t first, std::int64_t last, int) {
    alignas(64) float part[kBand * kTile * kRows];
    for (std::int64_t item = first; item < last; ++item) {
      const std::int64_t tile = item / groups * band, g = item % groups;
      const int n_out = static_cast<int>(std::min<std::int64_t>(kRows, w.n_out() - g * kRows));
      const int n = static_cast<int>(std::min<std::int64_t>(band, tiles - tile));
      TileInput in[kBand];
      for (int i = 0; i < n; ++i) in[i] = {input + (tile + i) * full, tile_rows(p.n_row, tile + i)};
      float* const y = p.y + tile * kTile * w.n_out() + g * kRows;
      if (n_out == kRows && p.bias == nullptr) {
        kernel(w.group(0, g), w.n_unit(), in, n, y, w.n_out());
        continue;
      }
      kernel(w.group(0, g), w.n_unit(), in, n, part, kRows);
      const std::int64_t n_row = std::min<std::int64_t>(n * kTile, p.n_row - tile * kTile);
      for (std::int64_t t = 0; t < n_row; ++t)
        for (int r = 0; r < n_out; ++r)
          y[t * w.n_out() + r] =
              p.bias == nullptr ? part[t * kRows + r] : part[t * kRows + r] + p.bias[g * kRows + r];
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, groups * bands / (pool.size() * 64));
  pool.loop(groups * bands, grain, multiply);
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// Matrix products on packed weights, 16 outputs by up to 16 rows at a time.
//
// Quantised weights:  y[r] = sum over groups of  ws * as * (sum of codes * a - offset * sum of a)
//                                              - minimum * (as * sum of a)
// with the sums over a group in int32 and the sum over groups in float32, ascending in k. Float
// weights: two chains, of even and of odd k, added at the end. Neither order depends on how many
// rows share the weights, so a row alone and a row among many give the same bits.

#include "kernels/matmul.h"

#include <algorithm>
#include <cstring>

#include "kernels/codecs.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr std::int64_t kAhead = 3072;  // bytes that prefetch runs ahead of the weights

template <class Codec>
inline vi dot(vi acc, vb w, const std::int8_t* a) {
  if constexpr (Codec::kWide) {
    return dot4_wide(acc, w, a);
  } else {
    return dot4(acc, w, a);
  }
}

// Rows `first` to `first` + T of a tile of `n_row`.
struct RowRange {
  const u8* tile;
  int n_row, first;
};

// Adds 32 k-values to the sums of T rows. `block` is the block of a tile that holds them.
template <class Codec, int T>
inline void add_block(const vb (&codes)[8],
                      const vf (&scale)[Codec::kGroups],
                      vf minimum,
                      const u8* block,
                      const RowRange& rows,
                      vf (&acc)[T]) {
  constexpr int kPerGroup = 8 / Codec::kGroups;
  const int n_row = rows.n_row;
  const auto* a = reinterpret_cast<const std::int8_t*>(block) + rows.first * kBlock;
  const auto* row_scale = reinterpret_cast<const float*>(block + n_row * kBlock) + rows.first;
  const float* row_sum = row_scale + n_row;
  const auto* code_sums = reinterpret_cast<const std::int32_t*>(row_sum + n_row);
#pragma GCC unroll 16
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 2
    for (int g = 0; g < Codec::kGroups; ++g) {
      std::int32_t sum = code_sums[g * n_row + t];
      if constexpr (Codec::kGroups == 1) sum += code_sums[n_row + t];
      vi d = set1_i32(-Codec::kOffset * sum);
#pragma GCC unroll 8
      for (int j = 0; j < kPerGroup; ++j) {
        const int part = g * kPerGroup + j;
        d = dot<Codec>(d, codes[part], a + t * kBlock + 4 * part);
      }
      acc[t] = fma(to_float(d), mul(scale[g], set1(row_scale[t])), acc[t]);
    }
    if constexpr (Codec::kMinimum) acc[t] = fnma(minimum, set1(row_sum[t]), acc[t]);
  }
}

template <class Codec, int T>
void quantised_rows(
    const u8* group, std::int64_t n_unit, const RowRange& rows, float* out, std::int64_t stride) {
  vf acc[T];
  for (vf& sum : acc) sum = set1(0.0f);
  const u8* block = rows.tile;
  for (std::int64_t unit = 0; unit < n_unit; ++unit) {
    for (int i = 0; i < Codec::kTiles; ++i) {
      constexpr std::int64_t kPart = Codec::kUnitBytes / Codec::kTiles;
      for (std::int64_t line = 0; line < kPart; line += 64)
        prefetch(group + kPart * i + line + kAhead);
      vb codes[8];
      vf scale[Codec::kGroups];
      vf minimum = set1(0.0f);
      Codec::load(group, i, codes, scale, minimum);
      add_block<Codec, T>(codes, scale, minimum, block, rows, acc);
      block += rows.n_row * kRowBlock;
    }
    group += Codec::kUnitBytes;
  }
  for (int t = 0; t < T; ++t) store(out + t * stride, acc[t]);
}

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
  const float* x = reinterpret_cast<const float*>(rows.tile) + rows.first;
  const int n_row = rows.n_row;
  vf even[T], odd[T];
  for (int t = 0; t < T; ++t) even[t] = odd[t] = set1(0.0f);
  std::int64_t k = 0;
  for (; k + 2 <= n_in; k += 2) {
    prefetch(group + kAhead);
    const vf w0 = Stored::load16(group), w1 = Stored::load16(group + Stored::kBytes);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      even[t] = fma(w0, set1(x[t]), even[t]);
      odd[t] = fma(w1, set1(x[n_row + t]), odd[t]);
    }
    group += 2 * Stored::kBytes;
    x += 2 * n_row;
  }
  if (k < n_in) {
    const vf w = Stored::load16(group);
    for (int t = 0; t < T; ++t) even[t] = fma(w, set1(x[t]), even[t]);
  }
  for (int t = 0; t < T; ++t) store(out + t * stride, add(even[t], odd[t]));
}

// Calls f with a compile-time number of rows until all are done: as many at once as the registers
// hold, then half as many, and so on.
template <int T, class F>
inline void in_steps(const TileInput& in, const F& f, int first = 0) {
  for (; first + T <= in.n_row; first += T)
    f(std::integral_constant<int, T>(), RowRange{in.data, in.n_row, first});
  if constexpr (T > 1) in_steps<T / 2>(in, f, first);
}

template <class Codec>
void quantised(
    const u8* group, std::int64_t n_unit, const TileInput& in, float* out, std::int64_t stride) {
  in_steps<kRegisterRows>(in, [&](auto n, const RowRange& rows) {
    quantised_rows<Codec, decltype(n)::value>(
        group, n_unit, rows, out + rows.first * stride, stride);
  });
}

template <class Stored>
void floating(
    const u8* group, std::int64_t n_in, const TileInput& in, float* out, std::int64_t stride) {
  in_steps<(kRegisterRows > 8 ? 8 : kRegisterRows)>(in, [&](auto n, const RowRange& rows) {
    float_rows<Stored, decltype(n)::value>(group, n_in, rows, out + rows.first * stride, stride);
  });
}

// Values of a tile's rows at each k, k after k.
void copy_tile(const RowSource& from, std::int64_t first, int n_row, u8* to) {
  auto* x = reinterpret_cast<float*>(to);
  for (int t = 0; t < n_row; ++t) {
    const std::int64_t row = from.row == nullptr ? first + t : from.row[first + t];
    const float* values = from.x + row * from.stride;
    for (std::int64_t k = 0; k < from.n_in; ++k) x[k * n_row + t] = values[k];
  }
}

std::int64_t n_block(const PackedMatrix& weight) {
  return weight.n_unit() * weight.info().unit / kBlock;
}

}  // namespace

TileKernel tile_kernel(Type type) {
  switch (type) {
    case Type::kF32:
      return floating<F32>;
    case Type::kF16:
      return floating<F16>;
    case Type::kBF16:
      return floating<BF16>;
    case Type::kQ8_0:
      return quantised<Q8_0>;
    case Type::kQ4_0:
      return quantised<Q4_0>;
    case Type::kQ4_1:
      return quantised<Q4_1>;
    case Type::kMXFP4:
      return quantised<MXFP4>;
    case Type::kQ4_K:
      return quantised<Q4_K>;
    case Type::kQ6_K:
      return quantised<Q6_K>;
  }
  return nullptr;
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
    quantise_tile(from, first, n_row, n_block(weight), to);
  }
}

void linear(const LinearParams& p, ThreadPool& pool) {
  const PackedMatrix& w = *p.weight;
  const TileKernel kernel = tile_kernel(w.info().type);
  const RowSource from{p.x, p.x_stride, w.n_in(), nullptr};
  const std::int64_t tiles = n_tile(p.n_row), full = tile_bytes(w, kTile);
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
  // Rows go in bands whose activations stay in the second-level cache while the weights pass by.
  constexpr std::int64_t kBand = 8;
  const std::int64_t groups = w.n_group(), bands = (tiles + kBand - 1) / kBand;
  const auto multiply = [&](std::int64_t first, std::int64_t last, int) {
    alignas(64) float out[kTile * kRows];
    for (std::int64_t item = first; item < last; ++item) {
      const std::int64_t band = item / groups, g = item % groups;
      const int n_out = static_cast<int>(std::min<std::int64_t>(kRows, w.n_out() - g * kRows));
      for (std::int64_t i = band * kBand; i < std::min(tiles, (band + 1) * kBand); ++i) {
        const TileInput in{input + i * full, tile_rows(p.n_row, i)};
        kernel(w.group(0, g), w.n_unit(), in, out, kRows);
        for (int t = 0; t < in.n_row; ++t) {
          float* y = p.y + (i * kTile + t) * w.n_out() + g * kRows;
          for (int r = 0; r < n_out; ++r)
            y[r] =
                p.bias == nullptr ? out[t * kRows + r] : out[t * kRows + r] + p.bias[g * kRows + r];
        }
      }
    }
  };
  const std::int64_t grain = std::max<std::int64_t>(1, groups * bands / (pool.size() * 16));
  pool.loop(groups * bands, grain, multiply);
}

}  // namespace junto::JUNTO_ISA

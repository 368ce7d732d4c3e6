// SPDX-License-Identifier: Apache-2.0
//
// The product of one tile of quantised rows with 16 outputs, for any codec:
//
//   y[r] = sum over groups of  ws * as * (sum of codes * a - offset * sum of a)
//                              - minimum * (as * sum of a)
//
// with the sums over a group in int32 and the sum over groups in float32, ascending in k. The order
// does not depend on how many rows share the weights.
//
// Included once for each instruction set, by a source file for each family of types, so that they
// compile side by side.
#pragma once

#include <type_traits>

#include "kernels/codecs.h"
#include "kernels/matmul.h"

namespace junto::JUNTO_ISA {

// The kernel of a type of the family, or nullptr.
TileKernel legacy_kernel(Type type);
TileKernel k_kernel(Type type);
TileKernel iq_kernel(Type type);

// Bytes that prefetch runs ahead of the weights, into the second-level cache. Nearer, or into the
// first, products of one row lose up to a third of the read bandwidth (docs/performance.md).
constexpr std::int64_t kAhead = 8192;

// Adds the products of n vectors of codes and 4 n activations.
template <class Codec, int n>
inline vi dot(vi acc, const vb* w, const std::int8_t* a) {
  if constexpr (Codec::kSmall) {
#pragma GCC unroll 2
    for (int i = 0; i < n; i += 4) acc = dot16_small(acc, w + i, a + 4 * i);
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i)
      acc = Codec::kWide ? dot4_wide(acc, w[i], a + 4 * i) : dot4(acc, w[i], a + 4 * i);
  }
  return acc;
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
                      const vf (&minimum)[Codec::kGroups],
                      const u8* block,
                      const RowRange& rows,
                      vf (&acc)[T]) {
  constexpr int kPerGroup = 8 / Codec::kGroups;
  const int n_row = rows.n_row;
  const auto* a = reinterpret_cast<const std::int8_t*>(block) + rows.first * kBlock;
  const auto* row_scale = reinterpret_cast<const float*>(block + n_row * kBlock) + rows.first;
  const float* row_sum = row_scale + n_row;
  const auto* code_sums = reinterpret_cast<const std::int32_t*>(row_sum + n_row);
#pragma GCC unroll kUnrolledRows
  for (int t = 0; t < T; ++t) {
#pragma GCC unroll 2
    for (int g = 0; g < Codec::kGroups; ++g) {
      std::int32_t sum = code_sums[g * n_row + t];
      if constexpr (Codec::kGroups == 1) sum += code_sums[n_row + t];
      vi d = set1_i32(-Codec::kOffset * sum);
      const int part = g * kPerGroup;
      d = dot<Codec, kPerGroup>(d, codes + part, a + t * kBlock + 4 * part);
      acc[t] = fma(to_float(d), mul(scale[g], set1(row_scale[t])), acc[t]);
      if constexpr (Codec::kMinimum && Codec::kGroups == 2)
        acc[t] = fnma(minimum[g], set1(row_scale[t] * static_cast<float>(sum)), acc[t]);
    }
    if constexpr (Codec::kMinimum && Codec::kGroups == 1)
      acc[t] = fnma(minimum[0], set1(row_sum[t]), acc[t]);
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
        prefetch_far(group + kPart * i + line + kAhead);
      vb codes[8];
      vf scale[Codec::kGroups];
      vf minimum[Codec::kGroups];
      for (vf& m : minimum) m = set1(0.0f);
      Codec::load(group, i, codes, scale, minimum);
      add_block<Codec, T>(codes, scale, minimum, block, rows, acc);
      block += rows.n_row * kRowBlock;
    }
    group += Codec::kUnitBytes;
  }
  for (int t = 0; t < T; ++t) store(out + t * stride, acc[t]);
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

}  // namespace junto::JUNTO_ISA

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

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "kernels/codecs.h"
#include "kernels/matmul.h"

namespace junto::JUNTO_ISA {

// The product of a type of the family; its kernel is nullptr for all others.
TileProduct legacy_product(Type type);
TileProduct k_product(Type type);
TileProduct iq_product(Type type);

// Of the inside of a product: a call would send the sums through memory, and compilers make one
// where a file has many types.
#define JUNTO_INLINE [[gnu::always_inline]] inline

// Bytes that prefetch runs ahead of the weights, into the second-level cache. At half of it, or
// into the first, products of one row lose up to a third of the read bandwidth; a kibibyte more
// costs AVX-512 7 % (docs/performance.md).
constexpr std::int64_t kAhead = kRegisterRows >= kTile ? 6912 : 8192;

// Codes of 8 bits need so little work that AVX-512 waits for the second-level cache, too: from here
// on they are fetched into the first.
constexpr std::int64_t kNear = 2048;

// Fetches the places of T rows of a result: they lie so far apart that stores would wait.
template <int T>
JUNTO_INLINE void prefetch_rows(const float* out, std::int64_t stride) {
  for (int t = 0; t < T; ++t) prefetch_far(out + t * stride);
}

// Rows `first` to `first` + T of a tile of `n_row`.
struct RowRange {
  const u8* tile;
  int n_row, first;
};

// 32 k-values of 16 outputs, as a codec unpacks them.
template <class C>
struct Unpacked {
  using Codec = C;
  static constexpr bool kZipped = false;
  vb codes[8];
  vf scale[Codec::kGroups];
  vf minimum[Codec::kGroups];  // of types that have one
};

// The same for products of matrices: neighbours among the codes are zipped.
template <class C>
struct Zipped : Unpacked<C> {
  static constexpr bool kZipped = true;
};

template <class Codec>
JUNTO_INLINE void unpack(const u8* unit, int i, Unpacked<Codec>& to) {
  constexpr std::int64_t kPart = Codec::kUnitBytes / Codec::kTiles;
  for (std::int64_t line = 0; line < kPart; line += 64)
    prefetch_far(unit + kPart * i + line + kAhead);
  if constexpr (kRegisterRows >= kTile && kPart > 512)
    for (std::int64_t line = 0; line < kPart; line += 64) prefetch(unit + kPart * i + line + kNear);
  Codec::load(unit, i, to.codes, to.scale, to.minimum);
}
template <class Codec>
JUNTO_INLINE void unpack(const u8* unit, int i, Zipped<Codec>& to) {
  unpack(unit, i, static_cast<Unpacked<Codec>&>(to));
  for (int j = 0; j < 8; j += 2) zip_codes(to.codes[j], to.codes[j + 1]);
}

// Adds the products of n vectors of codes and 4 n activations of R rows side by side: with two, the
// sums of one do not wait for each other (docs/performance.md).
template <class Weights, int n, int R>
JUNTO_INLINE void dot(vi (&acc)[R], const vb* w, const std::int8_t* a) {
  using Codec = typename Weights::Codec;
  if constexpr (Weights::kZipped) {
    const std::int8_t* last = a + (R - 1) * kBlock;  // a row alone goes with itself
    auto sums = join_rows(acc[0], acc[R - 1]);
#pragma GCC unroll 2
    for (int i = 0; i < n; i += 4) sums = dot16(sums, w + i, a + 4 * i, last + 4 * i);
    acc[0] = first_row(sums);
    if constexpr (R == 2) acc[1] = second_row(sums);
  } else if constexpr (Codec::kSmall && R == 1) {
#pragma GCC unroll 2
    for (int i = 0; i < n; i += 4) acc[0] = dot16_small(acc[0], w + i, a + 4 * i);
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i)
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        const std::int8_t* four = a + r * kBlock + 4 * i;
        acc[r] = Codec::kWide ? dot4_wide(acc[r], w[i], four) : dot4(acc[r], w[i], four);
      }
  }
}

// Adds 32 k-values to the sums of the rows from kFirst to kEnd, R side by side. `block` is the
// block of a tile that holds them.
template <int R, int kFirst, int kEnd, class Weights, int T>
JUNTO_INLINE void add_rows(const Weights& w, const u8* block, const RowRange& rows, vf (&acc)[T]) {
  using Codec = typename Weights::Codec;
  static_assert(!Codec::kMinimum || Codec::kOffset == 0, "a tile has room for one of them");
  constexpr int kPerGroup = 8 / Codec::kGroups;
  const int n_row = rows.n_row;
  const auto* a = reinterpret_cast<const std::int8_t*>(block) + rows.first * kBlock;
  const auto* scale = reinterpret_cast<const float*>(block + n_row * kBlock) + rows.first;
  const float* sums = scale + n_row;
  const auto* starts = reinterpret_cast<const std::int32_t*>(sums);
#pragma GCC unroll kUnrolledRows
  for (int t = kFirst; t < kEnd; t += R) {
#pragma GCC unroll 2
    for (int g = 0; g < Codec::kGroups; ++g) {
      const int part = g * kPerGroup;
      vi d[R];
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r)
        d[r] = set1_i32(Codec::kOffset == 0 ? 0 : starts[g * n_row + t + r]);
      dot<Weights, kPerGroup, R>(d, w.codes + part, a + t * kBlock + 4 * part);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        vf& sum = acc[t + r];
        sum = fma(to_float(d[r]), mul(w.scale[g], set1(scale[t + r])), sum);
        if constexpr (Codec::kMinimum) sum = fnma(w.minimum[g], set1(sums[g * n_row + t + r]), sum);
      }
    }
  }
}

// The same for all rows, where there are registers for it in pairs.
template <class Weights, int T>
JUNTO_INLINE void add_block(const Weights& w, const u8* block, const RowRange& rows, vf (&acc)[T]) {
  constexpr int kPaired = kRegisterRows >= kTile || Weights::kZipped ? T / 2 * 2 : 0;
  add_rows<2, 0, kPaired>(w, block, rows, acc);
  add_rows<1, kPaired, T>(w, block, rows, acc);
}

// All of k for T rows, unpacked on the way.
template <class Codec, int T>
void rows_alone(
    const u8* group, std::int64_t n_unit, const RowRange& rows, float* out, std::int64_t stride) {
  vf acc[T];
  for (vf& sum : acc) sum = set1(0.0f);
  prefetch_rows<T>(out, stride);
  const u8* block = rows.tile;
  for (std::int64_t unit = 0; unit < n_unit; ++unit) {
    for (int i = 0; i < Codec::kTiles; ++i) {
      Unpacked<Codec> w;
      unpack(group, i, w);
      add_block(w, block, rows, acc);
      block += rows.n_row * kRowBlock;
    }
    group += Codec::kUnitBytes;
  }
  for (int t = 0; t < T; ++t) store(out + t * stride, acc[t]);
}

// A part of k that was unpacked before; `out` holds the sums in between.
template <class Codec>
struct Chunk {
  static constexpr int kBlocks = 16;
  std::conditional_t<kHasMatrix, Zipped<Codec>, Unpacked<Codec>> blocks[kBlocks];
  int n_block;
  std::int64_t first_block;
};

template <class Codec, int T>
void rows_of_chunk(const Chunk<Codec>& chunk,
                   const RowRange& rows,
                   float* out,
                   std::int64_t stride) {
  vf acc[T];
  const bool is_first = chunk.first_block == 0;
  for (int t = 0; t < T; ++t) acc[t] = is_first ? set1(0.0f) : load(out + t * stride);
  if (is_first) prefetch_rows<T>(out, stride);
  const u8* block = rows.tile + chunk.first_block * rows.n_row * kRowBlock;
  for (int i = 0; i < chunk.n_block; ++i) {
    add_block(chunk.blocks[i], block, rows, acc);
    block += rows.n_row * kRowBlock;
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

// Where the registers hold a whole tile, there is code for each number of rows: it unpacks on the
// way.
template <class Codec>
void by_row_count(const u8* group,
                  std::int64_t n_unit,
                  const TileInput* in,
                  int n_tile,
                  float* out,
                  std::int64_t stride) {
  static constexpr auto kRowsAlone = []<int... i>(std::integer_sequence<int, i...>) {
    return std::array{rows_alone<Codec, i + 1>...};
  }(std::make_integer_sequence<int, kTile>());
  for (int j = 0; j < n_tile; ++j) {
    const auto rows_of_tile = kRowsAlone[static_cast<std::size_t>(in[j].n_row) - 1];
    rows_of_tile(group, n_unit, {in[j].data, in[j].n_row, 0}, out + j * kTile * stride, stride);
  }
}

// Elsewhere a part of k is unpacked into the first-level cache and serves all rows, some at a time.
template <class Codec>
void by_chunk(const u8* group,
              std::int64_t n_unit,
              const TileInput* in,
              int n_tile,
              float* out,
              std::int64_t stride) {
  constexpr int kUnits = Chunk<Codec>::kBlocks / Codec::kTiles;
  Chunk<Codec> chunk;
  for (std::int64_t unit = 0; unit < n_unit; unit += kUnits) {
    const int n = static_cast<int>(std::min<std::int64_t>(kUnits, n_unit - unit));
    for (int u = 0; u < n; ++u, group += Codec::kUnitBytes)
      for (int i = 0; i < Codec::kTiles; ++i) unpack(group, i, chunk.blocks[u * Codec::kTiles + i]);
    chunk.n_block = n * Codec::kTiles;
    chunk.first_block = unit * Codec::kTiles;
    for (int j = 0; j < n_tile; ++j)
      in_steps<kRegisterRows>(in[j], [&](auto t, const RowRange& rows) {
        float* to = out + (j * kTile + rows.first) * stride;
        rows_of_chunk<Codec, decltype(t)::value>(chunk, rows, to, stride);
      });
  }
}

template <class Codec>
void quantised(const u8* group,
               std::int64_t n_unit,
               const TileInput* in,
               int n_tile,
               float* out,
               std::int64_t stride) {
  if constexpr (kRegisterRows >= kTile) {
    by_row_count<Codec>(group, n_unit, in, n_tile, out, stride);
  } else if (n_tile == 1 && in->n_row == 1) {
    rows_alone<Codec, 1>(group, n_unit, {in->data, 1, 0}, out, stride);
  } else {
    by_chunk<Codec>(group, n_unit, in, n_tile, out, stride);
  }
}

template <class Codec>
TileProduct product_of() {
  return {quantised<Codec>, {Codec::kGroups, Codec::kMinimum, Codec::kOffset}};
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// Sixteen rows at a time are packed as products want them, and the codec of the type says what the
// codes are worth. So there is one reading of every type, and none of it is written twice.

#include "kernels/decode.h"

#include <algorithm>
#include <cstring>

#include "kernels/codecs.h"
#include "kernels/codecs_iq.h"
#include "kernels/codecs_k.h"
#include "kernels/pack_group.h"

namespace junto::JUNTO_ISA {

namespace {

// Values of the 32 k-values in tile i of a unit, for the first n rows: y[row * stride + k].
template <class Codec>
void tile_values(const u8* unit, int i, int n, float* y, std::int64_t stride) {
  constexpr int kPerGroup = 8 / Codec::kGroups;
  constexpr int kOffset = Codec::kWide ? 128 : Codec::kOffset;  // as stored, whatever dot4 does
  vb codes[8];
  vf scales[Codec::kGroups], minima[Codec::kGroups];
  for (vf& minimum : minima) minimum = set1(0.0f);
  Codec::load(unit, i, codes, scales, minima);
  alignas(64) u8 code[8][64];
  alignas(64) float scale[Codec::kGroups][kRows], minimum[Codec::kGroups][kRows];
  std::memcpy(code, codes, sizeof code);
  for (int g = 0; g < Codec::kGroups; ++g) {
    store(scale[g], scales[g]);
    store(minimum[g], minima[g]);
  }
  for (int r = 0; r < n; ++r)
    for (int j = 0; j < 8; ++j)
      for (int b = 0; b < 4; ++b) {
        const int g = j / kPerGroup;
        const auto c = static_cast<float>(code[j][4 * r + b] - kOffset);
        y[r * stride + 4 * j + b] = scale[g][r] * c - minimum[g][r];
      }
}

template <class Codec>
void values(const u8* group, const DecodeParams& p, int n, float* y) {
  for (std::int64_t k = 0; k < p.n_in; k += Codec::kTiles * kBlock, group += Codec::kUnitBytes)
    for (int i = 0; i < Codec::kTiles; ++i)
      tile_values<Codec>(group, i, n, y + k + i * kBlock, p.n_in);
}

template <int kBytes, class Load>
void float_values(const u8* group, const DecodeParams& p, int n, float* y, const Load& load16) {
  alignas(64) float row[kRows];
  for (std::int64_t k = 0; k < p.n_in; ++k, group += kBytes) {
    store(row, load16(group));
    for (int r = 0; r < n; ++r) y[r * p.n_in + k] = row[r];
  }
}

void group_values(const u8* group, const DecodeParams& p, int n, float* y) {
  switch (p.info->type) {
    case Type::kF32:
      return float_values<64>(
          group, p, n, y, [](const u8* q) { return load(reinterpret_cast<const float*>(q)); });
    case Type::kF16:
      return float_values<32>(group, p, n, y, f16_at);
    case Type::kBF16:
      return float_values<32>(group, p, n, y, [](const u8* q) {
        return load_bf16(reinterpret_cast<const std::uint16_t*>(q));
      });
#define JUNTO_CODEC(name) \
  case Type::k##name:     \
    return values<name>(group, p, n, y);
      JUNTO_CODEC(Q8_0)
      JUNTO_CODEC(Q4_0)
      JUNTO_CODEC(Q4_1)
      JUNTO_CODEC(Q5_0)
      JUNTO_CODEC(Q5_1)
      JUNTO_CODEC(Q1_0)
      JUNTO_CODEC(Q2_0)
      JUNTO_CODEC(MXFP4)
      JUNTO_CODEC(NVFP4)
      JUNTO_CODEC(TQ1_0)
      JUNTO_CODEC(TQ2_0)
      JUNTO_CODEC(Q2_K)
      JUNTO_CODEC(Q3_K)
      JUNTO_CODEC(Q4_K)
      JUNTO_CODEC(Q5_K)
      JUNTO_CODEC(Q6_K)
      JUNTO_CODEC(IQ4_NL)
      JUNTO_CODEC(IQ4_XS)
      JUNTO_CODEC(IQ1_S)
      JUNTO_CODEC(IQ1_M)
      JUNTO_CODEC(IQ2_XXS)
      JUNTO_CODEC(IQ2_XS)
      JUNTO_CODEC(IQ2_S)
      JUNTO_CODEC(IQ3_XXS)
      JUNTO_CODEC(IQ3_S)
#undef JUNTO_CODEC
  }
}

}  // namespace

void decode_rows(const DecodeParams& p, ThreadPool& pool) {
  const std::int64_t groups = (p.n_row + kRows - 1) / kRows;
  const std::int64_t units = p.n_in / p.info->unit, bytes = units * p.info->unit_bytes;
  u8* const packed = pool.buffer<u8>(0, pool.size() * bytes);
  pool.loop(groups, 1, [&](std::int64_t first, std::int64_t last, int thread) {
    u8* const group = packed + thread * bytes;
    for (std::int64_t g = first; g < last; ++g) {
      const int n = static_cast<int>(std::min<std::int64_t>(kRows, p.n_row - g * kRows));
      const u8* rows = p.rows + g * kRows * p.row_stride;
      pack_group(*p.info, {rows, p.row_stride, n}, units, group);
      group_values(group, p, n, p.y + g * kRows * p.n_in);
    }
  });
}

}  // namespace junto::JUNTO_ISA

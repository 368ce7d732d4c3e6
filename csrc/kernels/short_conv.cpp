// SPDX-License-Identifier: Apache-2.0
//
// Causal depthwise convolution and SiLU:
//
//   y[t][c] = silu(sum over taps i of weight[c][i] * x[t - (n_tap - 1) + i][c])
//
// with the oldest tap first, the channels as lanes, and the rows before the batch taken from the
// history of the sequence. A thread owns (span, range of channels): first the outputs, then the
// history, which ends with the n_tap - 1 rows before the new anchor and the rows since then.

#include "kernels/short_conv.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

using std::int64_t;

constexpr int kRowsAtOnce = 4;

// Channels [first, first + n) of one span.
struct Range {
  int64_t first, n;
};

// Row `source` of a span, counted from its first; rows before that are in the history.
const float* source_row(const ShortConvParams& p, const DeltaSpan& span, int64_t source) {
  if (source >= 0) return p.x + (span.row + source) * p.x_stride;
  const int64_t n_kept = p.n_tap - 1 + kDeltaList;
  return p.conv + (span.slot * n_kept + p.n_tap - 1 + span.start + source) * p.n_channel;
}

// Weights of a range as [n_tap, n], so that channels are lanes.
void take_weights(const ShortConvParams& p, Range range, float* to) {
  for (int64_t tap = 0; tap < p.n_tap; ++tap) {
    const float* from = p.weight + range.first * p.channel_stride + tap * p.tap_stride;
    for (int64_t c = 0; c < range.n; ++c) to[tap * range.n + c] = from[c * p.channel_stride];
  }
}

vf silu(vf x) { return mul(x, sigmoid(x)); }

// R rows of outputs, side by side: they share the weights. `rows` has room for their sources.
template <int R>
void convolve_rows(const ShortConvParams& p,
                   const DeltaSpan& span,
                   Range range,
                   int64_t t,
                   const float* weights,
                   const float** rows) {
  for (int64_t i = 0; i < p.n_tap - 1 + R; ++i)
    rows[i] = source_row(p, span, t - (p.n_tap - 1) + i) + range.first;
  const auto convolve = [&](int64_t c, auto vector_at, auto put) {
    vf sums[R];
    for (vf& sum : sums) sum = set1(0.0f);
    for (int64_t tap = 0; tap < p.n_tap; ++tap) {
      const vf weight = vector_at(weights + tap * range.n + c);
      for (int r = 0; r < R; ++r) sums[r] = fma(vector_at(rows[tap + r] + c), weight, sums[r]);
    }
    float* y = p.y + (span.row + t) * p.y_stride + range.first + c;
    for (int r = 0; r < R; ++r) put(y + r * p.y_stride, silu(sums[r]));
  };
  int64_t c = 0;
  for (; c + 16 <= range.n; c += 16) convolve(c, load, store);
  if (c == range.n) return;
  const int n = static_cast<int>(range.n - c);
  convolve(
      c,
      [=](const float* from) { return load_part(from, n); },
      [=](float* to, vf x) { store_part(to, x, n); });
}

void keep_rows(const ShortConvParams& p, const DeltaSpan& span, Range range) {
  const int64_t n_kept = p.n_tap - 1 + kDeltaList;
  const int64_t end = span.start + span.n_tok;
  const int64_t folded = (end - 1) / kDeltaList * kDeltaList;  // how far the anchor moves
  float* history = p.conv + span.slot * n_kept * p.n_channel + range.first;
  // Rows that stay where they are need no copy; the others come from later ones, in order.
  const int64_t begin = folded == 0 ? p.n_tap - 1 + span.start : 0;
  for (int64_t r = begin; r < p.n_tap - 1 + end - folded; ++r) {
    const int64_t source = folded + r - (p.n_tap - 1) - span.start;
    std::memmove(history + r * p.n_channel,
                 source_row(p, span, source) + range.first,
                 static_cast<std::size_t>(range.n) * sizeof(float));
  }
}

}  // namespace

void short_conv(const ShortConvParams& p, ThreadPool& pool) {
  // Long rows walk memory best; short ranges give every thread some.
  const int64_t wanted = (p.n_channel / (4 * pool.size()) + 15) / 16 * 16;
  const int64_t width = std::max<int64_t>(wanted, 256);
  const int64_t n_range = (p.n_channel + width - 1) / width;
  const auto n_weight = static_cast<std::size_t>(width * p.n_tap);
  const auto n_source = static_cast<std::size_t>(p.n_tap - 1 + kRowsAtOnce),
             n_thread = static_cast<std::size_t>(pool.size());
  const auto weights = std::make_unique_for_overwrite<float[]>(n_weight * n_thread);
  const auto rows = std::make_unique_for_overwrite<const float*[]>(n_source * n_thread);
  pool.loop(p.n_span * n_range, 1, [&](int64_t unit, int64_t, int thread) {
    const DeltaSpan& span = p.spans[unit / n_range];
    const int64_t first = unit % n_range * width;
    const Range range{first, std::min(width, p.n_channel - first)};
    const auto me = static_cast<std::size_t>(thread);
    float* mine = weights.get() + n_weight * me;
    take_weights(p, range, mine);
    const float** const sources = rows.get() + n_source * me;
    int64_t t = 0;
    for (; t + kRowsAtOnce <= span.n_tok; t += kRowsAtOnce)
      convolve_rows<kRowsAtOnce>(p, span, range, t, mine, sources);
    for (; t < span.n_tok; ++t) convolve_rows<1>(p, span, range, t, mine, sources);
    keep_rows(p, span, range);
  });
}

}  // namespace junto::JUNTO_ISA

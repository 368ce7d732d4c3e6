// SPDX-License-Identifier: Apache-2.0
//
// Fits value = scale * q + offset, q = 0..kTop, to the values of each lane: the sum of
// w (x - scale q - offset)^2 is made small by trying ranges of x that the codes cover. For the
// codes of each try, scale and offset are the least-squares solution of
//
//   [ sum w q q   sum w q ] [scale ]   [ sum w q x ]
//   [ sum w q     sum w   ] [offset] = [ sum w x   ]
#pragma once

#include "kernels/quantize_lanes.h"

namespace junto::JUNTO_ISA {

struct Line {
  vf scale, offset, gain;  // gain: how much less the error is than that of the mean alone
};

// The tries. The codes cover the range of the values and `more` steps, of which the share `below`
// lies under the lowest value.
template <std::size_t kMore, std::size_t kBelow>
struct Covers {
  float more[kMore], below[kBelow];
};

inline constexpr Covers<13, 3> kWideCovers = {
    {-2.5f, -2.0f, -1.5f, -1.1f, -0.7f, -0.35f, 0.0f, 0.35f, 0.7f, 1.1f, 1.5f, 2.0f, 2.5f},
    {0.15f, 0.5f, 0.85f}};

// kMostZero: no offset above zero.
template <int N, bool kWeighted, bool kMostZero>
struct AffineFit {
  const Lanes<N, kWeighted>& block;
  const float top;  // the highest code
  vf low, range, total, mean;
  vf y[N];  // x - mean: sums of small numbers lose less
  vf yy;    // sum of w y y

  AffineFit(const Lanes<N, kWeighted>& block, float top) : block(block), top(top) {
    low = block.x[0];
    vf high = block.x[0], x_sum = set1(0.0f);
    for (int i = 0; i < N; ++i) {
      low = min(low, block.x[i]);
      high = max(high, block.x[i]);
      x_sum = add(x_sum, block.weighed(i, block.x[i]));
    }
    if constexpr (kMostZero) low = min(low, set1(0.0f));
    range = sub(high, low);
    total = block.total_weight();
    mean = div(x_sum, total);
    yy = set1(0.0f);
    for (int i = 0; i < N; ++i) {
      y[i] = sub(block.x[i], mean);
      yy = add(yy, block.weighed(i, square(y[i])));
    }
  }

  // The line that fits the codes y * inverse_scale + shift best; the sum of w y is zero. It gains
  // nothing if all codes are equal.
  Line fitted(vf inverse_scale, vf shift) const {
    vf q_sum = set1(0.0f), qq = set1(0.0f), yq = set1(0.0f);
    for (int i = 0; i < N; ++i) {
      const vf q = clamp(nearest(multiply_add(y[i], inverse_scale, shift)), 0.0f, top);
      const vf wq = block.weighed(i, q);
      q_sum = add(q_sum, wq);
      qq = multiply_add(q, wq, qq);
      yq = multiply_add(y[i], wq, yq);
    }
    const vf q_mean = div(q_sum, total), spread = sub(qq, mul(q_sum, q_mean));
    vf scale = div(yq, spread), offset = negative(mul(scale, q_mean)), gain = mul(scale, yq);
    const auto singular = less(spread, mul(qq, set1(1e-6f)));
    if constexpr (kMostZero) {
      const vf most = negative(mean);  // offset of y where that of x is zero
      const auto above = less(most, offset);
      const vf by_origin = div(sub(yq, mul(most, q_sum)), qq);
      scale = select(above, by_origin, scale);
      offset = select(above, most, offset);
      const vf by_scale = mul(scale, sub(add(yq, yq), mul(scale, qq)));
      const vf both = mul(mul(scale, offset), q_sum);
      const vf at_zero = sub(by_scale, add(add(both, both), mul(square(offset), total)));
      gain = select(above, at_zero, gain);
    }
    return {scale, offset, select(singular, set1(-kHuge), gain)};
  }

  // The best line of the tries and of one more round from there; its offset is that of x.
  template <std::size_t kMore, std::size_t kBelow>
  Line best(const Covers<kMore, kBelow>& covers) const {
    const vf from = sub(low, mean), inverse_range = inverse(range);
    Line best{mul(range, set1(1.0f / top)), from, set1(-kHuge)};
    for (const float more : covers.more) {
      const vf inverse_scale = mul(inverse_range, set1(top + more));
      const vf base = negative(mul(from, inverse_scale));
      for (const float below : covers.below)
        take(fitted(inverse_scale, sub(base, set1(more * below))), best);
    }
    if constexpr (kWeighted) {
      // Far values that count for little: what lies within a few deviations of the mean.
      const vf inverse_deviation = inverse(square_root(div(yy, total)));
      for (const float reach : kReaches)
        take(fitted(mul(inverse_deviation, set1(0.5f * top / reach)), set1(0.5f * top)), best);
      const vf inverse_scale = inverse(best.scale);
      take(fitted(inverse_scale, negative(mul(best.offset, inverse_scale))), best);
    }
    best.offset = add(best.offset, mean);
    return best;
  }

  // The line of x that leaves the least error: the plain one, the given one, or that with its
  // offset corrected by what it leaves on the mean. Sums above are blurred where far values meet
  // near ones; these are not. What is less than the rounding of a float16 is no reason to leave the
  // plain one.
  Line measured(const Line& line) const {
    Line best{mul(range, set1(1.0f / top)), low, set1(0.0f)};
    best.gain = sub(mul(yy, set1(1e-7f)), error_of(best));
    Line tried = line;
    tried.gain = negative(error_of(tried));
    take(tried, best);
    tried.offset = add(line.offset, mean_left(line));
    if constexpr (kMostZero) tried.offset = min(tried.offset, set1(0.0f));
    tried.gain = negative(error_of(tried));
    take(tried, best);
    return best;
  }

 private:
  vf left_at(int i, const Line& line, vf inverse_scale) const {
    const vf q = clamp(nearest(mul(sub(block.x[i], line.offset), inverse_scale)), 0.0f, top);
    return sub(sub(block.x[i], mul(line.scale, q)), line.offset);
  }
  vf error_of(const Line& line) const {
    const vf inverse_scale = inverse(line.scale);
    vf error = set1(0.0f);
    for (int i = 0; i < N; ++i)
      error = add(error, block.weighed(i, square(left_at(i, line, inverse_scale))));
    return error;
  }
  vf mean_left(const Line& line) const {
    const vf inverse_scale = inverse(line.scale);
    vf sum = set1(0.0f);
    for (int i = 0; i < N; ++i) sum = add(sum, block.weighed(i, left_at(i, line, inverse_scale)));
    return div(sum, total);
  }
  static void take(const Line& line, Line& best) {
    const vf gain = select(less(set1(0.0f), line.scale), line.gain, set1(-kHuge));
    const auto better = less(best.gain, gain);
    best = {select(better, line.scale, best.scale),
            select(better, line.offset, best.offset),
            select(better, gain, best.gain)};
  }
};

}  // namespace junto::JUNTO_ISA

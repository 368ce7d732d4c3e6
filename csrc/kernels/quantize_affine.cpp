// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 32 values with scale and offset: value = d * q + m (Q5_1, Q4_1).
//
// The best fitting line (quantize_affine.h), rounded to float16, is measured against the plain
// choice, m = lowest value and d = range / top, and against a step that all differences share.
//
//   Q5_1   0:2 d (f16), 2:4 m (f16), 4:8 fifth bits, 8:24 nibbles
//   Q4_1   0:2 d (f16), 2:4 m (f16), 4:20 nibbles

#include "kernels/quantize_affine.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr int kN = 32;
template <bool kWeighted>
using Block = Lanes<kN, kWeighted>;

// Without importance, where the rival takes the plain choice, few tries keep the pace.
constexpr Covers<2, 1> kFew4 = {{-0.6f, 0.0f}, {0.5f}};
constexpr Covers<3, 1> kFew5 = {{-0.8f, 0.0f, 0.8f}, {0.5f}};

struct Choice {
  vf d, m, error;
};

vf code(vf x, vf inverse_d, vf m, float top) {
  return clamp(nearest(mul(sub(x, m), inverse_d)), 0.0f, top);
}

template <bool kWeighted>
void try_line(const Block<kWeighted>& block, vf d, vf m, float top, Choice& best) {
  d = as_f16(d);
  m = as_f16(m);
  const vf inverse_d = inverse(d);
  vf error = set1(0.0f);
  for (int i = 0; i < kN; ++i) {
    const vf value = multiply_add(d, code(block.x[i], inverse_d, m, top), m);
    error = add(error, block.weighed(i, square(sub(block.x[i], value))));
  }
  const auto better = less(error, best.error);
  best = {select(better, d, best.d), select(better, m, best.m), select(better, error, best.error)};
}

template <bool kWeighted>
using Fit = AffineFit<kN, kWeighted, false>;

// Whether an error is next to nothing of the values, so that the rounding of d and m counts.
template <bool kWeighted>
bool is_small(const Fit<kWeighted>& fit, vf error) {
  return any(less(error, mul(fit.yy, set1(1e-4f)))) ||
         any(less(mul(fit.range, set1(8.0f)), abs(fit.low)));
}

// The best of the rounded line, the plain choice, and those that can be exact.
template <bool kWeighted>
Choice measured(const Fit<kWeighted>& fit, const Line& line) {
  const vf zero = set1(0.0f);
  Choice best{zero, zero, set1(kHuge)};
  try_line(fit.block, mul(fit.range, set1(1.0f / fit.top)), fit.low, fit.top, best);
  try_line(fit.block, line.scale, line.offset, fit.top, best);
  for (int round = 0; kWeighted && round < 2; ++round) {
    const vf inverse_d = inverse(best.d);
    const Line again = fit.fitted(inverse_d, mul(sub(fit.mean, best.m), inverse_d));
    try_line(fit.block, again.scale, add(again.offset, fit.mean), fit.top, best);
  }
  if (!is_small(fit, best.error)) return best;
  const vf step = common_step(fit.block.x, fit.low, fit.range);
  if (any(less(zero, step)))  // the lowest value may have any code
    for (float lowest = 0; lowest <= fit.top; ++lowest)
      try_line(fit.block, step, sub(fit.low, mul(step, set1(lowest))), fit.top, best);
  for (float q = 1; q <= fit.top; ++q) {  // one far value, or a constant, may have any code
    try_line(fit.block, mul(fit.range, set1(1.0f / q)), fit.low, fit.top, best);
    try_line(fit.block, mul(fit.low, set1(1.0f / q)), zero, fit.top, best);
  }
  return best;
}

// What sixteen blocks store.
struct Stored {
  u8 codes[16 * kN];
  alignas(32) u16 d[16], m[16];
};

template <bool kWeighted, std::size_t kFew>
void quantize_blocks(
    const float* x, const float* importance, const Covers<kFew, 1>& few, float top, Stored& to) {
  const Block<kWeighted> block(x, importance);
  const Fit<kWeighted> fit(block, top);
  Choice best;
  if constexpr (kWeighted) {
    best = measured(fit, fit.measured(fit.best(kWideCovers)));
  } else {
    const Line line = fit.best(few);
    best = is_small(fit, sub(fit.yy, line.gain))
               ? measured(fit, line)
               : Choice{as_f16(line.scale), as_f16(line.offset), {}};
  }
  const vf inverse_d = inverse(best.d);
  vf q[kN];
  for (int i = 0; i < kN; ++i) q[i] = code(block.x[i], inverse_d, best.m, top);
  store_codes(q, to.codes);
  store_f16(to.d, best.d);
  store_f16(to.m, best.m);
}

template <bool kWeighted>
void q5_1(const float* x, const float* importance, u8* out) {
  Stored stored;
  quantize_blocks<kWeighted>(x, importance, kFew5, 31, stored);
  for (int j = 0; j < 16; ++j, out += 24) {
    put_half(out, stored.d[j]);
    put_half(out + 2, stored.m[j]);
    pack_fifth_bits(stored.codes + kN * j, out + 4);
    pack_nibbles(stored.codes + kN * j, kN, out + 8);
  }
}

template <bool kWeighted>
void q4_1(const float* x, const float* importance, u8* out) {
  Stored stored;
  quantize_blocks<kWeighted>(x, importance, kFew4, 15, stored);
  for (int j = 0; j < 16; ++j, out += 20) {
    put_half(out, stored.d[j]);
    put_half(out + 2, stored.m[j]);
    pack_nibbles(stored.codes + kN * j, kN, out + 4);
  }
}

}  // namespace

std::vector<Quantizer> affine_quantizers() {
  return {{"Q5_1", kN, 24, 16, kLargestF16, JUNTO_WEIGHTED(q5_1)},
          {"Q4_1", kN, 20, 16, kLargestF16, JUNTO_WEIGHTED(q4_1)}};
}

}  // namespace junto::JUNTO_ISA

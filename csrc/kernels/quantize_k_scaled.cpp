// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 256 values in 16 sub-blocks with a scale (Q6_K, Q3_K): value = (d s) q.
//
// Each sub-block tries scales around the one that maps its largest value to the last code, and
// refits each to its codes. d follows from the largest scale. Then, in rounds: each sub-block tries
// the neighbours of its s; and d is fitted to all codes of the block by least squares. Only what
// measures better is kept.
//
//   Q6_K   0:128 nibbles, 128:192 bit pairs above them, 192:208 s (i8), 208:210 d (f16); q + 32
//   Q3_K   0:32 third bits, 32:96 bit pairs, 96:108 s + 32 (6 bits), 108:110 d (f16); q + 4

#include <cmath>

#include "kernels/quantize_lanes.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr int kN = 16, kSub = 16, kRounds = 2;

// Tries are the codes that the largest value of a sub-block would have; with importance, far ones
// are worth a try. d is tried as the largest scale over each of kLeasts.
struct Q6_K {
  static constexpr float kLow = -32, kHigh = 31, kLeast = -128, kMost = 127;
  static constexpr float kLeasts[] = {127, -126, -124, -121, -118};
  static constexpr float kTries[] = {
      -33.3f, -32.5f, -31.9f, -31.3f, -30.7f, -30, -29.3f, -28.7f, -28, -27.3f, 31.4f, 30.8f};
  static constexpr float kFarTries[] = {-40, -37, -35, -33, -32, -26.5f, -25.5f, 34, 32, 30, 29};
};
struct Q3_K {
  static constexpr float kLow = -4, kHigh = 3, kLeast = -32, kMost = 31;
  static constexpr float kLeasts[] = {31, -31, -30, -29, -27.5f};
  static constexpr float kTries[] = {
      -4.6f, -4.3f, -4, -3.7f, -3.4f, -3.2f, -3, -2.8f, -2.6f, -2.4f, 3.4f, 3.1f};
  static constexpr float kFarTries[] = {
      -6.5f, -5.6f, -5, -4.4f, -3.9f, -2.2f, -2, 5, 4.2f, 3.7f, 2.8f, 2.5f};
};

template <class T>
vf code(vf x, vf inverse_scale) {
  return clamp(nearest(mul(x, inverse_scale)), T::kLow, T::kHigh);
}

template <class T>
void put_codes(const vf (&x)[kN], vf scale, float offset, u8* to) {
  const vf inverse_scale = inverse(scale);
  vf q[kN];
  for (int i = 0; i < kN; ++i) q[i] = add(code<T>(x[i], inverse_scale), set1(offset));
  store_codes(q, to);
}

template <class T, bool kWeighted>
class KScaled {
 public:
  KScaled(const float* x, const float* importance) : block_(x, importance) {
    const vf scale = best_scale();
    float scales[16];
    store(scales, scale);
    float top = 0;
    for (const float s : scales) top = std::fabs(s) > std::fabs(top) ? s : top;
    d = as_f16(set1(top / T::kLeast));
    s = to_code(scale, d);
    error_ = error_of(s, d);
    for (const float least : T::kLeasts) {
      const vf other = as_f16(set1(top / least));
      accept_better(to_code(scale, other), other);
    }
    for (int round = 0; round < kRounds; ++round) improve();
  }

  vf d, s;  // d is the same in all lanes

  // Codes [16, kN], plus offset.
  void codes(float offset, u8* to) const { put_codes<T>(block_.x, mul(d, s), offset, to); }

 private:
  static vf to_code(vf scale, vf step) {
    return clamp(nearest(mul(scale, inverse(step))), T::kLeast, T::kMost);
  }

  vf error_of(vf codes, vf step) const {
    const vf scale = mul(step, codes), inverse_scale = inverse(scale);
    vf error = set1(0.0f);
    for (int i = 0; i < kN; ++i) {
      const vf off = sub(block_.x[i], mul(scale, code<T>(block_.x[i], inverse_scale)));
      error = add(error, block_.weighed(i, square(off)));
    }
    return error;
  }

  // Sums of w x q and of w q q.
  struct Fit {
    vf xq, qq;
  };
  Fit fit(vf inverse_scale) const {
    Fit sums{set1(0.0f), set1(0.0f)};
    for (int i = 0; i < kN; ++i) {
      const vf q = code<T>(block_.x[i], inverse_scale), wq = block_.weighed(i, q);
      sums.xq = multiply_add(block_.x[i], wq, sums.xq);
      sums.qq = multiply_add(q, wq, sums.qq);
    }
    return sums;
  }

  vf best_scale() const {
    const vf extreme = extreme_of(block_), inverse_extreme = inverse(extreme);
    Scale best{mul(extreme, set1(1.0f / T::kLow)), set1(0.0f)};
    for (const float end : T::kTries) try_inverse(mul(inverse_extreme, set1(end)), best);
    if constexpr (kWeighted) {
      for (const float end : T::kFarTries) try_inverse(mul(inverse_extreme, set1(end)), best);
      const vf inverse_deviation = inverse(deviation_of(block_));
      for (const float reach : kReaches)
        try_inverse(mul(inverse_deviation, set1(T::kLow / reach)), best);
      try_inverse(inverse(best.scale), best);
    }
    // Measured, since the sums are blurred where little error is left.
    const vf plain = mul(extreme, set1(1.0f / T::kLow)), one = set1(1.0f);
    const auto better = less(error_of(one, best.scale), error_of(one, plain));
    return select(better, best.scale, plain);
  }

  struct Scale {
    vf scale, gain;
  };
  void try_inverse(vf inverse_scale, Scale& best) const {
    const Fit sums = fit(inverse_scale);
    const vf fitted = div(sums.xq, sums.qq), gain = mul(sums.xq, fitted);
    const auto better = less(best.gain, gain);
    best = {select(better, fitted, best.scale), select(better, gain, best.gain)};
  }

  void improve() {
    const vf middle = s;
    for (const float step : {-1.0f, 1.0f}) {
      const vf other = clamp(add(middle, set1(step)), T::kLeast, T::kMost);
      const vf error = error_of(other, d);
      const auto better = less(error, error_);
      s = select(better, other, s);
      error_ = select(better, error, error_);
    }
    const Fit sums = fit(inverse(mul(d, s)));
    const double xq = sum_of(mul(s, sums.xq)), qq = sum_of(mul(square(s), sums.qq));
    if (!(qq > 0)) return;
    accept_better(s, as_f16(set1(static_cast<float>(xq / qq))));
  }

  // Takes over other codes and another step if they leave less error in the block.
  void accept_better(vf other, vf step) {
    const vf error = error_of(other, step);
    if (!(sum_of(error) < sum_of(error_))) return;
    s = other;
    d = step;
    error_ = error;
  }

  static double sum_of(vf x) {
    float lanes[16];
    store(lanes, x);
    double sum = 0;
    for (const float lane : lanes) sum += static_cast<double>(lane);
    return sum;
  }

  const Lanes<kN, kWeighted> block_;
  vf error_;
};

// What a block stores, sub-block by sub-block.
struct Stored {
  u8 codes[16 * kN];
  u8 s[16];
  alignas(32) u16 d[16];
};

template <class T, bool kWeighted>
void quantize_group(const float* x, const float* importance, float offset, Stored& to) {
  const KScaled<T, kWeighted> k(x, importance);
  k.codes(offset, to.codes);
  store_low_bytes(to.s, k.s);
  store_f16(to.d, k.d);
}

template <bool kWeighted>
void q6_k(const float* x, const float* importance, u8* out) {
  Stored stored;
  quantize_group<Q6_K, kWeighted>(x, importance, 32, stored);
  for (int half = 0; half < 2; ++half) {
    const u8* codes = stored.codes + 128 * half;
    pack_nibbles(codes, 128, out + 64 * half);
    for (int i = 0; i < 32; ++i) {
      int pairs = 0;
      for (int k = 0; k < 4; ++k) pairs |= (codes[32 * k + i] >> 4) << 2 * k;
      out[128 + 32 * half + i] = static_cast<u8>(pairs);
    }
  }
  std::memcpy(out + 192, stored.s, 16);
  put_half(out + 208, stored.d[0]);
}

// Sixteen 6-bit scales: low halves in bytes 0:8, two a byte, j with j + 8; high bits in 8:12.
void pack_q3_scales(const u8* s, u8* to) {
  u8 shifted[16];
  for (int j = 0; j < 16; ++j) shifted[j] = static_cast<u8>(s[j] + 32);
  pack_nibbles(shifted, 16, to);
  for (int j = 0; j < 4; ++j) {
    int pairs = 0;
    for (int k = 0; k < 4; ++k) pairs |= (shifted[4 * k + j] >> 4) << 2 * k;
    to[8 + j] = static_cast<u8>(pairs);
  }
}

template <bool kWeighted>
void q3_k(const float* x, const float* importance, u8* out) {
  Stored stored;
  quantize_group<Q3_K, kWeighted>(x, importance, 4, stored);
  for (int i = 0; i < 32; ++i) {
    int bits = 0;
    for (int k = 0; k < 8; ++k) bits |= (stored.codes[32 * k + i] >> 2) << k;
    out[i] = static_cast<u8>(bits);
  }
  for (int half = 0; half < 2; ++half) pack_pairs(stored.codes + 128 * half, out + 32 + 32 * half);
  pack_q3_scales(stored.s, out + 96);
  put_half(out + 108, stored.d[0]);
}

}  // namespace

std::vector<Quantizer> k_scaled_quantizers() {
  return {{"Q6_K", 256, 210, 1, kLargestF16, JUNTO_WEIGHTED(q6_k)},
          {"Q3_K", 256, 110, 1, kLargestF16, JUNTO_WEIGHTED(q3_k)}};
}

}  // namespace junto::JUNTO_ISA

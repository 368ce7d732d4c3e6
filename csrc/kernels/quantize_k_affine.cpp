// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 256 values in sub-blocks with scale and minimum (Q4_K, Q5_K, Q2_K):
//
//   value = (d s) q - (dmin m)      s, m: whole numbers of each sub-block
//
// Each sub-block gets its best line (quantize_affine.h). d is the best of several that the largest
// scale suggests, dmin follows from the largest minimum. Then, in rounds: each sub-block tries the
// neighbours of its s and m; and d and dmin are fitted to all codes of the block by least squares.
// Only what measures better is kept.
//
//   Q4_K   0:2 d, 2:4 dmin (f16), 4:16 s and m, 16:144 nibbles          8 sub-blocks of 32
//   Q5_K   0:2 d, 2:4 dmin, 4:16 s and m, 16:48 fifth bits, 48:176 nibbles
//   Q2_K   0:16 nibbles s and m, 16:80 bit pairs, 80:82 d, 82:84 dmin   16 sub-blocks of 16

#include <algorithm>

#include "kernels/quantize_affine.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr int kRounds = 2;

struct Q4_K {
  static constexpr int kN = 32, kSub = 8;        // values of a sub-block, sub-blocks of a block
  static constexpr float kTop = 15, kMost = 63;  // highest code, highest s and m
  static constexpr float kMosts[] = {62, 61, 60, 58, 56, 54};
};
struct Q5_K {
  static constexpr int kN = 32, kSub = 8;
  static constexpr float kTop = 31, kMost = 63;
  static constexpr float kMosts[] = {62, 61, 60, 58, 56, 54};
};
struct Q2_K {
  static constexpr int kN = 16, kSub = 16;
  static constexpr float kTop = 3, kMost = 15;
  static constexpr float kMosts[] = {16, 14.5f, 14, 13, 12, 11};
};

// What the sub-blocks of a group store, and the error that this leaves.
struct Coded {
  vf s, m, error;
};

// d and dmin of each lane's block.
struct Steps {
  vf d, dmin;
};

template <class T>
vf code(vf x, vf inverse_scale, vf minimum) {
  return clamp(nearest(mul(add(x, minimum), inverse_scale)), 0.0f, T::kTop);
}

template <class T>
void put_codes(const vf (&x)[T::kN], vf scale, vf minimum, u8* to) {
  const vf inverse_scale = inverse(scale);
  vf q[T::kN];
  for (int i = 0; i < T::kN; ++i) q[i] = code<T>(x[i], inverse_scale, minimum);
  store_codes(q, to);
}

template <class T, bool kWeighted>
class KAffine {
 public:
  KAffine(const float* x, const float* importance)
      : block_(x, importance), total_(block_.total_weight()) {
    const AffineFit<T::kN, kWeighted, true> fit(block_, T::kTop);
    const Line line = fit.measured(fit.best(kWideCovers));
    const vf minimum = max(negative(line.offset), set1(0.0f));
    steps = {per_block_step(line.scale), per_block_step(minimum)};
    coded = {to_code(line.scale, steps.d), to_code(minimum, steps.dmin), set1(0.0f)};
    coded.error = error_of(coded, steps);
    const vf largest = mul(steps.d, set1(T::kMost));
    for (const float most : T::kMosts) {
      const Steps other{as_f16(mul(largest, set1(1.0f / most))), steps.dmin};
      accept_better({to_code(line.scale, other.d), coded.m, set1(0.0f)}, other);
    }
    for (int round = 0; round < kRounds; ++round) improve();
  }

  Steps steps;
  Coded coded;

  // Codes [16, kN].
  void codes(u8* to) const {
    put_codes<T>(block_.x, mul(steps.d, coded.s), mul(steps.dmin, coded.m), to);
  }

 private:
  static vf to_code(vf value, vf step) {
    return clamp(nearest(mul(value, inverse(step))), 0.0f, T::kMost);
  }

  // The largest of each block over the largest code, on its lanes.
  static vf per_block_step(vf values) {
    float lanes[16];
    store(lanes, values);
    for (int first = 0; first < 16; first += T::kSub) {
      const float top = *std::max_element(lanes + first, lanes + first + T::kSub);
      std::fill_n(lanes + first, T::kSub, top / T::kMost);
    }
    return as_f16(load(lanes));
  }

  vf error_of(const Coded& c, const Steps& by) const {
    const vf scale = mul(by.d, c.s), inverse_scale = inverse(scale), minimum = mul(by.dmin, c.m);
    vf error = set1(0.0f);
    for (int i = 0; i < T::kN; ++i) {
      const vf value = sub(mul(scale, code<T>(block_.x[i], inverse_scale, minimum)), minimum);
      error = add(error, block_.weighed(i, square(sub(block_.x[i], value))));
    }
    return error;
  }

  // The m that suits s: the mean of what is missing, for the codes that the present m gives.
  vf suited_minimum(vf s, vf m) const {
    const vf scale = mul(steps.d, s), inverse_scale = inverse(scale), minimum = mul(steps.dmin, m);
    vf missing = set1(0.0f);
    for (int i = 0; i < T::kN; ++i) {
      const vf off = sub(mul(scale, code<T>(block_.x[i], inverse_scale, minimum)), block_.x[i]);
      missing = add(missing, block_.weighed(i, off));
    }
    return to_code(div(missing, total_), steps.dmin);
  }

  void try_codes(vf s, vf m, Coded& best) const {
    Coded tried{clamp(s, 0.0f, T::kMost), clamp(m, 0.0f, T::kMost), set1(0.0f)};
    tried.error = error_of(tried, steps);
    const auto better = less(tried.error, best.error);
    best = {select(better, tried.s, best.s),
            select(better, tried.m, best.m),
            select(better, tried.error, best.error)};
  }

  void improve() {
    Coded best = coded;
    for (const float step : {-1.0f, 0.0f, 1.0f}) {
      const vf s = clamp(add(coded.s, set1(step)), 0.0f, T::kMost);
      try_codes(s, suited_minimum(s, coded.m), best);
    }
    const vf s = best.s, m = best.m;
    for (const float step : {-1.0f, 1.0f}) try_codes(s, add(m, set1(step)), best);
    try_codes(s, set1(0.0f), best);
    coded = best;
    accept_better(coded, fitted_steps());
  }

  // Takes over other codes and steps in the blocks where they leave less error.
  void accept_better(Coded other, const Steps& by) {
    other.error = error_of(other, by);
    float now[16], before[16], change[16];
    store(now, other.error);
    store(before, coded.error);
    for (int first = 0; first < 16; first += T::kSub) {
      double sum = 0;
      for (int j = first; j < first + T::kSub; ++j)
        sum += static_cast<double>(now[j]) - static_cast<double>(before[j]);
      std::fill_n(change + first, T::kSub, sum < 0 ? -1.0f : 1.0f);
    }
    const auto better = less(load(change), set1(0.0f));
    steps = {select(better, by.d, steps.d), select(better, by.dmin, steps.dmin)};
    coded = {select(better, other.s, coded.s),
             select(better, other.m, coded.m),
             select(better, other.error, coded.error)};
  }

  // d and dmin that fit the codes of each block best:
  //
  //   [  sum w (s q)^2   -sum w s q m ] [d   ]   [  sum w x s q ]
  //   [ -sum w s q m      sum w m^2   ] [dmin] = [ -sum w x m   ]
  Steps fitted_steps() const {
    const vf inverse_scale = inverse(mul(steps.d, coded.s)), minimum = mul(steps.dmin, coded.m);
    const vf zero = set1(0.0f);
    vf q_sum = zero, qq = zero, xq = zero, x_sum = zero;
    for (int i = 0; i < T::kN; ++i) {
      const vf q = code<T>(block_.x[i], inverse_scale, minimum), wq = block_.weighed(i, q);
      q_sum = add(q_sum, wq);
      qq = multiply_add(q, wq, qq);
      xq = multiply_add(block_.x[i], wq, xq);
      x_sum = add(x_sum, block_.weighed(i, block_.x[i]));
    }
    const vf s = coded.s, m = coded.m;
    float terms[5][16];
    store(terms[0], mul(square(s), qq));
    store(terms[1], mul(mul(s, m), q_sum));
    store(terms[2], mul(square(m), total_));
    store(terms[3], mul(s, xq));
    store(terms[4], mul(m, x_sum));
    float d[16], dmin[16];
    store(d, steps.d);
    store(dmin, steps.dmin);
    for (int first = 0; first < 16; first += T::kSub) {
      double sum[5] = {};
      for (int k = 0; k < 5; ++k)
        for (int j = first; j < first + T::kSub; ++j) sum[k] += static_cast<double>(terms[k][j]);
      const double det = sum[0] * sum[2] - sum[1] * sum[1];
      double fitted = 0, fitted_min = static_cast<double>(dmin[first]);
      if (det > 1e-6 * sum[0] * sum[2]) {
        fitted = (sum[3] * sum[2] - sum[1] * sum[4]) / det;
        fitted_min = (sum[1] * sum[3] - sum[0] * sum[4]) / det;
      } else if (sum[0] > 0) {
        fitted = (sum[3] + fitted_min * sum[1]) / sum[0];
      }
      std::fill_n(d + first, T::kSub, static_cast<float>(std::max(fitted, 0.0)));
      std::fill_n(dmin + first, T::kSub, static_cast<float>(std::max(fitted_min, 0.0)));
    }
    return {as_f16(load(d)), as_f16(load(dmin))};
  }

  const Lanes<T::kN, kWeighted> block_;
  const vf total_;
};

// What a group stores, lane by lane.
template <class T>
struct Stored {
  u8 codes[16 * T::kN];
  u8 s[16], m[16];
  alignas(32) u16 d[16], dmin[16];
};

template <class T, bool kWeighted>
void quantize_group(const float* x, const float* importance, Stored<T>& to) {
  const KAffine<T, kWeighted> k(x, importance);
  k.codes(to.codes);
  store_low_bytes(to.s, k.coded.s);
  store_low_bytes(to.m, k.coded.m);
  store_f16(to.d, k.steps.d);
  store_f16(to.dmin, k.steps.dmin);
}

// Eight 6-bit scales and minima: numbers 0 to 3 in the low six bits of bytes 0:4 and 4:8; the low
// halves of numbers 4 to 7 in bytes 8:12, their high bits above the others.
void pack_k_scales(const u8* s, const u8* m, u8* to) {
  for (int j = 0; j < 4; ++j) {
    to[j] = static_cast<u8>(s[j] | (s[j + 4] >> 4 << 6));
    to[j + 4] = static_cast<u8>(m[j] | (m[j + 4] >> 4 << 6));
    to[j + 8] = static_cast<u8>((s[j + 4] & 15) | (m[j + 4] << 4));
  }
}

template <bool kWeighted>
void q4_k(const float* x, const float* importance, u8* out) {
  Stored<Q4_K> stored;
  quantize_group<Q4_K, kWeighted>(x, importance, stored);
  for (int first = 0; first < 16; first += 8, out += 144) {
    put_half(out, stored.d[first]);
    put_half(out + 2, stored.dmin[first]);
    pack_k_scales(stored.s + first, stored.m + first, out + 4);
    for (int pair = 0; pair < 4; ++pair)
      pack_nibbles(stored.codes + 32 * (first + 2 * pair), 64, out + 16 + 32 * pair);
  }
}

template <bool kWeighted>
void q5_k(const float* x, const float* importance, u8* out) {
  Stored<Q5_K> stored;
  quantize_group<Q5_K, kWeighted>(x, importance, stored);
  for (int first = 0; first < 16; first += 8, out += 176) {
    const u8* codes = stored.codes + 32 * first;
    put_half(out, stored.d[first]);
    put_half(out + 2, stored.dmin[first]);
    pack_k_scales(stored.s + first, stored.m + first, out + 4);
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int sub = 0; sub < 8; ++sub) bits |= (codes[32 * sub + i] >> 4) << sub;
      out[16 + i] = static_cast<u8>(bits);
    }
    for (int pair = 0; pair < 4; ++pair) pack_nibbles(codes + 64 * pair, 64, out + 48 + 32 * pair);
  }
}

template <bool kWeighted>
void q2_k(const float* x, const float* importance, u8* out) {
  Stored<Q2_K> stored;
  quantize_group<Q2_K, kWeighted>(x, importance, stored);
  for (int j = 0; j < 16; ++j) out[j] = static_cast<u8>(stored.s[j] | (stored.m[j] << 4));
  for (int half = 0; half < 2; ++half) pack_pairs(stored.codes + 128 * half, out + 16 + 32 * half);
  put_half(out + 80, stored.d[0]);
  put_half(out + 82, stored.dmin[0]);
}

}  // namespace

std::vector<Quantizer> k_affine_quantizers() {
  return {{"Q4_K", 256, 144, 2, kLargestF16, JUNTO_WEIGHTED(q4_k)},
          {"Q5_K", 256, 176, 2, kLargestF16, JUNTO_WEIGHTED(q5_k)},
          {"Q2_K", 256, 84, 1, kLargestF16, JUNTO_WEIGHTED(q2_k)}};
}

}  // namespace junto::JUNTO_ISA

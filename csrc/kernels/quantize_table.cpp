// SPDX-License-Identifier: Apache-2.0
//
// Blocks of 32 values with a scale and codes from a table: value = d * table[code].
//
//   MXFP4    0 exponent e (E8M0), 1:17 nibbles; d = 2^(e - 127), table E2M1: 0 0.5 1 1.5 2 3 4 6
//            and the same negative
//   IQ4_NL   0:2 d (f16), 2:18 nibbles; a table of 16 uneven steps
//
// MXFP4 measures the exponent at which the largest value lies between 4 and 8 times d, and its two
// neighbours. IQ4_NL tries scales around the plain one, refits each to its codes, and measures.

#include <algorithm>
#include <cmath>

#include "kernels/quantize_lanes.h"

namespace junto::JUNTO_ISA {

namespace {

constexpr int kN = 32;
template <bool kWeighted>
using Block = Lanes<kN, kWeighted>;

// Twice the sizes of E2M1.
constexpr float kE2m1[8] = {0, 1, 2, 3, 4, 6, 8, 12};
constexpr float kUneven[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// The entry of an ascending table that is nearest to y, and where it stands.
struct Entry {
  vf value, place;
};
template <int kSize>
Entry look_up(const float (&table)[kSize], vf y) {
  Entry found{set1(table[0]), set1(0.0f)};
  for (int k = 1; k < kSize; ++k) {
    const auto beyond = less(set1(0.5f * (table[k - 1] + table[k])), y);
    found = {select(beyond, set1(table[k]), found.value),
             select(beyond, set1(static_cast<float>(k)), found.place)};
  }
  return found;
}
template <int kSize>
vf table_value(const float (&table)[kSize], vf y) {
  return look_up(table, y).value;
}

struct Choice {
  vf d, error;
  void take(vf other, vf other_error) {
    const auto better = less(other_error, error);
    d = select(better, other, d);
    error = select(better, other_error, error);
  }
};

// Lets tiny floats of this thread be what they are while it lives.
class KeepTiny {
 public:
  KeepTiny() : before_(exchange(0)) {}
  ~KeepTiny() { exchange(before_); }
  KeepTiny(const KeepTiny&) = delete;
  KeepTiny& operator=(const KeepTiny&) = delete;

 private:
  static unsigned int exchange([[maybe_unused]] unsigned int flush) {
#if defined(__x86_64__)
    const unsigned int now = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((now & ~0x8040u) | flush);
    return now & 0x8040u;
#elif defined(__aarch64__)
    std::uint64_t now = 0;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    __asm__ volatile("msr fpcr, %0" : : "r"((now & ~std::uint64_t{1u << 24}) | flush));
    return static_cast<unsigned int>(now) & 1u << 24;  // FZ
#else
    return 0;
#endif
  }
  unsigned int before_;
};

// The exponents of the sixteen blocks at which the largest value is 4 to 8 times d, from 0 on.
void plain_exponents(vf largest, int (&exponents)[16]) {
  float sizes[16];
  store(sizes, largest);
  for (int j = 0; j < 16; ++j) {
    int exponent = 0;
    std::frexp(sizes[j], &exponent);
    exponents[j] = sizes[j] > 0 ? std::max(0, exponent - 3 + 127) : 0;
  }
}

// Values over half of d, exactly: the powers of two are applied in two steps.
template <bool kWeighted>
void scale_down(const int (&exponents)[16], Block<kWeighted>& block) {
  float first[16], second[16];
  for (int j = 0; j < 16; ++j) {
    const int power = 128 - exponents[j];
    first[j] = std::ldexp(1.0f, power / 2);
    second[j] = std::ldexp(1.0f, power - power / 2);
  }
  const vf a = load(first), b = load(second);
  for (vf& x : block.x) x = mul(mul(x, a), b);
}

template <bool kWeighted>
vf e2m1_error(const Block<kWeighted>& block, float half_d) {
  const vf scale = set1(half_d), inverse_scale = set1(1 / half_d);
  vf error = set1(0.0f);
  for (int i = 0; i < kN; ++i) {
    const vf size = abs(block.x[i]);
    const vf value = mul(scale, table_value(kE2m1, mul(size, inverse_scale)));
    error = add(error, block.weighed(i, square(sub(size, value))));
  }
  return error;
}

template <bool kWeighted>
void mxfp4(const float* x, const float* importance, u8* out) {
  const KeepTiny keep;
  Block<kWeighted> block(x, importance);
  int exponents[16];
  plain_exponents(abs(extreme_of(block)), exponents);
  scale_down(exponents, block);
  Choice best{set1(1.0f), e2m1_error(block, 1.0f)};
  best.take(set1(2.0f), e2m1_error(block, 2.0f));
  float errors[16], scales[16];
  store(errors, e2m1_error(block, 0.5f));
  for (int j = 0; j < 16; ++j)
    if (exponents[j] == 0) errors[j] = kHuge;  // there is none below
  best.take(set1(0.5f), load(errors));
  const vf inverse_scale = div(set1(1.0f), best.d);
  vf q[kN];
  for (int i = 0; i < kN; ++i) {
    const vf place = look_up(kE2m1, mul(abs(block.x[i]), inverse_scale)).place;
    q[i] = add(place, select(less(block.x[i], set1(0.0f)), set1(8.0f), set1(0.0f)));
  }
  u8 codes[16 * kN];
  store_codes(q, codes);
  store(scales, best.d);
  for (int j = 0; j < 16; ++j, out += 17) {
    out[0] = static_cast<u8>(exponents[j] + (scales[j] > 1 ? 1 : scales[j] < 1 ? -1 : 0));
    pack_nibbles(codes + kN * j, kN, out + 1);
  }
}

template <bool kWeighted>
vf uneven_error(const Block<kWeighted>& block, vf d) {
  const vf inverse_d = inverse(d);
  vf error = set1(0.0f);
  for (int i = 0; i < kN; ++i) {
    const vf value = mul(d, table_value(kUneven, mul(block.x[i], inverse_d)));
    error = add(error, block.weighed(i, square(sub(block.x[i], value))));
  }
  return error;
}

// The scale that fits best the codes that inverse_d gives.
template <bool kWeighted>
vf refitted(const Block<kWeighted>& block, vf inverse_d) {
  vf xv = set1(0.0f), vv = set1(0.0f);
  for (int i = 0; i < kN; ++i) {
    const vf value = table_value(kUneven, mul(block.x[i], inverse_d));
    const vf weighed = block.weighed(i, value);
    xv = multiply_add(block.x[i], weighed, xv);
    vv = multiply_add(value, weighed, vv);
  }
  return div(xv, vv);
}

template <bool kWeighted>
void iq4_nl(const float* x, const float* importance, u8* out) {
  constexpr float kTries[] = {-139, -133, -127, -121, -115, -109, -103, 101, 107, 113, 119, 125};
  const Block<kWeighted> block(x, importance);
  const vf extreme = extreme_of(block), inverse_extreme = inverse(extreme);
  const vf plain = as_f16(mul(extreme, set1(-1.0f / 127)));
  Choice best{plain, uneven_error(block, plain)};
  for (const float end : kTries) {
    const vf d = as_f16(refitted(block, mul(inverse_extreme, set1(end))));
    best.take(d, uneven_error(block, d));
  }
  const vf inverse_d = inverse(best.d);
  vf q[kN];
  for (int i = 0; i < kN; ++i) q[i] = look_up(kUneven, mul(block.x[i], inverse_d)).place;
  u8 codes[16 * kN];
  store_codes(q, codes);
  alignas(32) u16 d[16];
  store_f16(d, best.d);
  for (int j = 0; j < 16; ++j, out += 18) {
    put_half(out, d[j]);
    pack_nibbles(codes + kN * j, kN, out + 2);
  }
}

}  // namespace

std::vector<Quantizer> table_quantizers() {
  return {{"MXFP4", kN, 17, 16, 3.4028235e38f, JUNTO_WEIGHTED(mxfp4)},
          {"IQ4_NL", kN, 18, 16, kLargestF16, JUNTO_WEIGHTED(iq4_nl)}};
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// simd.h in plain C++: sixteen-element loops that any compiler turns into what its target has.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace junto::JUNTO_ISA {

inline constexpr int kVectors = 4;  // whole vf that fit in registers

// Rows of activations that a product kernel keeps in registers.
inline constexpr int kRegisterRows = 4;

// Rows for which a product kernel has code of their own; the others share it in a loop.
inline constexpr int kUnrolledRows = 1;

// Whether there are products of matrices of bytes: see neon.h.
inline constexpr bool kHasMatrix = false;

struct vf {
  float v[16];
};
struct vi {
  std::int32_t v[16];
};
struct vb {
  std::uint8_t v[64];
};
struct mask {
  bool v[16];
};

template <class F>
inline vf lanes(F f) {
  vf y;
  for (int i = 0; i < 16; ++i) y.v[i] = f(i);
  return y;
}
template <class F>
inline vb bytes(F f) {
  vb y;
  for (int i = 0; i < 64; ++i) y.v[i] = static_cast<std::uint8_t>(f(i));
  return y;
}

inline vf set1(float x) {
  return lanes([=](int) { return x; });
}
inline vf load(const float* p) {
  vf y;
  std::memcpy(y.v, p, sizeof y.v);
  return y;
}
inline void store(float* p, const vf& x) { std::memcpy(p, x.v, sizeof x.v); }
inline vf add(const vf& x, const vf& y) {
  return lanes([&](int i) { return x.v[i] + y.v[i]; });
}
inline vf sub(const vf& x, const vf& y) {
  return lanes([&](int i) { return x.v[i] - y.v[i]; });
}
inline vf mul(const vf& x, const vf& y) {
  return lanes([&](int i) { return x.v[i] * y.v[i]; });
}
inline vf div(const vf& x, const vf& y) {
  return lanes([&](int i) { return x.v[i] / y.v[i]; });
}
inline vf min(const vf& x, const vf& y) {
  return lanes([&](int i) { return x.v[i] < y.v[i] ? x.v[i] : y.v[i]; });
}
inline vf max(const vf& x, const vf& y) {
  return lanes([&](int i) { return x.v[i] > y.v[i] ? x.v[i] : y.v[i]; });
}
// Product and sum round apart here: std::fma would be a slow call where there is no instruction.
inline vf fma(const vf& x, const vf& y, const vf& z) {
  return lanes([&](int i) { return x.v[i] * y.v[i] + z.v[i]; });
}
inline vf fnma(const vf& x, const vf& y, const vf& z) {
  return lanes([&](int i) { return z.v[i] - x.v[i] * y.v[i]; });
}
inline vf abs(const vf& x) {
  return lanes([&](int i) { return std::fabs(x.v[i]); });
}
inline vf round(const vf& x) {
  return lanes([&](int i) { return std::nearbyint(x.v[i]); });
}
inline mask less(const vf& x, const vf& y) {
  mask m;
  for (int i = 0; i < 16; ++i) m.v[i] = x.v[i] < y.v[i];
  return m;
}
inline bool any(const mask& m) {
  bool found = false;
  for (const bool lane : m.v) found |= lane;
  return found;
}
inline vf select(const mask& m, const vf& x, const vf& y) {  // m ? x : y
  return lanes([&](int i) { return m.v[i] ? x.v[i] : y.v[i]; });
}
inline vf zero_where(const mask& m, const vf& x) {
  return lanes([&](int i) { return m.v[i] ? 0.0f : x.v[i]; });
}
inline vf scale_by_power_of_two(const vf& x, const vf& n) {
  return lanes([&](int i) { return std::ldexp(x.v[i], static_cast<int>(n.v[i])); });
}

// Fixed order: lanes 8 apart, then 4, 2, 1.
inline float reduce_add(vf x) {
  for (int step = 8; step > 0; step /= 2)
    for (int i = 0; i < step; ++i) x.v[i] += x.v[i + step];
  return x.v[0];
}
inline float reduce_max(const vf& x) {
  float top = x.v[0];
  for (int i = 1; i < 16; ++i) top = x.v[i] > top ? x.v[i] : top;
  return top;
}

inline float bits(std::uint32_t word) {
  float y;
  std::memcpy(&y, &word, sizeof y);
  return y;
}
inline float widen_f16(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 31u, mantissa = h & 1023u;
  if (exponent == 31) return bits(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float small = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -small : small;
}
inline std::uint16_t narrow_f16(float x) {
  std::uint32_t word;
  std::memcpy(&word, &x, sizeof word);
  const std::uint32_t sign = (word >> 16) & 0x8000u;
  word &= 0x7fffffffu;
  if (word > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (word >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (word < 0x38800000u) {  // below the normal range: an exact multiple of 2^-24 after rounding
    const float steps = std::nearbyint(bits(word) * 0x1p24f);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(steps));
  }
  const std::uint32_t odd = (word >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((word - 0x38000000u + 0xfffu + odd) >> 13));
}
inline vf load_f16(const std::uint16_t* p) {
  return lanes([=](int i) { return widen_f16(p[i]); });
}
inline vf load_bf16(const std::uint16_t* p) {
  return lanes([=](int i) { return bits(static_cast<std::uint32_t>(p[i]) << 16); });
}
inline void store_f16(std::uint16_t* p, const vf& x) {
  for (int i = 0; i < 16; ++i) p[i] = narrow_f16(x.v[i]);
}

// The low bytes of 16 whole numbers.
inline void store_low_bytes(std::uint8_t* p, const vf& x) {
  for (int i = 0; i < 16; ++i)
    p[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(x.v[i]) & 255);
}

// Lane j of vector i becomes lane i of vector j.
inline void transpose(vf (&x)[16]) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < i; ++j) {
      const float kept = x[i].v[j];
      x[i].v[j] = x[j].v[i];
      x[j].v[i] = kept;
    }
  }
}

inline vi set1_i32(std::int32_t x) {
  vi y;
  for (std::int32_t& lane : y.v) lane = x;
  return y;
}
inline vi load_u8_i32(const std::uint8_t* p) {
  vi y;
  for (int i = 0; i < 16; ++i) y.v[i] = p[i];
  return y;
}
inline vi load_i8_i32(const std::int8_t* p) {
  vi y;
  for (int i = 0; i < 16; ++i) y.v[i] = p[i];
  return y;
}
inline vi add_i32(vi x, const vi& y) {
  for (int i = 0; i < 16; ++i) x.v[i] += y.v[i];
  return x;
}
inline vi max_i32(vi x, const vi& y) {
  for (int i = 0; i < 16; ++i) x.v[i] = x.v[i] > y.v[i] ? x.v[i] : y.v[i];
  return x;
}
inline vi and_i32(vi x, std::int32_t m) {
  for (std::int32_t& lane : x.v) lane &= m;
  return x;
}
inline vf to_float(const vi& x) {
  return lanes([&](int i) { return static_cast<float>(x.v[i]); });
}
// The low, or the next, four bits of each lane less 8, as a float.
inline vf low_nibble_minus_8(const vi& x) {
  return lanes([&](int i) { return static_cast<float>((x.v[i] & 15) - 8); });
}
inline vf high_nibble_minus_8(const vi& x) {
  return lanes([&](int i) { return static_cast<float>((x.v[i] >> 4 & 15) - 8); });
}
inline vf bits_to_float(const vi& x) {
  vf y;
  std::memcpy(y.v, x.v, sizeof y.v);
  return y;
}
inline vi shift_left(vi x, int n) {
  for (std::int32_t& lane : x.v)
    lane = static_cast<std::int32_t>(static_cast<std::uint32_t>(lane) << n);
  return x;
}

inline vi shift_right(vi x, int n) {
  for (std::int32_t& lane : x.v) lane >>= n;
  return x;
}
inline vi load_u4_i32(const std::uint8_t* p) {
  vi y;
  for (int i = 0; i < 8; ++i) {
    y.v[i] = p[i] & 15;
    y.v[i + 8] = p[i] >> 4;
  }
  return y;
}
inline vi load_bits_i32(const std::uint8_t* p) {
  vi y;
  for (int i = 0; i < 16; ++i) y.v[i] = (p[i / 8] >> (i % 8)) & 1;
  return y;
}

inline vb load_bytes(const std::uint8_t* p) {
  vb y;
  std::memcpy(y.v, p, sizeof y.v);
  return y;
}
inline vb shifted_and(const vb& x, int n, std::uint8_t m) {
  return bytes([&](int i) { return (x.v[i] >> n) & m; });
}
inline vb low_nibbles(const vb& x) { return shifted_and(x, 0, 15); }
inline vb high_nibbles(const vb& x) { return shifted_and(x, 4, 15); }
inline vb or_shifted(const vb& x, const vb& y, int n) {
  return bytes([&](int i) { return x.v[i] | (y.v[i] << n); });
}

inline vb add_bytes(const vb& x, const vb& y) {
  return bytes([&](int i) { return x.v[i] + y.v[i]; });
}
inline vb thirds(const vb& x) {
  return bytes([&](int i) { return x.v[i] * 3 >> 8; });
}
inline vb plus_or_minus(std::uint8_t offset, const vb& x, std::uint64_t minus) {
  return bytes([&](int i) { return (minus >> i & 1) != 0 ? offset - x.v[i] : offset + x.v[i]; });
}
inline vb gather(const std::int32_t* table, const vi& index) {
  vb y;
  for (int i = 0; i < 16; ++i) std::memcpy(y.v + 4 * i, table + index.v[i], 4);
  return y;
}

struct lut16 {
  std::uint8_t v[16];
};
inline lut16 load_lut(const std::uint8_t* table) {
  lut16 y;
  std::memcpy(y.v, table, sizeof y.v);
  return y;
}
inline vb look_up(const lut16& table, const vb& codes) {
  return bytes([&](int i) { return table.v[codes.v[i] & 15]; });
}

inline vi dot4(vi acc, const vb& w, const std::int8_t* a) {
  for (int i = 0; i < 16; ++i) {
    acc.v[i] +=
        w.v[4 * i] * a[0] + w.v[4 * i + 1] * a[1] + w.v[4 * i + 2] * a[2] + w.v[4 * i + 3] * a[3];
  }
  return acc;
}

// The same for codes that use all 8 bits, stored plus 128; kWideOffset takes that off again.
inline constexpr int kWideOffset = 128;
inline vi dot4_wide(const vi& acc, const vb& w, const std::int8_t* a) { return dot4(acc, w, a); }

// Four dot4 one after the other, of codes below 32.
inline vi dot16_small(vi acc, const vb* w, const std::int8_t* a) {
  for (int i = 0; i < 4; ++i) acc = dot4(acc, w[i], a + 4 * i);
  return acc;
}

inline void prefetch(const void*) {}
inline void prefetch_far(const void*) {}

}  // namespace junto::JUNTO_ISA

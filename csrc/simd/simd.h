// SPDX-License-Identifier: Apache-2.0
//
// Sixteen lanes, whatever the machine. A kernel is written once against these types and compiled
// once for each instruction set: CMake sets the flags, and JUNTO_ISA names the namespace that
// keeps the copies apart. Every operation has one fixed order of sums, so a result depends on the
// level alone, never on how many rows or threads share the work.
//
//   vf   16 x float32      vi   16 x int32      vb   64 x uint8, 4 for each lane of a vi
#pragma once

#include <cstdint>
#include <cstring>

#if !defined(JUNTO_ISA)
#error "compile this with -DJUNTO_ISA=<namespace>, see CMakeLists.txt"
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VNNI__)
#include "simd/avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "simd/avx2.h"
#elif defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#include "simd/neon.h"
#else
#include "simd/portable.h"
#endif

namespace junto::JUNTO_ISA {

// e^x for x <= 88; 0 below -87.3. Within 2 units in the last place.
// Source: range reduction by ln 2 in two parts and a minimax polynomial, as in Cephes expf.
inline vf exp(vf x) {
  const vf low = set1(-87.33654f), high = set1(88.37626f);
  const auto tiny = less(x, low);
  x = min(max(x, low), high);
  const vf n = round(mul(x, set1(1.44269504088896341f)));
  vf r = fma(n, set1(-0.693359375f), x);
  r = fma(n, set1(2.12194440e-4f), r);
  vf p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  const vf y = add(fma(mul(r, r), p, r), set1(1.0f));
  return zero_where(tiny, scale_by_power_of_two(y, n));
}

// 1 / (1 + e^-x).
inline vf sigmoid(vf x) { return div(set1(1.0f), add(set1(1.0f), exp(sub(set1(0.0f), x)))); }

// Loads n < 16 floats, zeros behind them.
inline vf load_part(const float* from, int n) {
  alignas(64) float lanes[16] = {};
  std::memcpy(lanes, from, sizeof(float) * static_cast<std::size_t>(n));
  return load(lanes);
}

// Stores the first n < 16 lanes.
inline void store_part(float* to, vf x, int n) {
  alignas(64) float lanes[16];
  store(lanes, x);
  std::memcpy(to, lanes, sizeof(float) * static_cast<std::size_t>(n));
}

}  // namespace junto::JUNTO_ISA

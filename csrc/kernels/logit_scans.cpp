// SPDX-License-Identifier: Apache-2.0
//
// The parts of sampling that read a whole row of logits. `max` of the vectors returns its second
// argument when either is not a number, so the running maximum comes second.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/sampling.h"
#include "simd/simd.h"

namespace junto::JUNTO_ISA {

namespace {

using std::int64_t;

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr int64_t kStretch = 1024;  // values of which only the first largest is looked up

float largest_of(const float* x, int64_t n) {
  vf top = set1(kLowest);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) top = max(load(x + i), top);
  float value = reduce_max(top);
  for (; i < n; ++i) value = x[i] > value ? x[i] : value;
  return value;
}

Largest largest(const float* x, int64_t n) {
  Largest best{kLowest, 0};
  for (int64_t i = 0; i < n; i += kStretch) {
    const float value = largest_of(x + i, std::min(kStretch, n - i));
    if (value > best.value) best = {value, i};
  }
  while (best.id < n - 1 && x[best.id] != best.value && best.value > kLowest) ++best.id;
  return best;
}

int64_t above(
    const float* x, int64_t n, float threshold, int64_t* from, std::uint32_t* ids, int64_t room) {
  int64_t found = 0, i = *from;
  for (; i < n && found + 64 <= room; i += 64) {
    const int64_t end = std::min(n, i + 64);
    vf top = set1(kLowest);
    if (end == i + 64)
      for (int64_t j = i; j < end; j += 16) top = max(load(x + j), top);
    if (end == i + 64 && !any(less(set1(threshold), top))) continue;
    for (int64_t j = i; j < end; ++j)
      if (x[j] > threshold) ids[found++] = static_cast<std::uint32_t>(j);
  }
  *from = std::min(i, n);
  return found;
}

double sum_exp(const float* x, int64_t n, float top, double temperature) {
  constexpr int64_t kGroup = 256;  // values whose small terms are summed in float32
  const vf scale = set1(static_cast<float>(1.0 / std::max(temperature, 1e-30)));
  const vf from = set1(top), large = set1(-8.0f);
  double total = 0;
  for (int64_t i = 0; i < n; i += kGroup) {
    vf small = set1(0.0f);
    for (int64_t j = i; j < std::min(n, i + kGroup); j += 16) {
      const int m = static_cast<int>(std::min<int64_t>(16, n - j));
      const vf d = mul(sub(m == 16 ? load(x + j) : load_part(x + j, m), from), scale);
      if (m == 16 && !any(less(large, d))) {
        small = add(small, exp(d));
        continue;
      }
      for (int lane = 0; lane < m; ++lane)
        if (x[j + lane] > kLowest)
          total += std::exp(static_cast<double>(x[j + lane] - top) / temperature);
    }
    total += static_cast<double>(reduce_add(small));
  }
  return total;
}

}  // namespace

LogitScans logit_scans() { return {&largest, &above, &sum_exp}; }

}  // namespace junto::JUNTO_ISA

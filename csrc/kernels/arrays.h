// SPDX-License-Identifier: Apache-2.0
//
// What NumPy does between ops, with its bits: tiny floats are kept. Few rows, so one thread.
#pragma once

#include <array>
#include <cstdint>

namespace junto {

// Copies x, any strides, to y, which is contiguous. Strides count floats.
struct CopyParams {
  const float* x;
  std::array<std::int64_t, 4> shape, stride;
  float* y;
};

void copy(const CopyParams& params);

// y = a + b of n values; y may be a or b.
void plain_sum(const float* a, const float* b, std::int64_t n, float* y);

}  // namespace junto

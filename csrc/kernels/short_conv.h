// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/delta_rule.h"
#include "kernels/levels.h"
#include "kernels/threads.h"

namespace junto {

// Sizes and strides count floats. Sequences differ in slot, and rows belong to one span each.
struct ShortConvParams {
  const float* x;       // [n_tok, n_channel], raw
  const float* weight;  // [n_channel, n_tap], oldest tap first; fastest with channel_stride 1
  float* y;             // [n_tok, n_channel], written; not x

  std::int64_t x_stride, y_stride;          // between rows
  std::int64_t channel_stride, tap_stride;  // of weight

  float* conv;  // [n_slot, n_tap - 1 + 64, n_channel], raw; row n_tap - 1 is the anchor's

  const DeltaSpan* spans;
  std::int64_t n_span;
  std::int64_t n_channel, n_tap;
};

// SiLU of the causal depthwise convolution; the raw rows of the spans are kept in `conv`.
JUNTO_DECLARE_SHARED(void short_conv(const ShortConvParams& params, ThreadPool& pool);)

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/threads.h"

namespace junto {

// Turns the first 2 * n_pair values of every head of every token; y may be x.
struct RopeParams {
  std::int64_t n_tok, n_head, head_dim, n_pair;
  const float* x;  // head h of token t begins at t * x_tok + h * x_head
  std::int64_t x_tok, x_head;
  float* y;
  std::int64_t y_tok, y_head;
  const float *cos, *sin;  // [n_tok, n_pair]
  bool adjacent;           // 2j turns with 2j + 1, else j with j + n_pair
};

// Cosine and sine of position * inv_freq, taken in float64, times `scale`.
// positions [n_tok], inv_freq [n_pair] -> cos, sin [n_tok, n_pair].
void rope_table(const std::int32_t* positions,
                std::int64_t n_tok,
                const double* inv_freq,
                std::int64_t n_pair,
                double scale,
                float* cos,
                float* sin);

JUNTO_DECLARE_SHARED(void rope(const RopeParams& params, ThreadPool& pool);)

}  // namespace junto

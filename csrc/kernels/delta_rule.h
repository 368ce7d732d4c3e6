// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/threads.h"

namespace junto {

// Tokens that the list of an anchored state holds before they fold into it.
inline constexpr std::int64_t kDeltaList = 64;

// The rows of a batch that belong to one sequence.
struct DeltaSpan {
  std::int64_t slot;   // seat of the sequence in the arrays with n_slot
  std::int64_t row;    // first row in the batch
  std::int64_t n_tok;  // rows, at least 1
  std::int64_t start;  // entries in the list before them, 0 to 64
};

// Sizes and strides count floats. Sequences differ in slot, and rows belong to one span each.
struct DeltaRuleParams {
  const float* q;      // [n_tok, n_head_k, s_k], raw
  const float* k;      // [n_tok, n_head_k, s_k], raw
  const float* v;      // [n_tok, n_head_v, s_v]
  const float* decay;  // [n_tok, n_head_v], log of the decay, at most 0
  const float* beta;   // [n_tok, n_head_v]
  float* y;            // [n_tok, n_head_v, s_v], written

  std::int64_t q_stride, k_stride, v_stride, decay_stride, beta_stride, y_stride;  // between rows

  float* state;       // [n_slot, n_head_v, s_k, s_v], at the anchor
  float* list_k;      // [n_slot, 64, n_head_k, s_k], normalised
  float* list_u;      // [n_slot, 64, n_head_v, s_v]
  float* list_decay;  // [n_slot, 64, n_head_v]

  const DeltaSpan* spans;
  std::int64_t n_span;
  std::int64_t n_head_k, n_head_v;  // value head h reads key head h % n_head_k
  std::int64_t s_k, s_v;
};

// Outputs of the gated delta rule; the states and lists of the spans advance.
JUNTO_DECLARE_SHARED(void gated_delta_rule(const DeltaRuleParams& params, ThreadPool& pool);)

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/packed.h"
#include "kernels/threads.h"

namespace junto {

// y[t] = sum over the experts e of row t, ascending, of weight * (down_e act(gate_e x, up_e x)).
//
//   x            [n_tok, n_embd]
//   expert_ids   [n_tok, n_used]   ascending in each row, each in [0, n_expert)
//   weights      [n_tok, n_used]
//   gate, up     [n_expert, n_ff, n_embd]; down [n_expert, n_embd, n_ff]
//   bias_*       [n_expert, n_ff] twice, [n_expert, n_embd]; all three or none (null)
//   limit        0: silu(gate) * up; else gate is cut above it, up on both sides, and the result is
//                (up + 1) * gate * sigmoid(alpha * gate)
//   y            [n_tok, n_embd]
struct ExpertsParams {
  const float* x;
  const std::int64_t* expert_ids;
  const float* weights;
  std::int64_t n_tok, n_used;
  const PackedMatrix *gate, *up, *down;
  const float *bias_gate, *bias_up, *bias_down;
  float limit, alpha;
  float* y;
};

JUNTO_DECLARE(void experts(const ExpertsParams& params, ThreadPool& pool);)

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/threads.h"

namespace junto {

// Chooses the n_used largest logits of each row; equal ones fall to the lower expert.
//
//   logits       [n_tok, n_expert]
//   over_all     softmax over all experts, then the chosen ones divided by their sum; else softmax
//                over the chosen logits only
//   scale        factor on the weights
//   expert_ids   [n_tok, n_used]   ascending in each row
//   weights      [n_tok, n_used]
struct RouteParams {
  const float* logits;
  std::int64_t n_tok, n_expert, n_used;
  bool over_all;
  float scale;
  std::int64_t* expert_ids;
  float* weights;
};

void route(const RouteParams& params, ThreadPool& pool);

}  // namespace junto

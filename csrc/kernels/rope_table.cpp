// SPDX-License-Identifier: Apache-2.0
//
// A table serves all heads and layers of a step. Sequences of one batch often share positions only
// in part, so each token has its own row. Angles are float64: a position of 200,000 loses nothing.

#include <cmath>

#include "kernels/rope.h"

namespace junto {

void rope_table(const std::int32_t* positions,
                std::int64_t n_tok,
                const double* inv_freq,
                std::int64_t n_pair,
                double scale,
                float* cos,
                float* sin) {
  for (std::int64_t t = 0; t < n_tok; ++t) {
    for (std::int64_t j = 0; j < n_pair; ++j) {
      const double angle = positions[t] * inv_freq[j];
      cos[t * n_pair + j] = static_cast<float>(std::cos(angle) * scale);
      sin[t * n_pair + j] = static_cast<float>(std::sin(angle) * scale);
    }
  }
}

}  // namespace junto

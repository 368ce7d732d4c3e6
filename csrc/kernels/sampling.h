// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/threads.h"

namespace junto {

struct Largest {
  float value;
  std::int64_t id;  // the first one that has it
};

// Passes over a row of logits, once for each level. What is not a number is passed over.
struct LogitScans {
  Largest (*largest)(const float* x, std::int64_t n);
  // Writes the ids of x > threshold from `from` on, as long as 64 more would fit `room`; returns
  // how many, and moves `from` to where it stopped.
  std::int64_t (*above)(const float* x,
                        std::int64_t n,
                        float threshold,
                        std::int64_t* from,
                        std::uint32_t* ids,
                        std::int64_t room);
  // Sum of e^((x - top) / temperature). Terms above e^-8 are float64, the rest is good to 1e-6 of
  // their own sum.
  double (*sum_exp)(const float* x, std::int64_t n, float top, double temperature);
};

JUNTO_DECLARE_SHARED(LogitScans logit_scans();)

// How one row of logits becomes one token: temperature (0 takes the largest), then top_k (0 keeps
// all), top_p, min_p; `uniform` in [0, 1) decides.
struct SamplingRow {
  double temperature;
  std::int64_t top_k;
  double top_p, min_p, uniform;
};

struct SamplingParams {
  const float* logits;  // [n_row, n_vocab]
  std::int64_t n_row, n_vocab;
  const SamplingRow* rows;
  std::int64_t* tokens;  // [n_row]
};

// Equal logits fall to the lower id; what is not a number counts as the lowest.
void sample(const LogitScans& scans, const SamplingParams& params, ThreadPool& pool);

}  // namespace junto

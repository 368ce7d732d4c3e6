// SPDX-License-Identifier: Apache-2.0
//
// Routing, row by row: a few hundred numbers, so plain code serves every instruction set.

#include "kernels/route.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace junto {

namespace {

// `order` is scratch for n_expert ids.
void route_row(const RouteParams& p, std::int64_t row, std::vector<std::int64_t>& order) {
  const float* logits = p.logits + row * p.n_expert;
  std::int64_t* ids = p.expert_ids + row * p.n_used;
  float* weights = p.weights + row * p.n_used;
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto larger = [logits](std::int64_t a, std::int64_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  std::partial_sort(order.begin(), order.begin() + p.n_used, order.end(), larger);
  const float top = logits[order[0]];
  std::sort(order.begin(), order.begin() + p.n_used);

  // Dividing by the chosen ones' sum undoes the sum over all: both forms differ by rounding only,
  // and each keeps the roundings of its definition.
  float all = 0.0f;
  if (p.over_all)
    for (std::int64_t e = 0; e < p.n_expert; ++e) all += std::exp(logits[e] - top);
  float chosen = 0.0f;
  for (std::int64_t i = 0; i < p.n_used; ++i) {
    ids[i] = order[static_cast<std::size_t>(i)];
    const float e = std::exp(logits[ids[i]] - top);
    weights[i] = p.over_all ? e / all : e;
    chosen += weights[i];
  }
  for (std::int64_t i = 0; i < p.n_used; ++i) weights[i] = weights[i] / chosen * p.scale;
}

}  // namespace

void route(const RouteParams& params, ThreadPool& pool) {
  constexpr std::int64_t kGrain = 32;  // fewer rows are not worth sharing
  pool.loop(params.n_tok, kGrain, [&](std::int64_t first, std::int64_t last, int) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(params.n_expert));
    for (std::int64_t row = first; row < last; ++row) route_row(params, row, order);
  });
}

}  // namespace junto

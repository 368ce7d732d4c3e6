// SPDX-License-Identifier: Apache-2.0
//
// From logits to a token, without sorting a vocabulary.
//
// Candidates are ranked (largest logit first, then lower id) as far as they are needed: the top_k
// by keeping a buffer and raising a threshold, else band after band of e^8, e^8, e^16, ... below
// the largest. A walk down the ranks sums probabilities in float64, in the order of the reference,
// until top_p or min_p ends it.

#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

namespace junto {

namespace {

using Key = std::uint64_t;  // larger comes first: the logit in an order of its bits, then ~id

Key key_of(float logit, std::uint32_t id) {
  logit += 0.0f;  // -0 equals 0
  std::uint32_t bits = 0;
  std::memcpy(&bits, &logit, sizeof bits);
  bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  if (std::isnan(logit)) bits = 0;
  return Key{bits} << 32 | (0xffffffffu - id);
}

std::int64_t id_of(Key key) { return 0xffffffffu - static_cast<std::uint32_t>(key); }

class Ranking {
 public:
  Ranking(const LogitScans& scans, const SamplingParams& params, std::int64_t row)
      : scans_(scans),
        x_(params.logits + row * params.n_vocab),
        n_(params.n_vocab),
        how_(params.rows[row]),
        top_(scans.largest(x_, n_)) {}

  std::int64_t choose() {
    if (how_.temperature == 0 || !std::isfinite(top_.value)) return top_.id;
    const bool all = how_.top_k == 0 || how_.top_k >= n_;
    if (!all) rank_largest(how_.top_k);
    return walk(all ? scans_.sum_exp(x_, n_, top_.value, how_.temperature) : sum_of_ranked());
  }

 private:
  double weight(Key key) const {
    const float below = x_[id_of(key)] - top_.value;
    return std::isnan(below) ? 0 : std::exp(static_cast<double>(below) / how_.temperature);
  }

  double sum_of_ranked() const {
    double sum = 0;
    for (const Key key : ranked_) sum += weight(key);
    return sum;
  }

  void push(std::int64_t id) { ranked_.push_back(key_of(x_[id], static_cast<std::uint32_t>(id))); }

  void keep(std::int64_t k) {
    if (k >= static_cast<std::int64_t>(ranked_.size())) return;
    std::nth_element(ranked_.begin(), ranked_.begin() + k - 1, ranked_.end(), std::greater<>());
    ranked_.resize(static_cast<std::size_t>(k));
  }

  void rank_largest(std::int64_t k) {
    const std::int64_t room = std::max<std::int64_t>(1024, k);
    std::int64_t next = std::min(n_, k + room);
    for (std::int64_t id = 0; id < next; ++id) push(id);
    keep(k);
    std::vector<std::uint32_t> ids(static_cast<std::size_t>(room));
    while (next < n_) {
      // A later id with the logit of the last one kept ranks behind it.
      const float last = x_[id_of(ranked_[static_cast<std::size_t>(k - 1)])];
      const float threshold = std::isnan(last) ? -std::numeric_limits<float>::infinity() : last;
      const std::int64_t found = scans_.above(x_, n_, threshold, &next, ids.data(), room);
      for (std::int64_t i = 0; i < found; ++i) push(ids[static_cast<std::size_t>(i)]);
      keep(k);
    }
    std::sort(ranked_.begin(), ranked_.end(), std::greater<>());
    complete_ = true;
  }

  // Ranks the next band; false if there is none.
  bool extend() {
    if (complete_) return false;
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    const auto before = static_cast<std::ptrdiff_t>(ranked_.size());
    complete_ = depth_ > 64;
    const float next = std::min(static_cast<float>(top_.value - depth_ * how_.temperature),
                                std::nextafter(top_.value, lowest));
    if (complete_) {
      for (std::int64_t id = 0; id < n_; ++id)
        if (!(x_[id] > edge_)) push(id);
    } else {
      push_band(next);
    }
    edge_ = next;
    depth_ *= 2;
    std::sort(ranked_.begin() + before, ranked_.end(), std::greater<>());
    return true;
  }

  void push_band(float bottom) {
    std::uint32_t ids[1024];
    for (std::int64_t next = 0; next < n_;) {
      const std::int64_t found = scans_.above(x_, n_, bottom, &next, ids, 1024);
      for (std::int64_t i = 0; i < found; ++i)
        if (!(x_[ids[i]] > edge_)) push(ids[i]);
    }
  }

  std::int64_t walk(double total) {
    // Without top_p and min_p all are kept, and the walk may end at the token itself.
    const bool cut = how_.top_p < 1 || how_.min_p > 0;
    const double enough = cut ? how_.top_p : how_.uniform;
    std::vector<double> cumulated;
    double sum = 0;
    for (std::size_t i = 0; i < ranked_.size() || extend();) {
      if (i == ranked_.size()) continue;  // an empty band
      const double p = weight(ranked_[i]) / total;
      if (i > 0 && p < how_.min_p * (1 / total)) break;
      sum += p;
      cumulated.push_back(sum);
      ++i;
      if (cut ? how_.top_p < 1 && sum >= enough : sum > enough) break;
    }
    const double target = how_.uniform * (cut ? sum : 1);
    const auto at = std::upper_bound(cumulated.begin(), cumulated.end(), target);
    const auto rank = static_cast<std::size_t>(at - cumulated.begin());
    return id_of(ranked_[std::min(rank, cumulated.size() - 1)]);
  }

  const LogitScans& scans_;
  const float* x_;
  std::int64_t n_;
  const SamplingRow& how_;
  Largest top_;
  std::vector<Key> ranked_;
  bool complete_ = false;
  double depth_ = 8;  // of the next band, in units of the temperature
  float edge_ = std::numeric_limits<float>::infinity();  // what is above it is ranked
};

}  // namespace

void sample(const LogitScans& scans, const SamplingParams& params, ThreadPool& pool) {
  pool.loop(params.n_row, 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t row = first; row < last; ++row)
      params.tokens[row] = Ranking(scans, params, row).choose();
  });
}

}  // namespace junto

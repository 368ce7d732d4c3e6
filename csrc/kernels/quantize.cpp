// SPDX-License-Identifier: Apache-2.0
//
// The loop over groups of blocks: checks values, prepares importance, lets threads share.

#include "kernels/quantize.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "kernels/quantize_lanes.h"

namespace junto::JUNTO_ISA {

namespace {

using std::int64_t;

// Floats without their sign compare like the integers of their bits, NaN above all.
int64_t first_beyond(const float* x, int64_t n, float largest) {
  std::int32_t limit;
  std::memcpy(&limit, &largest, sizeof limit);
  const auto is_beyond = [&](int64_t i) {
    std::int32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    return (bits & 0x7fffffff) > limit;
  };
  int found = 0;
  for (int64_t i = 0; i < n; ++i) found |= is_beyond(i);
  if (found == 0) return -1;
  int64_t i = 0;
  while (!is_beyond(i)) ++i;
  return i;
}

// Importance of each value over the largest of its block. A little is added, so that values which
// count for nothing are still kept near; a block in which none counts is taken as unweighted.
std::vector<float> relative_importance(const float* importance, int64_t n, int64_t n_per_block) {
  std::vector<float> relative(static_cast<std::size_t>(n));
  for (int64_t start = 0; start < n; start += n_per_block) {
    const float* from = importance + start;
    const double top = *std::max_element(from, from + n_per_block);
    for (int64_t i = 0; i < n_per_block; ++i) {
      const double share = top > 0 ? static_cast<double>(from[i]) / top + 1e-12 : 1.0;
      relative[static_cast<std::size_t>(start + i)] = static_cast<float>(share);
    }
  }
  return relative;
}

// A group of values, or the last of them with zeros behind.
struct Group {
  const float* x;
  const float* importance;
};

class Job {
 public:
  Job(const Quantizer& how, const QuantizeParams& params)
      : how_(how), params_(params), n_(params.n_row * params.n) {
    if (params.importance != nullptr)
      relative_ = relative_importance(params.importance, params.n, how.n_per_block);
  }
  int64_t n_group() const { return (n_ + group_values() - 1) / group_values(); }

  // -1, or the index of a value that the type cannot hold.
  int64_t run(int64_t group) const {
    const int64_t start = group * group_values();
    const int64_t n = std::min(group_values(), n_ - start);
    const int64_t bad = first_beyond(params_.rows + start, n, how_.largest);
    if (bad >= 0) return start + bad;
    u8* out = params_.out + start / how_.n_per_block * how_.n_bytes_per_block;
    const bool whole = n == group_values(), aligned = start % params_.n + n <= params_.n;
    if (whole && (relative_.empty() || aligned)) {
      const float* w = relative_.empty() ? nullptr : relative_.data() + start % params_.n;
      how_.run(params_.rows + start, w, out);
    } else {
      run_copied(start, n, out);
    }
    return -1;
  }

 private:
  static constexpr int kMostValues = 512, kMostBytes = 2048;

  int64_t group_values() const { return how_.n_block_group * how_.n_per_block; }
  void run_copied(int64_t start, int64_t n, u8* out) const {
    float x[kMostValues] = {}, w[kMostValues];
    u8 bytes[kMostBytes];
    std::memcpy(x, params_.rows + start, sizeof(float) * static_cast<std::size_t>(n));
    for (int64_t i = 0; i < kMostValues; ++i)
      w[i] =
          relative_.empty() ? 1.0f : relative_[static_cast<std::size_t>((start + i) % params_.n)];
    how_.run(x, relative_.empty() ? nullptr : w, bytes);
    const int64_t n_bytes = n / how_.n_per_block * how_.n_bytes_per_block;
    std::memcpy(out, bytes, static_cast<std::size_t>(n_bytes));
  }

  const Quantizer& how_;
  const QuantizeParams& params_;
  const int64_t n_;
  std::vector<float> relative_;
};

void lower(std::atomic<int64_t>& least, int64_t value) {
  int64_t seen = least.load();
  while (value < seen && !least.compare_exchange_weak(seen, value)) {
  }
}

}  // namespace

const std::vector<Quantizer>& quantizers() {
  static const std::vector<Quantizer> kAll = [] {
    std::vector<Quantizer> all;
    for (const auto& some : {plain_quantizers(),
                             scaled_quantizers(),
                             affine_quantizers(),
                             table_quantizers(),
                             k_scaled_quantizers(),
                             k_affine_quantizers()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }();
  return kAll;
}

int64_t quantize(const Quantizer& how, const QuantizeParams& params, ThreadPool& pool) {
  const Job job(how, params);
  const int64_t none = params.n_row * params.n;
  std::atomic<int64_t> first_bad{none};
  pool.loop(job.n_group(), 16, [&](int64_t first, int64_t last, int) {
    for (int64_t group = first; group < last; ++group)
      if (const int64_t bad = job.run(group); bad >= 0) lower(first_bad, bad);
  });
  return first_bad == none ? -1 : first_bad.load();
}

}  // namespace junto::JUNTO_ISA

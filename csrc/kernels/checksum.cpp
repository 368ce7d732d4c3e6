// SPDX-License-Identifier: Apache-2.0
//
// Pieces of 1 MiB by eight lanes of 8 bytes: each lane mixes its word in by multiplication (odd, so
// no bit is lost) and rotation. Lanes and pieces are folded in order by the same step.

#include "kernels/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace junto {

namespace {

constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio
constexpr std::int64_t kPiece = std::int64_t{1} << 20;
constexpr std::size_t kLanes = 8;

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  return std::rotl((state ^ word) * kOdd, 31);
}

std::uint64_t piece_sum(const std::uint8_t* data, std::int64_t n) {
  std::uint64_t lanes[kLanes], words[kLanes];
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = kOdd + i;
  std::int64_t at = 0;
  for (; at + 64 <= n; at += 64) {
    std::memcpy(words, data + at, 64);
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  std::uint64_t sum = static_cast<std::uint64_t>(n);
  for (const std::uint64_t lane : lanes) sum = mix(sum, lane);
  for (; at < n; ++at) sum = mix(sum, data[at]);
  return sum;
}

}  // namespace

std::uint64_t checksum(const std::uint8_t* data, std::int64_t n, ThreadPool& pool) {
  std::vector<std::uint64_t> sums(static_cast<std::size_t>((n + kPiece - 1) / kPiece));
  pool.loop(
      static_cast<std::int64_t>(sums.size()), 4, [&](std::int64_t first, std::int64_t last, int) {
        for (std::int64_t i = first; i < last; ++i)
          sums[static_cast<std::size_t>(i)] =
              piece_sum(data + i * kPiece, std::min(kPiece, n - i * kPiece));
      });
  std::uint64_t sum = static_cast<std::uint64_t>(n);
  for (const std::uint64_t piece : sums) sum = mix(sum, piece);
  return sum;
}

}  // namespace junto

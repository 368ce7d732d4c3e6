// SPDX-License-Identifier: Apache-2.0

#include "bindings/attention_spans.h"

#include <algorithm>
#include <span>

namespace junto {

namespace {

// Shows a span in messages.
std::string shown(const AttentionSpan& span) {
  return "attention: span at row " + std::to_string(span.row) + " of " +
         std::to_string(span.n_tok) + " rows from position " + std::to_string(span.pos);
}

std::int64_t last_block(const AttentionSpan& span) {
  return (span.pos + span.n_tok - 1) / kPositions;
}

void check_blocks(std::span<const std::int32_t> blocks, std::int64_t n_pool_block) {
  for (const std::int32_t block : blocks)
    if (block < 0 || block >= n_pool_block)
      throw std::invalid_argument("attention: block " + std::to_string(block) + " of a pool of " +
                                  std::to_string(n_pool_block));
}

// A query of block B sees as floats the pinned blocks and those from B - n_recent on, and between
// them codes.
void check_age(const AttentionSpan& s,
               std::int64_t n_pinned_held,
               std::int64_t n_float,
               const AgedPools& aged) {
  const std::int64_t pinned = aged.n_pinned, own = s.pos / kPositions, last = last_block(s);
  const std::int64_t first_new = pinned + s.n_coded, end_coded = first_new + s.n_new;
  const bool is_pinned = n_pinned_held >= std::min(pinned, last + 1);
  const bool is_near = s.first_block >= pinned &&
                       s.first_block <= std::max(pinned, own - aged.n_recent) &&
                       (last < pinned || s.first_block + n_float > last);
  const bool is_coded = end_coded >= last - aged.n_recent;
  const bool is_full =
      s.n_new == 0 || (first_new >= s.first_block && end_coded * kPositions <= s.pos + s.n_tok);
  if (!(is_pinned && is_near && is_coded && is_full))
    throw std::invalid_argument(shown(s) + ": its tables do not cover what it sees by age");
}

}  // namespace

void ReadSpans::check_cover(std::int64_t window) const {
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const AttentionSpan& s = spans[i];
    const std::int64_t oldest = window == 0 ? 0 : std::max<std::int64_t>(0, s.pos - window + 1);
    if (oldest / kPositions < s.first_block || last_block(s) >= s.first_block + n_block[i])
      throw std::invalid_argument(shown(s) + ": its table of " + std::to_string(n_block[i]) +
                                  " blocks from block " + std::to_string(s.first_block) +
                                  " does not cover what it sees");
  }
}

ReadSpans read_spans(const Spans& spans, const Blocks& blocks, std::int64_t n_pool_block) {
  check_blocks({blocks.data(), blocks.size()}, n_pool_block);
  ReadSpans read;
  std::int64_t used = 0;
  for (std::int64_t i = 0; i < size(spans, 0); ++i) {
    const std::int32_t* s = spans.data() + 5 * i;
    check_equal("attention", "first row of a span", s[0], "end of the one before", read.n_row());
    if (s[4] < 0 || s[4] > size(blocks, 0) - used)
      throw std::invalid_argument("attention: tables of " + std::to_string(used + s[4]) +
                                  " blocks, got " + std::to_string(size(blocks, 0)));
    read.spans.push_back({s[0], s[1], s[2], s[3], blocks.data() + used});
    read.n_block.push_back(s[4]);
    if (s[1] < 1 || s[2] < 0)
      throw std::invalid_argument(shown(read.spans.back()) +
                                  ": expected at least 1 row and position 0");
    if (s[3] < 0)
      throw std::invalid_argument(shown(read.spans.back()) + ": its table from block " +
                                  std::to_string(s[3]) + " does not cover what it sees");
    used += s[4];
  }
  return read;
}

void let_age(ReadSpans& read,
             const AgedSpans& spans,
             const Blocks& blocks,
             const AgedPools& aged,
             std::int64_t n_pool_block,
             std::int64_t n_code_block) {
  constexpr std::int64_t most = std::int64_t{1} << 32;
  if (std::min(aged.n_pinned, aged.n_recent) < 0 || std::max(aged.n_pinned, aged.n_recent) > most)
    throw std::invalid_argument("attention: n_pinned is " + std::to_string(aged.n_pinned) +
                                ", n_recent is " + std::to_string(aged.n_recent) +
                                "; expected at least 0");
  check_equal("attention", "aged_spans", size(spans, 0), "spans", std::ssize(read.spans));
  std::span<const std::int32_t> left(blocks.data(), blocks.size());
  for (std::size_t i = 0; i < read.spans.size(); ++i) {
    const std::int32_t *s = spans.data() + 3 * i, n_coded = s[1], n_new = s[2];
    if (s[0] < 0 || n_new < 0 || n_coded < n_new || std::int64_t{s[0]} + n_coded > std::ssize(left))
      throw std::invalid_argument("attention: aged span of " + std::to_string(s[0]) + " and " +
                                  std::to_string(n_coded) + " blocks, " + std::to_string(n_new) +
                                  " of them new, where " + std::to_string(left.size()) +
                                  " are left");
    const auto pinned = left.first(static_cast<std::size_t>(s[0]));
    left = left.subspan(pinned.size());
    const auto coded = left.first(static_cast<std::size_t>(n_coded));
    left = left.subspan(coded.size());
    check_blocks(pinned, n_pool_block);
    check_blocks(coded, n_code_block);
    AttentionSpan& span = read.spans[i];
    span.pinned = pinned.data();
    span.codes = coded.data();
    span.n_coded = n_coded - n_new;
    span.n_new = n_new;
    check_age(span, s[0], read.n_block[i], aged);
  }
}

}  // namespace junto

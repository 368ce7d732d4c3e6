// SPDX-License-Identifier: Apache-2.0
//
// Which rows of a batch are whose, and where their keys and values lie: whole numbers from Python,
// checked before any kernel follows them. Whatever is wrong with them raises ValueError.
#pragma once

#include <cstdint>
#include <vector>

#include "bindings/bindings.h"
#include "kernels/attention.h"

namespace junto {

inline constexpr std::int64_t kPositions = 64;  // of a block

// One row a span: first row in the batch, number of rows, position of the first, first block of its
// table, number of blocks in it.
using Spans = nb::ndarray<const std::int32_t, nb::shape<-1, 5>, nb::c_contig, nb::device::cpu>;

// One row a span: pinned blocks, blocks with codes, and how many of those, at the end, are new.
using AgedSpans = nb::ndarray<const std::int32_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;

// Tables of blocks, one after the other.
using Blocks = Array<const std::int32_t, 1>;

// The spans of a batch, and how many blocks the table of each has. They point into the arrays that
// they were read from.
struct ReadSpans {
  std::vector<AttentionSpan> spans;
  std::vector<std::int64_t> n_block;

  std::int64_t n_row() const { return spans.empty() ? 0 : spans.back().row + spans.back().n_tok; }

  // Refuses tables that lack a block of what their rows see; window 0 sees all.
  void check_cover(std::int64_t window) const;
};

// Spans whose rows follow each other from 0, with blocks of a pool of n_pool_block.
ReadSpans read_spans(const Spans& spans, const Blocks& blocks, std::int64_t n_pool_block);

// Gives each span its pinned blocks and those with codes, and refuses tables that lack a block of
// what its rows see by age.
void let_age(ReadSpans& read,
             const AgedSpans& spans,
             const Blocks& blocks,
             const AgedPools& aged,
             std::int64_t n_pool_block,
             std::int64_t n_code_block);

}  // namespace junto

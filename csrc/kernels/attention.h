// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/threads.h"

namespace junto {

// The rows of a batch that belong to one sequence, and where its keys and values lie.
struct AttentionSpan {
  std::int64_t row, n_tok;  // first row in the batch, number of rows
  std::int64_t pos;         // position of the first row in its sequence
  std::int64_t first_block;
  const std::int32_t* blocks;  // pool index of the blocks first_block, first_block + 1, ...
  // Where blocks age: the pool index of the pinned ones; and of the codes of those behind them,
  // n_coded, which are written, and n_new, which attention writes.
  const std::int32_t* pinned = nullptr;
  const std::int32_t* codes = nullptr;
  std::int64_t n_coded = 0, n_new = 0;
};

// Codes of the blocks that have aged. A query in block B sees block b as codes if b >= n_pinned and
// B - b > n_recent, else in the pools of float16.
struct AgedPools {
  std::uint8_t* k_codes;  // [n_code_block, n_head_kv, head_dim, 64], two rows a byte if n_bit is 4
  std::uint8_t* v_codes;  // [n_code_block, n_head_kv, 64, head_dim]
  std::uint16_t* k_scales;  // float16 [n_code_block, n_head_kv, head_dim / 32, 64]
  std::uint16_t* v_scales;  // likewise
  int n_bit;                // of a code: 8 or 4
  std::int64_t n_pinned, n_recent;
};

struct AttentionParams {
  const float* q;  // [n_tok, n_head, head_dim]
  const float* k;  // [n_tok, n_head_kv, head_dim]
  const float* v;  // [n_tok, n_head_kv, head_dim]
  float* y;        // [n_tok, n_head, head_dim]
  void* k_pool;    // [n_pool_block, n_head_kv, head_dim, 64]: positions are lanes
  void* v_pool;    // [n_pool_block, n_head_kv, 64, head_dim]
  bool is_f16;     // the pools hold float16, else float32
  std::int64_t n_head, n_head_kv, head_dim;
  float scale;          // on q . k
  std::int64_t window;  // positions a query sees, itself included; 0 sees all
  const float* sinks;   // [n_head], or null
  const AttentionSpan* spans;
  std::int64_t n_span;
  const AgedPools* aged;  // or null; then the pools are float16 and window is 0
};

// Stores k and v in the pools, writes the codes of the blocks that are new among the aged, then
// attends causally, each span to its own sequence. Positions that were never written may hold
// anything. What a query gets depends on its own sequence and position
// alone, to the bit: not on the other rows and spans, nor on the number of threads.
JUNTO_DECLARE_SHARED(void attention(const AttentionParams& params, ThreadPool& pool);)

}  // namespace junto

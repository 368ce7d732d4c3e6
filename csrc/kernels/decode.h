// SPDX-License-Identifier: Apache-2.0
//
// Rows as a file stores them -> float32.
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/packed.h"
#include "kernels/threads.h"

namespace junto {

// y [n_row, n_in] from stored rows `row_stride` bytes apart; n_in is a multiple of the unit.
struct DecodeParams {
  const TypeInfo* info;
  const std::uint8_t* rows;
  std::int64_t row_stride;
  std::int64_t n_row, n_in;
  float* y;
};

JUNTO_DECLARE_SHARED(void decode_rows(const DecodeParams& params, ThreadPool& pool);)

}  // namespace junto

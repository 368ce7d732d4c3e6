// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/threads.h"

namespace junto {

// Limits of the machine, each taken once on all threads of a pool; results are rates a second.
//
// read_rate   bytes of one pass over n floats, which the pool's threads should have written
// dot_rate    8-bit multiplications and additions of the dot product that the level's kernels use
// fma_rate    float32 multiplications and additions
//
// The last two run `n_step` steps for each of `n_piece` pieces; a piece is the unit of sharing.
JUNTO_DECLARE(double read_rate(const float* data, std::int64_t n, ThreadPool& pool);
              double dot_rate(std::int64_t n_piece, std::int64_t n_step, ThreadPool& pool);
              double fma_rate(std::int64_t n_piece, std::int64_t n_step, ThreadPool& pool);)

}  // namespace junto

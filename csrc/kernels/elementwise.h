// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/levels.h"
#include "kernels/threads.h"

namespace junto {

// Rows of floats that may lie apart: row r begins r / n_inner * outer + r % n_inner * inner floats
// after `data`.
template <class T>
struct RowsOf {
  T* data;
  std::int64_t n_inner, outer, inner;
  T* row(std::int64_t r) const { return data + r / n_inner * outer + r % n_inner * inner; }
};

// The input and output of one op. An op reads what its formula names and ignores the rest; y may be
// x or `other`.
struct ElementwiseParams {
  std::int64_t n_row, n;  // n values in each row
  RowsOf<const float> x;
  RowsOf<const float> other;  // gate, or the second summand
  bool other_is_column;       // one value of `other` for each row
  const float* weight;        // [n]
  const float* bias;          // [n]
  RowsOf<float> y;
  float eps;
  float limit, alpha;  // of the clamped SwiGLU
};

// decay = ssm_a * softplus(alpha + ssm_dt), open = sigmoid(beta); [n_tok, n_head] and [n_head].
struct DeltaGatesParams {
  std::int64_t n_tok, n_head;
  const float *alpha, *beta, *ssm_a, *ssm_dt;
  float *decay, *open;
};

JUNTO_DECLARE_SHARED(void rms_norm(const ElementwiseParams& params, ThreadPool& pool);
                     void layer_norm(const ElementwiseParams& params, ThreadPool& pool);
                     void gated_rms_norm(const ElementwiseParams& params, ThreadPool& pool);
                     void sigmoid_gate(const ElementwiseParams& params, ThreadPool& pool);
                     void swiglu(const ElementwiseParams& params, ThreadPool& pool);
                     void clamped_swiglu(const ElementwiseParams& params, ThreadPool& pool);
                     void gelu(const ElementwiseParams& params, ThreadPool& pool);
                     void add(const ElementwiseParams& params, ThreadPool& pool);
                     void delta_gates(const DeltaGatesParams& params, ThreadPool& pool);)

}  // namespace junto

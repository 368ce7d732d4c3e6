// SPDX-License-Identifier: Apache-2.0
//
// The packed form of a weight matrix: groups of 16 rows, interleaved so that one 64-byte vector
// holds 4 k-values of each of 16 rows (layout of a vector: 16 rows x 4 bytes). A group is a run of
// units along k; a unit holds the codes of 16 rows, then their scales. Rows beyond n_out are zero.
//
// Codes of 32 k-values make eight vectors of bytes, vector j with k = 4j .. 4j+3. Their bits lie in
//
//   8 bits    8 vectors as they are
//   nibbles   4 vectors: vector v holds 2v in its low nibbles and 2v+1 in its high ones
//   pairs     2 vectors: bits 2p and 2p+1 of vector h belong to vector 4h+p
//   plane     1 vector: bit j belongs to vector j
//
//   type     unit  bytes  contents (16 rows)
//   Q8_0       32    544  8 bits, + 128; 16 x f16 scale
//   Q4_0       32    288  nibbles; 16 x f16 scale
//   Q4_1       32    320  nibbles; 16 x f16 scale; 16 x f16 minimum (added)
//   Q5_0       32    352  nibbles, plane; 16 x f16 scale
//   Q5_1       32    384  nibbles, plane; 16 x f16 scale; 16 x f16 minimum (added)
//   Q1_0      128    288  4 x plane; 16 x f16 scale
//   Q2_0       64    288  2 x pairs; 16 x f16 scale
//   MXFP4      32    272  nibbles of e2m1; 16 x e8m0 scale
//   NVFP4      64    576  2 x nibbles of e2m1; 4 x 16 e4m3 scales
//   Q2_K      256   1344  8 x pairs; 16 x f16 d, dmin; 16 x 16 bytes: scale, minimum on top
//   Q3_K      256   1824  8 x (pairs, plane); 16 x f16 d; 16 x 16 i8 scales
//   Q4_K      256   2368  8 x nibbles; 16 x f16 d, dmin; 8 x 16 u8 scales; 8 x 16 u8 minima
//   Q5_K      256   2880  8 x (nibbles, plane); then as Q4_K
//   Q6_K      256   3360  8 x (nibbles, pairs); 16 x f16 d; 16 x 16 i8 scales
//   TQ2_0     256   1056  8 x pairs; 16 x f16 scale
//   TQ1_0     256    864  13 vectors of five digits of base 3, see pack_legacy.cpp; f16 scale
//   IQ4_NL     32    288  nibbles; 16 x f16 scale
//   IQ4_XS    256   2208  8 x nibbles; 16 x f16 d; 8 x 16 i8 scales
//   IQ1, IQ2, IQ3         entries of a codebook, see pack_iq.cpp; as many bytes as in a file
//   F32, F16, BF16        one k-value of 16 rows after the other
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/memory.h"
#include "kernels/threads.h"

namespace junto {

enum class Type {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ1_0,
  kQ2_0,
  kMXFP4,
  kNVFP4,
  kTQ1_0,
  kTQ2_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
};

inline constexpr int kRows = 16;   // rows of a group
inline constexpr int kBlock = 32;  // k-values that share an activation scale

// How a type is packed, and how its rows are stored in a file.
struct TypeInfo {
  std::string_view name;
  Type type;
  int unit;          // k-values of a unit
  int unit_bytes;    // packed bytes of a unit of 16 rows
  int stored_bytes;  // bytes of `unit` k-values of one row in a file
  bool is_float;     // float activations; otherwise int8 with a scale per 32
};

// The row of the table above, or nullptr.
const TypeInfo* find_type(std::string_view name);

// Names of all types, in the order of the table in pack.cpp.
std::vector<std::string_view> type_names();

// A matrix [n_out, n_in], or a stack of them [n_expert, n_out, n_in], in packed form.
class PackedMatrix {
 public:
  // Fresh memory, to be filled; or, with `data`, a packed form that lies elsewhere and outlives
  // this.
  PackedMatrix(const TypeInfo& info,
               std::int64_t n_expert,
               std::int64_t n_out,
               std::int64_t n_in,
               const std::uint8_t* data = nullptr);

  const TypeInfo& info() const { return info_; }
  std::int64_t n_expert() const { return n_expert_; }
  std::int64_t n_out() const { return n_out_; }
  std::int64_t n_in() const { return n_in_; }
  std::int64_t n_group() const { return (n_out_ + kRows - 1) / kRows; }
  std::int64_t n_unit() const { return (n_in_ + info_.unit - 1) / info_.unit; }
  std::size_t group_bytes() const {
    return static_cast<std::size_t>(n_unit()) * static_cast<std::size_t>(info_.unit_bytes);
  }
  std::size_t n_bytes() const { return n_bytes(info_, n_expert_, n_out_, n_in_); }
  static std::size_t n_bytes(const TypeInfo& info,
                             std::int64_t n_expert,
                             std::int64_t n_out,
                             std::int64_t n_in) {
    const std::int64_t groups = n_expert * ((n_out + kRows - 1) / kRows);
    return static_cast<std::size_t>(groups * ((n_in + info.unit - 1) / info.unit) *
                                    info.unit_bytes);
  }
  const std::uint8_t* group(std::int64_t expert, std::int64_t g) const {
    return data_ + static_cast<std::size_t>(expert * n_group() + g) * group_bytes();
  }

  const std::uint8_t* data() const { return data_; }
  bool is_borrowed() const { return !memory_; }

  // Packs one expert's rows; not for borrowed data. Row r begins at rows + r * row_stride (bytes).
  void fill(std::int64_t expert,
            const std::uint8_t* rows,
            std::int64_t row_stride,
            ThreadPool& pool);

 private:
  void pack_group(const std::uint8_t* rows,
                  std::int64_t row_stride,
                  std::int64_t g,
                  std::uint8_t* to) const;

  TypeInfo info_;
  std::int64_t n_expert_, n_out_, n_in_;
  Memory memory_;
  const std::uint8_t* data_;
};

}  // namespace junto

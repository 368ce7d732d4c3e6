// SPDX-License-Identifier: Apache-2.0
//
// The packed form of a weight matrix: groups of 16 rows, interleaved so that one 64-byte vector
// holds 4 k-values of each of 16 rows (layout of a vector: 16 rows x 4 bytes). A group is a run of
// units along k; a unit holds the codes of 16 rows, then their scales. Rows beyond n_out are zero.
//
//   codes of 32 k-values    8 bits: 8 vectors, vector j holds k = 4j .. 4j+3
//                           4 bits: 4 vectors, vector v holds k = 8v .. 8v+3 in its low nibbles and
//                                   k = 8v+4 .. 8v+7 in its high nibbles
//                           6 bits: the 4 vectors of 4 bits, then 2 vectors of high bits; vector h,
//                                   bits 2p and 2p+1 belong to vector 4h+p of the 8-bit form
//
//   type    unit  bytes  contents (16 rows)
//   Q8_0      32    544  codes + 128; 16 x f16 scale
//   Q4_0      32    288  codes; 16 x f16 scale
//   Q4_1      32    320  codes; 16 x f16 scale; 16 x f16 minimum (added)
//   MXFP4     32    272  codes of e2m1; 16 x e8m0 scale
//   Q4_K     256   2368  8 x codes; 16 x f16 d; 16 x f16 dmin; 8 x 16 u8 scales; 8 x 16 u8 minima
//   Q6_K     256   3360  8 x codes; 16 x f16 d; 16 x 16 i8 scales
//   F32, F16, BF16       one k-value of 16 rows after the other
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/memory.h"
#include "kernels/threads.h"

namespace junto {

enum class Type { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ4_1, kQ4_K, kQ6_K, kMXFP4 };

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

// Where a packed matrix begins in an open file.
struct FileRange {
  int descriptor;
  std::int64_t offset;
};

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

  // The same into a file that will be mapped, past this process's own memory; 0, or errno.
  int write(std::int64_t expert,
            const std::uint8_t* rows,
            std::int64_t row_stride,
            const FileRange& file,
            ThreadPool& pool) const;

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

// SPDX-License-Identifier: Apache-2.0
//
// From the blocks of a GGUF to the packed form of packed.h. Codes are spread out to one byte a
// value for 16 rows and 32 k-values, then laid into vectors; scales move as they are.

#include <algorithm>

#include "kernels/pack_group.h"
#include "kernels/pack_rows.h"

namespace junto {

namespace {

template <std::size_t n_byte>
void pack_float(u8* to, const Blocks& blocks) {
  put_field(to, blocks, 0, n_byte);
}

struct Row {
  TypeInfo info;
  Pack* pack;
};

constexpr Row kTypes[] = {
    {{"F32", Type::kF32, 1, 64, 4, true}, pack_float<4>},
    {{"F16", Type::kF16, 1, 32, 2, true}, pack_float<2>},
    {{"BF16", Type::kBF16, 1, 32, 2, true}, pack_float<2>},
    {{"Q8_0", Type::kQ8_0, 32, 544, 34, false}, pack_q8_0},
    {{"Q4_0", Type::kQ4_0, 32, 288, 18, false}, pack_q4_0},
    {{"Q4_1", Type::kQ4_1, 32, 320, 20, false}, pack_q4_1},
    {{"Q5_0", Type::kQ5_0, 32, 352, 22, false}, pack_q5_0},
    {{"Q5_1", Type::kQ5_1, 32, 384, 24, false}, pack_q5_1},
    {{"Q1_0", Type::kQ1_0, 128, 288, 18, false}, pack_q1_0},
    {{"Q2_0", Type::kQ2_0, 64, 288, 18, false}, pack_q2_0},
    {{"MXFP4", Type::kMXFP4, 32, 272, 17, false}, pack_mxfp4},
    {{"MXFP4_PAIRS", Type::kMXFP4, 32, 272, 17, false}, pack_mxfp4_pairs},
    {{"NVFP4", Type::kNVFP4, 64, 576, 36, false}, pack_nvfp4},
    {{"TQ1_0", Type::kTQ1_0, 256, 864, 54, false}, pack_tq1_0},
    {{"TQ2_0", Type::kTQ2_0, 256, 1056, 66, false}, pack_tq2_0},
    {{"Q2_K", Type::kQ2_K, 256, 1344, 84, false}, pack_q2_k},
    {{"Q3_K", Type::kQ3_K, 256, 1824, 110, false}, pack_q3_k},
    {{"Q4_K", Type::kQ4_K, 256, 2368, 144, false}, pack_q4_k},
    {{"Q5_K", Type::kQ5_K, 256, 2880, 176, false}, pack_q5_k},
    {{"Q6_K", Type::kQ6_K, 256, 3360, 210, false}, pack_q6_k},
    {{"IQ4_NL", Type::kIQ4_NL, 32, 288, 18, false}, pack_q4_0},
    {{"IQ4_XS", Type::kIQ4_XS, 256, 2208, 136, false}, pack_iq4_xs},
    {{"IQ1_S", Type::kIQ1_S, 256, 800, 50, false}, pack_iq1_s},
    {{"IQ1_M", Type::kIQ1_M, 256, 896, 56, false}, pack_iq1_m},
    {{"IQ2_XXS", Type::kIQ2_XXS, 256, 1056, 66, false}, pack_iq2_xxs},
    {{"IQ2_XS", Type::kIQ2_XS, 256, 1184, 74, false}, pack_iq2_xs},
    {{"IQ2_S", Type::kIQ2_S, 256, 1312, 82, false}, pack_iq2_s},
    {{"IQ3_XXS", Type::kIQ3_XXS, 256, 1568, 98, false}, pack_iq3_xxs},
    {{"IQ3_S", Type::kIQ3_S, 256, 1760, 110, false}, pack_iq3_s},
};

const Row* find_row(std::string_view name) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [name](const Row& row) {
    return row.info.name == name;
  });
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

const TypeInfo* find_type(std::string_view name) {
  const Row* const row = find_row(name);
  return row == nullptr ? nullptr : &row->info;
}

std::vector<std::string_view> type_names() {
  std::vector<std::string_view> names;
  for (const Row& row : kTypes) names.push_back(row.info.name);
  return names;
}

PackedMatrix::PackedMatrix(const TypeInfo& info,
                           std::int64_t n_expert,
                           std::int64_t n_out,
                           std::int64_t n_in,
                           const std::uint8_t* data)
    : info_(info),
      n_expert_(n_expert),
      n_out_(n_out),
      n_in_(n_in),
      memory_(data == nullptr ? allocate(n_bytes()) : Memory()),
      data_(data == nullptr ? memory_.get() : data) {}

void pack_group(const TypeInfo& info,
                const StoredRows& rows,
                std::int64_t units,
                std::uint8_t* to) {
  Pack* const pack = find_row(info.name)->pack;
  Blocks blocks{};
  for (int r = 0; r < rows.n; ++r)
    blocks[static_cast<std::size_t>(r)] = rows.first + r * rows.stride;
  for (std::int64_t unit = 0; unit < units; ++unit) {
    pack(to, blocks);
    to += info.unit_bytes;
    for (const std::uint8_t*& block : blocks)
      if (block != nullptr) block += info.stored_bytes;
  }
}

void PackedMatrix::pack_group(const std::uint8_t* rows,
                              std::int64_t row_stride,
                              std::int64_t g,
                              std::uint8_t* to) const {
  const int n = static_cast<int>(std::min<std::int64_t>(kRows, n_out_ - g * kRows));
  junto::pack_group(info_, {rows + g * kRows * row_stride, row_stride, n}, n_unit(), to);
}

void PackedMatrix::fill(std::int64_t expert,
                        const std::uint8_t* rows,
                        std::int64_t row_stride,
                        ThreadPool& pool) {
  std::uint8_t* const first_group = memory_.get() + (group(expert, 0) - data_);
  pool.loop(n_group(), 1, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t g = first; g < last; ++g)
      pack_group(rows, row_stride, g, first_group + static_cast<std::size_t>(g) * group_bytes());
  });
}

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0

#include "kernels/grids.h"

namespace junto {

namespace {

// quant_grids.bin as bytes; CMake writes the list.
constexpr std::uint8_t kFile[] = {
#include "quant_grids.inc"
};
static_assert(sizeof kFile == 9216);

constexpr unsigned entry(std::size_t i) {
  return kFile[2 * i] | static_cast<unsigned>(kFile[2 * i + 1]) << 8;
}

// Four codes of n_bit bits, from bit 0 of `codes` on, as the bytes they stand for.
template <std::size_t n_value>
constexpr std::int32_t four_values(unsigned codes,
                                   unsigned n_bit,
                                   const std::array<unsigned, n_value>& values) {
  unsigned word = 0;
  for (unsigned b = 0; b < 4; ++b)
    word |= values[(codes >> (n_bit * b)) & ((1u << n_bit) - 1)] << (8 * b);
  return static_cast<std::int32_t>(word);
}

template <std::size_t n>
constexpr Grid8<n> eights(std::size_t start, const std::array<unsigned, 4>& values) {
  Grid8<n> grid{};
  for (std::size_t i = 0; i < n; ++i) {
    grid.words[i] = four_values(entry(start + i), 2, values);
    grid.words[n + i] = four_values(entry(start + i) >> 8, 2, values);
  }
  return grid;
}

template <std::size_t n>
constexpr std::array<std::int32_t, n> fours(std::size_t start,
                                            const std::array<unsigned, 16>& values) {
  std::array<std::int32_t, n> grid{};
  for (std::size_t i = 0; i < n; ++i) grid[i] = four_values(entry(start + i), 4, values);
  return grid;
}

constexpr std::array<unsigned, 4> kTwoBits = {8, 25, 43, 0};

}  // namespace

constexpr Grid8<256> kGridIQ2_XXS = eights<256>(0, kTwoBits);
constexpr Grid8<512> kGridIQ2_XS = eights<512>(256, kTwoBits);
constexpr Grid8<1024> kGridIQ2_S = eights<1024>(768, kTwoBits);
constexpr std::array<std::int32_t, 256> kGridIQ3_XXS =
    fours<256>(1792, {4, 12, 20, 28, 36, 44, 52, 62});
constexpr std::array<std::int32_t, 512> kGridIQ3_S = fours<512>(2048, {1, 3, 5, 7, 9, 11, 13, 15});
constexpr Grid8<2048> kGridIQ1 = eights<2048>(2560, {0, 8, 16, 0});

}  // namespace junto

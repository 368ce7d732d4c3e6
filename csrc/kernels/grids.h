// SPDX-License-Identifier: Apache-2.0
//
// The codebooks of the i-quants as kernels read them: words of four bytes, for a gather by entry.
// The data is src/junto/formats/quant_grids.bin, which has the layout and the source.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace junto {

// Entries of eight values: words 0 .. n - 1 hold the first four values, n .. 2n - 1 the others.
template <std::size_t n>
struct Grid8 {
  std::array<std::int32_t, 2 * n> words;
  const std::int32_t* first() const { return words.data(); }
  const std::int32_t* second() const { return words.data() + n; }
};

extern const Grid8<256> kGridIQ2_XXS;  // 8, 25 or 43
extern const Grid8<512> kGridIQ2_XS;
extern const Grid8<1024> kGridIQ2_S;
extern const Grid8<2048> kGridIQ1;                        // 0, 8 or 16: eight times (value + 1)
extern const std::array<std::int32_t, 256> kGridIQ3_XXS;  // 4, 12, .. 52 or 62
extern const std::array<std::int32_t, 512> kGridIQ3_S;    // 1, 3, .. 15

}  // namespace junto

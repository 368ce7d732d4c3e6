// SPDX-License-Identifier: Apache-2.0
//
// Tile products of the types that name entries of a codebook.

#include "kernels/codecs_iq.h"
#include "kernels/tile_product.h"

namespace junto::JUNTO_ISA {

TileKernel iq_kernel(Type type) {
  switch (type) {
    case Type::kIQ1_S:
      return quantised<IQ1_S>;
    case Type::kIQ1_M:
      return quantised<IQ1_M>;
    case Type::kIQ2_XXS:
      return quantised<IQ2_XXS>;
    case Type::kIQ2_XS:
      return quantised<IQ2_XS>;
    case Type::kIQ2_S:
      return quantised<IQ2_S>;
    case Type::kIQ3_XXS:
      return quantised<IQ3_XXS>;
    case Type::kIQ3_S:
      return quantised<IQ3_S>;
    default:
      return nullptr;
  }
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// Tile products of the types that name entries of a codebook.

#include "kernels/codecs_iq.h"
#include "kernels/tile_product.h"

namespace junto::JUNTO_ISA {

TileProduct iq_product(Type type) {
  switch (type) {
    case Type::kIQ1_S:
      return product_of<IQ1_S>();
    case Type::kIQ1_M:
      return product_of<IQ1_M>();
    case Type::kIQ2_XXS:
      return product_of<IQ2_XXS>();
    case Type::kIQ2_XS:
      return product_of<IQ2_XS>();
    case Type::kIQ2_S:
      return product_of<IQ2_S>();
    case Type::kIQ3_XXS:
      return product_of<IQ3_XXS>();
    case Type::kIQ3_S:
      return product_of<IQ3_S>();
    default:
      return {};
  }
}

}  // namespace junto::JUNTO_ISA

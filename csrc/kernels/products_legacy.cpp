// SPDX-License-Identifier: Apache-2.0
//
// Tile products of the types with one scale a block.

#include "kernels/tile_product.h"

namespace junto::JUNTO_ISA {

TileProduct legacy_product(Type type) {
  switch (type) {
    case Type::kQ8_0:
      return product_of<Q8_0>();
    case Type::kQ4_0:
      return product_of<Q4_0>();
    case Type::kQ4_1:
      return product_of<Q4_1>();
    case Type::kQ5_0:
      return product_of<Q5_0>();
    case Type::kQ5_1:
      return product_of<Q5_1>();
    case Type::kQ1_0:
      return product_of<Q1_0>();
    case Type::kQ2_0:
      return product_of<Q2_0>();
    case Type::kMXFP4:
      return product_of<MXFP4>();
    case Type::kNVFP4:
      return product_of<NVFP4>();
    case Type::kTQ1_0:
      return product_of<TQ1_0>();
    case Type::kTQ2_0:
      return product_of<TQ2_0>();
    case Type::kIQ4_NL:
      return product_of<IQ4_NL>();
    default:
      return {};
  }
}

}  // namespace junto::JUNTO_ISA

// SPDX-License-Identifier: Apache-2.0
//
// Tile products of K-quants and of IQ4_XS.

#include "kernels/codecs_k.h"
#include "kernels/tile_product.h"

namespace junto::JUNTO_ISA {

TileProduct k_product(Type type) {
  switch (type) {
    case Type::kQ2_K:
      return product_of<Q2_K>();
    case Type::kQ3_K:
      return product_of<Q3_K>();
    case Type::kQ4_K:
      return product_of<Q4_K>();
    case Type::kQ5_K:
      return product_of<Q5_K>();
    case Type::kQ6_K:
      return product_of<Q6_K>();
    case Type::kIQ4_XS:
      return product_of<IQ4_XS>();
    default:
      return {};
  }
}

}  // namespace junto::JUNTO_ISA

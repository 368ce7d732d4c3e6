// SPDX-License-Identifier: Apache-2.0
//
// Tile products of K-quants and of IQ4_XS.

#include "kernels/codecs_k.h"
#include "kernels/tile_product.h"

namespace junto::JUNTO_ISA {

TileKernel k_kernel(Type type) {
  switch (type) {
    case Type::kQ2_K:
      return quantised<Q2_K>;
    case Type::kQ3_K:
      return quantised<Q3_K>;
    case Type::kQ4_K:
      return quantised<Q4_K>;
    case Type::kQ5_K:
      return quantised<Q5_K>;
    case Type::kQ6_K:
      return quantised<Q6_K>;
    case Type::kIQ4_XS:
      return quantised<IQ4_XS>;
    default:
      return nullptr;
  }
}

}  // namespace junto::JUNTO_ISA

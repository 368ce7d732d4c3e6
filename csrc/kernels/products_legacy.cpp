// SPDX-License-Identifier: Apache-2.0
//
// Tile products of the types with one scale a block.

#include "kernels/tile_product.h"

namespace junto::JUNTO_ISA {

TileKernel legacy_kernel(Type type) {
  switch (type) {
    case Type::kQ8_0:
      return quantised<Q8_0>;
    case Type::kQ4_0:
      return quantised<Q4_0>;
    case Type::kQ4_1:
      return quantised<Q4_1>;
    case Type::kQ5_0:
      return quantised<Q5_0>;
    case Type::kQ5_1:
      return quantised<Q5_1>;
    case Type::kQ1_0:
      return quantised<Q1_0>;
    case Type::kQ2_0:
      return quantised<Q2_0>;
    case Type::kMXFP4:
      return quantised<MXFP4>;
    case Type::kNVFP4:
      return quantised<NVFP4>;
    case Type::kTQ1_0:
      return quantised<TQ1_0>;
    case Type::kTQ2_0:
      return quantised<TQ2_0>;
    case Type::kIQ4_NL:
      return quantised<IQ4_NL>;
    default:
      return nullptr;
  }
}

}  // namespace junto::JUNTO_ISA

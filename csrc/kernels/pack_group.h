// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/packed.h"

namespace junto {

// Up to 16 rows as a file stores them, `stride` bytes apart.
struct StoredRows {
  const std::uint8_t* first;
  std::int64_t stride;
  int n;
};

// Packs one group of `units` units, as packed.h lays it out; rows beyond `rows.n` become zero.
void pack_group(const TypeInfo& info, const StoredRows& rows, std::int64_t units, std::uint8_t* to);

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace junto {

struct FreeMemory {
  void operator()(std::uint8_t* p) const;
};

// Bytes aligned to 64, not initialised.
using Memory = std::unique_ptr<std::uint8_t, FreeMemory>;

// Throws std::bad_alloc. Large pieces ask for huge pages: the first writes of a page cost more than
// what is written, and a stream of weights misses the address cache on small ones. They are spread
// over the memory nodes of the process.
Memory allocate(std::size_t n);

}  // namespace junto

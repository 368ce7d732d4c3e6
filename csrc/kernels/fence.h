// SPDX-License-Identifier: Apache-2.0
//
// For memory that is larger than what was asked for: where the address sanitizer looks on, touching
// what lies beyond is an error. Elsewhere this is nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace junto {

// Of [p, p + size), only the first n bytes may be touched from now on.
inline void fence(std::uint8_t* p, std::size_t n, std::size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(p, n);
  ASAN_POISON_MEMORY_REGION(p + n, size - n);
#else
  (void)p, (void)n, (void)size;
#endif
}

}  // namespace junto

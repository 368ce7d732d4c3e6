// SPDX-License-Identifier: Apache-2.0
//
// Kernels exist once for each instruction set. A level is chosen once, by name, and then passed on.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace junto {

enum class Level { kPortable, kAvx2, kAvx512 };

// Levels that this processor and operating system can run, best first.
const std::vector<std::string_view>& available_levels();

// Every level of this build, best first, with the features (cpu_features.h) that it needs.
std::vector<std::pair<std::string_view, std::vector<std::string_view>>> level_needs();

// The level of a name in `available_levels()`; throws std::invalid_argument for any other.
Level find_level(std::string_view name);

// The copy of a kernel for a level. The arguments are the copies' addresses, best first.
template <class F>
F* choose(Level level, F* avx512, F* avx2, F* portable) {
  switch (level) {
    case Level::kAvx512:
      return avx512;
    case Level::kAvx2:
      return avx2;
    case Level::kPortable:
      break;
  }
  return portable;
}

#if defined(__x86_64__)
#define JUNTO_CHOOSE(level, kernel) \
  ::junto::choose(                  \
      level, &::junto::avx512::kernel, &::junto::avx2::kernel, &::junto::portable::kernel)
#else
#define JUNTO_CHOOSE(level, kernel) (&::junto::portable::kernel)
#endif

}  // namespace junto

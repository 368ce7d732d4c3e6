// SPDX-License-Identifier: Apache-2.0
//
// Kernels exist once for each instruction set. A level is chosen once, by name, and then passed on.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace junto {

// Hands each level of this build, narrow before wide, to a macro.
#if defined(__x86_64__)
#define JUNTO_LEVELS(with, ...)                                                  \
  with(portable, __VA_ARGS__) with(avx2, __VA_ARGS__) with(avxvnni, __VA_ARGS__) \
      with(avx512, __VA_ARGS__)
#define JUNTO_COMPLETE_LEVELS(with, ...) \
  with(portable, __VA_ARGS__) with(avx2, __VA_ARGS__) with(avx512, __VA_ARGS__)
// AVX-VNNI adds products of bytes to AVX2, as i8mm does to NEON, so whatever has none is there once
// for both.
namespace avx2 {}
namespace avxvnni {
using namespace avx2;
}
#elif defined(__aarch64__)
#define JUNTO_LEVELS(with, ...) \
  with(portable, __VA_ARGS__) with(neon, __VA_ARGS__) with(i8mm, __VA_ARGS__)
#define JUNTO_COMPLETE_LEVELS(with, ...) with(portable, __VA_ARGS__) with(neon, __VA_ARGS__)
namespace neon {}
namespace i8mm {
using namespace neon;
}
#else
#define JUNTO_LEVELS(with, ...) with(portable, __VA_ARGS__)
#define JUNTO_COMPLETE_LEVELS JUNTO_LEVELS
#endif

#define JUNTO_IN_NAMESPACE(level, ...) \
  namespace level {                    \
  __VA_ARGS__                          \
  }
// Declares functions that each level has: those that multiply bytes, or call what does.
#define JUNTO_DECLARE(...) JUNTO_LEVELS(JUNTO_IN_NAMESPACE, __VA_ARGS__)
// Declares all others.
#define JUNTO_DECLARE_SHARED(...) JUNTO_COMPLETE_LEVELS(JUNTO_IN_NAMESPACE, __VA_ARGS__)

#define JUNTO_ENUMERATOR(level, ...) level,
enum class Level { JUNTO_LEVELS(JUNTO_ENUMERATOR) };
#undef JUNTO_ENUMERATOR

// Levels that this processor and operating system can run, best first.
const std::vector<std::string_view>& available_levels();

// Every level of this build, best first, with the features (cpu_features.h) that it needs.
std::vector<std::pair<std::string_view, std::vector<std::string_view>>> level_needs();

// The level of a name in `available_levels()`; throws std::invalid_argument for any other.
Level find_level(std::string_view name);

// The copy of a kernel for a level; the copies come in the order of the levels.
template <class F>
F* choose(Level level, std::initializer_list<F*> copies) {
  return copies.begin()[static_cast<std::size_t>(level)];
}
#define JUNTO_ADDRESS(level, kernel) &::junto::level::kernel,
#define JUNTO_CHOOSE(level, kernel) ::junto::choose(level, {JUNTO_LEVELS(JUNTO_ADDRESS, kernel)})

}  // namespace junto

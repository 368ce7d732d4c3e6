// SPDX-License-Identifier: Apache-2.0
//
// Fetching ahead. As instructions of their own: to GCC 12 its builtin has no effect, so it drops
// functions and loops that do nothing else.
#pragma once

namespace junto::JUNTO_ISA {

// Into the first-level cache.
inline void prefetch(const void* p) {
#if defined(__aarch64__)
  __asm__ volatile("prfm pldl1keep, [%0]" : : "r"(p));
#else
  __asm__ volatile("prefetcht0 (%0)" : : "r"(p));
#endif
}

// Into the second-level cache: it has more misses under way than the first.
inline void prefetch_far(const void* p) {
#if defined(__aarch64__)
  __asm__ volatile("prfm pldl2keep, [%0]" : : "r"(p));
#else
  __asm__ volatile("prefetcht1 (%0)" : : "r"(p));
#endif
}

}  // namespace junto::JUNTO_ISA

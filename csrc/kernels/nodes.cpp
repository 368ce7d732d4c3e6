// SPDX-License-Identifier: Apache-2.0
//
// By system calls, since libnuma would be a dependency for two of them. Source of the numbers: the
// Linux manual pages set_mempolicy(2), get_mempolicy(2) and mbind(2).

#include "kernels/nodes.h"

#include <array>
#include <bit>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace junto {

#if defined(__linux__) && defined(SYS_mbind) && defined(SYS_get_mempolicy)

namespace {

constexpr long kDefault = 0, kInterleave = 3, kAllowed = 4;
constexpr std::size_t kNodes = 1024;
using Nodes = std::array<unsigned long, kNodes / (8 * sizeof(unsigned long))>;

}  // namespace

int spread_over_nodes(void* data, std::size_t n) {
  int policy = 0;
  if (syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) != 0) return 0;
  if (policy != kDefault) return 0;
  Nodes nodes{};
  if (syscall(SYS_get_mempolicy, nullptr, nodes.data(), kNodes, nullptr, kAllowed) != 0) return 0;
  int n_node = 0;
  for (const unsigned long word : nodes) n_node += std::popcount(word);
  if (n_node < 2) return 0;
  // The kernel reads one bit less than it is told.
  const long failed = syscall(SYS_mbind, data, n, kInterleave, nodes.data(), kNodes + 1, 0UL);
  return failed == 0 ? n_node : 0;
}

#else

int spread_over_nodes(void*, std::size_t) { return 0; }

#endif

}  // namespace junto

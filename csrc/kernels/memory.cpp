// SPDX-License-Identifier: Apache-2.0

#include "kernels/memory.h"

#include <cstdlib>
#include <new>

#include "kernels/fence.h"
#include "kernels/nodes.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace junto {

namespace {

constexpr std::size_t kLine = 64, kHugePage = std::size_t{2} << 20;

}  // namespace

void FreeMemory::operator()(std::uint8_t* p) const { std::free(p); }

Memory allocate(std::size_t n) {
  const std::size_t unit = n >= kHugePage ? kHugePage : kLine;
  const std::size_t size = (n + unit - 1) / unit * unit;
  Memory memory(static_cast<std::uint8_t*>(std::aligned_alloc(unit, size == 0 ? unit : size)));
  if (!memory) throw std::bad_alloc();
#if defined(__linux__)
  // Advice only: where it is refused, small pages serve.
  if (unit == kHugePage) (void)madvise(memory.get(), size, MADV_HUGEPAGE);
#endif
  if (unit == kHugePage) spread_over_nodes(memory.get(), size);
  fence(memory.get(), n, size);
  return memory;
}

}  // namespace junto

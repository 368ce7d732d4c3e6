// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace junto {

// Spreads pages that nobody has written yet over all memory nodes of the process, in turn, so that
// threads of every node read them equally fast. `data` is aligned to a page. Gives the number of
// nodes it spreads over: 0 where there is one, where the process was started with a policy of its
// own (numactl), or where the system cannot.
int spread_over_nodes(void* data, std::size_t n);

}  // namespace junto

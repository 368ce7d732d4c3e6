// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

namespace junto {

// The instruction sets beyond the baseline that this process may use, in a fixed order.
// A name is there only if the CPU has the instructions and the operating system saves
// the registers they need. Empty on architectures that have no kernels of their own.
std::vector<std::string_view> cpu_features();

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/threads.h"

namespace junto {

// A number that changes with any byte of [data, data + n) and with their order. It finds damage,
// not malice. The same on every machine of one byte order and for any number of threads.
std::uint64_t checksum(const std::uint8_t* data, std::int64_t n, ThreadPool& pool);

}  // namespace junto

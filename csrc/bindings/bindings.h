// SPDX-License-Identifier: Apache-2.0
//
// What the files of bindings/ share: array types and checks. Only they know Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/levels.h"
#include "kernels/threads.h"

namespace nb = nanobind;

namespace junto {

template <class T, int N>
using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

// Raises ValueError where two sizes that must agree do not.
inline void check_equal(
    const char* where, const char* a, std::int64_t n_a, const char* b, std::int64_t n_b) {
  if (n_a != n_b)
    throw std::invalid_argument(std::string(where) + ": " + a + " is " + std::to_string(n_a) +
                                ", " + b + " is " + std::to_string(n_b) + "; they must be equal");
}

template <class A>
std::int64_t size(const A& array, std::size_t axis) {
  return static_cast<std::int64_t>(array.shape(axis));
}

void bind_attention(nb::module_& m);
void bind_decode(nb::module_& m);
void bind_delta_rule(nb::module_& m);
void bind_elementwise(nb::module_& m);
void bind_matmul(nb::module_& m);
void bind_peaks(nb::module_& m);
void bind_plan(nb::module_& m);
void bind_quantize(nb::module_& m);
void bind_route(nb::module_& m);
void bind_sampling(nb::module_& m);

}  // namespace junto

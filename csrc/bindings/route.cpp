// SPDX-License-Identifier: Apache-2.0
//
// Routing for Python.

#include "kernels/route.h"

#include "bindings/plan.h"

namespace junto {

namespace {

void run_route(ThreadPool& pool,
               const Array<const float, 2>& logits,
               bool over_all,
               float scale,
               const Array<std::int64_t, 2>& ids,
               const Array<float, 2>& weights) {
  check_equal("route", "rows of expert_ids", size(ids, 0), "rows of logits", size(logits, 0));
  check_equal("route", "rows of weights", size(weights, 0), "rows of logits", size(logits, 0));
  check_equal("route", "columns of weights", size(weights, 1), "of expert_ids", size(ids, 1));
  if (size(ids, 1) < 1 || size(ids, 1) > size(logits, 1))
    throw std::invalid_argument("route: " + std::to_string(size(ids, 1)) + " experts used of " +
                                std::to_string(size(logits, 1)));
  const RouteParams params{logits.data(),
                           size(logits, 0),
                           size(logits, 1),
                           size(ids, 1),
                           over_all,
                           scale,
                           ids.data(),
                           weights.data()};
  route(params, pool);
}

}  // namespace

void bind_route(nb::module_& m) {
  m.def("route",
        &Launch<&run_route>::call,
        nb::arg("pool"),
        nb::arg("logits").noconvert(),
        nb::arg("over_all"),
        nb::arg("scale"),
        nb::arg("expert_ids").noconvert(),
        nb::arg("weights").noconvert(),
        "Choose the largest logits of each row, and their weights.");
}

}  // namespace junto

// SPDX-License-Identifier: Apache-2.0
//
// Plans for Python, and what NumPy does between ops as calls that can be recorded.

#include "bindings/plan.h"

#include <nanobind/stl/string_view.h>

#include <algorithm>

#include "kernels/arrays.h"

namespace junto {

namespace {

// Plans that record; the interpreter's lock guards it.
std::vector<Plan*>& recording() {
  static std::vector<Plan*> plans;
  return plans;
}

using In = nb::ndarray<const float, nb::device::cpu>;
using Whole = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Out = nb::ndarray<float, nb::c_contig, nb::device::cpu>;

template <class A>
void check_shape(const char* where, const A& x, const Out& y) {
  check_equal(where,
              "axes of an array",
              static_cast<std::int64_t>(x.ndim()),
              "of y",
              static_cast<std::int64_t>(y.ndim()));
  for (std::size_t axis = 0; axis < y.ndim(); ++axis)
    check_equal(where, "an axis of an array", size(x, axis), "of y", size(y, axis));
}

void run_copy(ThreadPool&, const In& x, const Out& y) {
  check_shape("copy", x, y);
  CopyParams p{x.data(), {}, {}, y.data()};
  if (x.ndim() > p.shape.size())
    throw std::invalid_argument("copy: " + std::to_string(x.ndim()) + " axes, expected at most " +
                                std::to_string(p.shape.size()));
  const std::size_t missing = p.shape.size() - x.ndim();
  for (std::size_t axis = 0; axis < p.shape.size(); ++axis) {
    p.shape[axis] = axis < missing ? 1 : size(x, axis - missing);
    p.stride[axis] = axis < missing ? 0 : x.stride(axis - missing);
  }
  copy(p);
}

void run_plain_sum(ThreadPool&, const Whole& a, const Whole& b, const Out& y) {
  check_shape("plain_sum", a, y);
  check_shape("plain_sum", b, y);
  plain_sum(a.data(), b.data(), static_cast<std::int64_t>(y.size()), y.data());
}

}  // namespace

void Plan::record() {
  if (recording_on(pool_) != nullptr)
    throw std::invalid_argument("Plan: another plan records what this pool does");
  recording().push_back(this);
}

void Plan::stop() { std::erase(recording(), this); }

Plan* Plan::recording_on(const ThreadPool& pool) {
  for (Plan* plan : recording())
    if (&plan->pool_ == &pool) return plan;
  return nullptr;
}

void Plan::run() const {
  if (recording_on(pool_) == this) throw std::invalid_argument("Plan: it records, and cannot run");
  const nb::gil_scoped_release release;
  for (const std::function<void()>& call : calls_) call();
}

void bind_plan(nb::module_& m) {
  nb::class_<Plan>(m, "Plan", "The kernel calls of a step, recorded, to be run again.")
      .def(nb::init<ThreadPool&>(), nb::arg("pool"), nb::keep_alive<1, 2>())
      .def("__len__", &Plan::size)
      .def("record", &Plan::record, "Add all calls on the pool, from now on.")
      .def("stop", &Plan::stop, "Add no more.")
      .def("run",
           &Plan::run,
           "Repeat all calls, on the arrays that they were given.\n\n"
           "Arrays may hold other values than before; they are checked as in the first call.");
  m.def("copy",
        &Launch<&run_copy>::call,
        nb::arg("pool"),
        nb::arg("x").noconvert(),
        nb::arg("y").noconvert(),
        "Copy x of up to four axes and any strides to y, which is contiguous.");
  m.def("plain_sum",
        &Launch<&run_plain_sum>::call,
        nb::arg("pool"),
        nb::arg("a").noconvert(),
        nb::arg("b").noconvert(),
        nb::arg("y").noconvert(),
        "y = a + b with the bits of NumPy: tiny values stay, where `add` makes them zero.");
}

}  // namespace junto

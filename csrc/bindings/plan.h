// SPDX-License-Identifier: Apache-2.0
//
// Kernel calls that are kept, so that a step runs again without Python.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "bindings/bindings.h"
#include "kernels/packed.h"

namespace junto {

// The kernel calls of a step, in their order. While it records, every call by `Launch` on its pool
// is added, with references to the arrays and matrices that it was given; `run` repeats them all.
// Bindings check what they are given in the call itself, so each run checks again: whole numbers
// in the arrays, such as spans and blocks, may have changed in between.
//
// All of it but `run` needs the interpreter's lock.
class Plan {
 public:
  explicit Plan(ThreadPool& pool) : pool_(pool) {}
  ~Plan() { stop(); }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  std::size_t size() const { return calls_.size(); }
  void record();
  void stop();
  void add(std::function<void()> call) { calls_.push_back(std::move(call)); }
  void run() const;

  // The plan that records what this pool does, or null.
  static Plan* recording_on(const ThreadPool& pool);

 private:
  ThreadPool& pool_;
  std::vector<std::function<void()>> calls_;
};

// How an argument of a call is kept for the next: arrays and numbers as they are.
template <class T>
struct Kept {
  explicit Kept(const T& arg) : value(arg) {}
  const T& get() const { return value; }
  T value;
};

template <>
struct Kept<std::string_view> {
  explicit Kept(std::string_view arg) : value(arg) {}
  std::string_view get() const { return value; }
  std::string value;
};

// A plan lives no longer than its pool.
template <>
struct Kept<ThreadPool> {
  explicit Kept(ThreadPool& arg) : value(&arg) {}
  ThreadPool& get() const { return *value; }
  ThreadPool* value;
};

template <>
struct Kept<PackedMatrix> {
  explicit Kept(const PackedMatrix& arg) : value(&arg), owner(nb::find(arg)) {}
  const PackedMatrix& get() const { return *value; }
  const PackedMatrix* value;
  nb::object owner;
};

template <class... Rest>
ThreadPool& pool_among(std::string_view, ThreadPool& pool, const Rest&...) {
  return pool;
}

template <class... Rest>
ThreadPool& pool_among(ThreadPool& pool, const Rest&...) {
  return pool;
}

// `call` is what Python sees of a function that checks its arguments and calls a kernel: it runs
// without the interpreter's lock, and is recorded if a plan asks for it.
template <auto function>
struct Launch;

template <class... Args, void (*function)(Args...)>
struct Launch<function> {
  static void call(Args... args) {
    {
      const nb::gil_scoped_release release;
      function(args...);
    }
    if (Plan* plan = Plan::recording_on(pool_among(args...)))
      plan->add([... kept = Kept<std::remove_cvref_t<Args>>(args)] { function(kept.get()...); });
  }
};

}  // namespace junto

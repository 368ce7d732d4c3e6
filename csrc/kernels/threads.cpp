// SPDX-License-Identifier: Apache-2.0
//
// A small pool: a loop is announced by raising a counter, workers that spin see it at once, pieces
// are taken by an atomic add. A worker that has spun long without work yields, so that more threads
// than processors still finish.

#include "kernels/threads.h"

#include <algorithm>
#include <new>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace junto {

namespace {

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

constexpr int kSpins = 2000;  // about 50 microseconds before the first yield

template <class Condition>
void spin_until(Condition condition) {
  for (int i = 0; !condition(); ++i) {
    if (i < kSpins) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) {
  for (int i = 1; i < n_threads; ++i) {
    workers_.emplace_back([this, i] { work(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
    hot_ = true;
  }
  sleepers_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::wake() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    hot_ = true;
    awake_.store(true);
  }
  sleepers_.notify_all();
}

void ThreadPool::rest() {
  const std::lock_guard<std::mutex> lock(mutex_);
  hot_ = false;
  awake_.store(false);
}

std::byte* ThreadPool::bytes(std::size_t number, std::size_t n) {
  Buffer& buffer = buffers_.at(number);
  if (n > buffer.size) {
    const std::size_t size = (n + n / 4 + 63) / 64 * 64;
    buffer.memory.reset();
    buffer.memory.reset(static_cast<std::byte*>(std::aligned_alloc(64, size)));
    buffer.size = buffer.memory ? size : 0;
    if (!buffer.memory) throw std::bad_alloc();
  }
  return buffer.memory.get();
}

void ThreadPool::run(std::int64_t n, std::int64_t grain, Body body) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (workers_.empty() || n <= grain) {
    const FlushTiny flush;
    for (std::int64_t i = 0; i < n; i += grain) body(i, std::min(n, i + grain), 0);
    return;
  }
  const bool was_awake = awake_.load();
  if (!was_awake) wake();
  n_ = n;
  grain_ = grain;
  body_ = &body;
  next_.store(0, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  share(0);
  const int n_workers = static_cast<int>(workers_.size());
  spin_until([&] { return done_.load(std::memory_order_acquire) == n_workers; });
  if (!was_awake) rest();
}

void ThreadPool::share(int thread) {
  const FlushTiny flush;
  for (;;) {
    const std::int64_t first = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (first >= n_) return;
    (*body_)(first, std::min(n_, first + grain_), thread);
  }
}

void ThreadPool::work(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    if (!awake_.load(std::memory_order_acquire)) {
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.wait(lock, [&] { return hot_ || round_.load() != seen; });
    }
    spin_until([&] {
      return round_.load(std::memory_order_acquire) != seen || stop_.load() || !awake_.load();
    });
    if (stop_.load()) return;
    if (round_.load(std::memory_order_acquire) == seen) continue;
    ++seen;
    share(thread);
    done_.fetch_add(1, std::memory_order_release);
  }
}

#if defined(__x86_64__) || defined(__i386__)

FlushTiny::FlushTiny() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
FlushTiny::~FlushTiny() { _mm_setcsr(before_); }

#else

FlushTiny::FlushTiny() : before_(0) {}
FlushTiny::~FlushTiny() = default;

#endif

}  // namespace junto

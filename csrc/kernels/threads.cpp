// SPDX-License-Identifier: Apache-2.0
//
// A small pool: a loop is announced by its number, workers that spin see it at once. Pieces next to
// each other go to one thread, which reads weights in one long stretch; who is done helps the
// others. The caller waits for pieces, not for workers: one that the machine gave no time is not
// missed. Whoever has spun long yields, so that more threads than processors still finish.

#include "kernels/threads.h"

#include <algorithm>

#include "kernels/fence.h"

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

constexpr std::uint64_t ends_of(std::int64_t first, std::int64_t end) {
  return static_cast<std::uint64_t>(first) << 32 | static_cast<std::uint64_t>(end);
}

// Takes one piece from the front of a range, or a quarter of it from the back: no more, for what a
// thread holds it must do itself. None are left if n is 0.
Pieces take(std::atomic<std::uint64_t>& ends, bool from_front) {
  std::uint64_t seen = ends.load(std::memory_order_relaxed);
  for (;;) {
    const auto first = static_cast<std::int64_t>(seen >> 32);
    const auto end = static_cast<std::int64_t>(seen & 0xffffffffu);
    if (first == end) return {0, 0};
    const std::int64_t n = from_front ? 1 : (end - first + 3) / 4;
    const std::uint64_t rest = from_front ? ends_of(first + n, end) : ends_of(first, end - n);
    if (ends.compare_exchange_weak(
            seen, rest, std::memory_order_acquire, std::memory_order_relaxed))
      return {from_front ? first : end - n, n};
  }
}

}  // namespace

ThreadPool::ThreadPool(int n_threads) : ranges_(static_cast<std::size_t>(std::max(n_threads, 1))) {
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

std::uint8_t* ThreadPool::bytes(std::size_t number, std::size_t n) {
  Buffer& buffer = buffers_.at(number);
  if (n > buffer.size) {
    const std::size_t size = n + n / 4;
    buffer = {};  // first, so that both are never held
    buffer = {allocate(size), size};
  }
  fence(buffer.memory.get(), n, buffer.size);
  return buffer.memory.get();
}

void ThreadPool::run(std::int64_t n, std::int64_t grain, Body body) {
  if (n <= 0) return;
  grain = std::max({std::int64_t{1}, grain, n >> 31});  // pieces are counted in 32 bits
  if (workers_.empty() || n <= grain) {
    const FlushTiny flush;
    for (std::int64_t i = 0; i < n; i += grain) body(i, std::min(n, i + grain), 0);
    return;
  }
  const bool was_awake = awake_.load();
  if (!was_awake) wake();
  n_ = n;
  grain_ = grain;
  n_piece_ = (n + grain - 1) / grain;
  body_ = &body;
  done_.store(0, std::memory_order_relaxed);
  const auto n_thread = static_cast<std::int64_t>(ranges_.size());
  for (std::int64_t t = 0; t < n_thread; ++t) {
    const std::uint64_t ends = ends_of(n_piece_ * t / n_thread, n_piece_ * (t + 1) / n_thread);
    ranges_[static_cast<std::size_t>(t)].ends.store(ends, std::memory_order_release);
  }
  loop_.fetch_add(1, std::memory_order_release);
  share(0);
  spin_until([&] { return done_.load(std::memory_order_acquire) == n_piece_; });
  if (!was_awake) rest();
}

void ThreadPool::call(Pieces pieces, int thread) const {
  for (std::int64_t i = 0; i < pieces.n; ++i) {
    const std::int64_t first = (pieces.first + i) * grain_;
    (*body_)(first, std::min(n_, first + grain_), thread);
  }
}

void ThreadPool::share(int thread) {
  const FlushTiny flush;
  std::int64_t done = 0;
  for (std::size_t passed = 0; passed < ranges_.size(); ++passed) {
    const std::size_t owner = (static_cast<std::size_t>(thread) + passed) % ranges_.size();
    const bool is_own = passed == 0;
    for (;;) {
      const Pieces taken = take(ranges_[owner].ends, is_own);
      if (taken.n == 0) break;
      call(taken, thread);
      done += taken.n;
    }
  }
  if (done > 0) done_.fetch_add(done, std::memory_order_release);
}

void ThreadPool::work(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    if (!awake_.load(std::memory_order_acquire)) {
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.wait(lock, [&] { return hot_; });
    }
    const auto is_called = [&] { return loop_.load(std::memory_order_acquire) != seen; };
    spin_until([&] { return is_called() || stop_.load() || !awake_.load(); });
    if (stop_.load()) return;
    seen = loop_.load(std::memory_order_acquire);
    share(thread);
  }
}

#if defined(__x86_64__) || defined(__i386__)

FlushTiny::FlushTiny() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040u); }
FlushTiny::~FlushTiny() { _mm_setcsr(before_); }

#elif defined(__aarch64__)

namespace {

constexpr unsigned int kFlush = 1u << 24;  // FZ

// FPCR; its upper half is reserved.
unsigned int read_fpcr() {
  std::uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return static_cast<unsigned int>(word);
}
void write_fpcr(unsigned int word) {
  __asm__ volatile("msr fpcr, %0" : : "r"(std::uint64_t{word}));
}

}  // namespace

FlushTiny::FlushTiny() : before_(read_fpcr()) { write_fpcr(before_ | kFlush); }
FlushTiny::~FlushTiny() { write_fpcr(before_); }

#else

FlushTiny::FlushTiny() : before_(0) {}
FlushTiny::~FlushTiny() = default;

#endif

}  // namespace junto

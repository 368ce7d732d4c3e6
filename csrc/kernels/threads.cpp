// SPDX-License-Identifier: Apache-2.0
//
// A small pool: a loop is announced by storing the number of its pieces, workers that spin see it
// at once and take one piece after the other. The caller waits for pieces, not for workers: one
// that the machine gave no time is not missed. Whoever has spun long yields, so that more threads
// than processors still finish.

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
  const std::uint64_t loop = (pieces_.load(std::memory_order_relaxed) >> 32) + 1;
  pieces_.store(loop << 32 | static_cast<std::uint64_t>(n_piece_), std::memory_order_release);
  share(0);
  spin_until([&] { return done_.load(std::memory_order_acquire) == n_piece_; });
  if (!was_awake) rest();
}

bool ThreadPool::open() const {
  return static_cast<std::uint32_t>(pieces_.load(std::memory_order_relaxed)) != 0;
}

// Takes pieces that lie in line, fewer of them towards the end: weights are then read in long
// stretches, and no thread waits long for the last piece.
void ThreadPool::share(int thread) {
  const FlushTiny flush;
  const auto shares = static_cast<std::uint32_t>(4 * size());
  std::uint64_t seen = pieces_.load(std::memory_order_relaxed);
  while (const auto left = static_cast<std::uint32_t>(seen)) {
    const std::uint32_t taken = std::max(1u, left / shares);
    if (!pieces_.compare_exchange_weak(
            seen, seen - taken, std::memory_order_acquire, std::memory_order_relaxed))
      continue;
    std::int64_t first = (n_piece_ - left) * grain_;
    for (std::uint32_t i = 0; i < taken; ++i, first += grain_)
      (*body_)(first, std::min(n_, first + grain_), thread);
    done_.fetch_add(taken, std::memory_order_release);
    seen = pieces_.load(std::memory_order_relaxed);
  }
}

void ThreadPool::work(int thread) {
  for (;;) {
    if (!awake_.load(std::memory_order_acquire)) {
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.wait(lock, [&] { return hot_; });
    }
    spin_until([&] { return open() || stop_.load() || !awake_.load(); });
    if (stop_.load()) return;
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

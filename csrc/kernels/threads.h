// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/memory.h"

namespace junto {

// A call without allocation: a pointer to any callable, valid while the callable lives.
class Body {
 public:
  template <class F>
  explicit Body(const F& f)
      : object_(&f), call_([](const void* o, std::int64_t first, std::int64_t last, int thread) {
          (*static_cast<const F*>(o))(first, last, thread);
        }) {}
  void operator()(std::int64_t first, std::int64_t last, int thread) const {
    call_(object_, first, last, thread);
  }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, std::int64_t, int);
};

// Pieces of a loop that lie in line.
struct Pieces {
  std::int64_t first, n;
};

// Threads that share loops. Between `wake` and `rest` the workers spin, so that a loop costs less
// than a microsecond to share; otherwise they sleep. The caller works too and is thread 0.
//
// Which thread takes which piece changes from run to run; kernels give each piece its own outputs,
// so results do not. One loop at a time; not for use by two callers at once.
class ThreadPool {
 public:
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  void wake();
  void rest();

  // Memory for one kernel call at a time, kept for the next: first writes of fresh memory cost more
  // than the sums they hold. Buffers of different numbers are apart; contents do not last.
  template <class T>
  T* buffer(std::size_t number, std::int64_t n) {
    return reinterpret_cast<T*>(bytes(number, static_cast<std::size_t>(n) * sizeof(T)));
  }

  // Calls body(first, last, thread) for pieces of at most `grain` that cover [0, n).
  template <class F>
  void loop(std::int64_t n, std::int64_t grain, const F& body) {
    run(n, grain, Body(body));
  }

 private:
  struct Buffer {
    Memory memory;
    std::size_t size = 0;
  };
  std::uint8_t* bytes(std::size_t number, std::size_t n);
  void run(std::int64_t n, std::int64_t grain, Body body);
  void work(int thread);
  void share(int thread);
  void call(Pieces pieces, int thread) const;

  std::array<Buffer, 5> buffers_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable sleepers_;
  bool hot_ = false;
  std::atomic<bool> awake_{false};
  std::atomic<bool> stop_{false};

  // The loop in progress. Each thread begins with a range of pieces of its own, takes them one by
  // one from the front, and then from the back of the others'. Whoever holds a piece may read the
  // rest: the loop ends when all of them are done, and only then are ranges filled again.
  struct alignas(64) Range {
    std::atomic<std::uint64_t> ends{0};  // first piece that nobody has taken << 32 | end
  };
  std::vector<Range> ranges_;
  alignas(64) std::atomic<std::uint64_t> loop_{0};
  alignas(64) std::atomic<std::int64_t> done_{0};
  std::int64_t n_ = 0, grain_ = 1, n_piece_ = 0;
  const Body* body_ = nullptr;
};

// Flushes tiny floats to zero on this thread while it lives: they are slow, and levels differ.
class FlushTiny {
 public:
  FlushTiny();
  ~FlushTiny();
  FlushTiny(const FlushTiny&) = delete;
  FlushTiny& operator=(const FlushTiny&) = delete;

 private:
  unsigned int before_;
};

}  // namespace junto

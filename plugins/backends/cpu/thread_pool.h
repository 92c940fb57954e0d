// Threads that wait for loops to share. Low overhead: a loop costs about a microsecond while the workers are awake.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "patchbay/tensor.h"

namespace patchbay::cpu {

/// `threads` counts the caller, who is worker 0. One loop at a time; a loop inside a loop's body runs inline on its worker.
class ThreadPool {
 public:
  using Body = FunctionRef<void(std::int64_t begin, std::int64_t end, int worker)>;

  explicit ThreadPool(int threads);  ///< @throws Error when the threads cannot be started
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }
  /// Covers [0, n) in pieces of at most `grain`, taken by whoever is free. Rethrows the first exception of a body.
  void parallel_for(std::int64_t n, std::int64_t grain, Body body);

 private:
  void work(int worker);
  void take_pieces(int worker);
  void stop() noexcept;

  std::vector<std::thread> workers_;
  // The open loop. Written by the caller while no worker is inside.
  const Body* body_ = nullptr;
  std::int64_t n_ = 0, grain_ = 1;
  std::exception_ptr error_;
  std::atomic<bool> failed_{false}, stopping_{false};
  alignas(64) std::atomic<std::int64_t> next_{0};    ///< first index nobody has taken
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  ///< odd: a loop is open
  alignas(64) std::atomic<int> inside_{0};           ///< workers that may be reading the open loop
};

}  // namespace patchbay::cpu

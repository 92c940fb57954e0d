#include "thread_pool.h"

#include <sched.h>

#include <string>
#include <system_error>
#include <utility>

#include "patchbay/error.h"

namespace patchbay::cpu {
namespace {

// Spins before a worker sleeps: 0.2 to 0.5 ms, longer than the gaps between the loops of one forward pass.
constexpr int kSpins = 10'000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

struct Current {
  const ThreadPool* pool = nullptr;
  int worker = 0;
};
thread_local Current current;  // whose body this thread is running

/// Marks this thread as inside a pool's loop, also when a body throws.
struct Inside {
  Current before = current;
  Inside(const ThreadPool* pool, int worker) { current = {pool, worker}; }
  ~Inside() { current = before; }
};

}  // namespace

ThreadPool::ThreadPool(int threads) {
  try {
    for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& error) {
    const auto started = workers_.size() + 1;
    stop();
    throw Error("backend cpu: threads", std::string("cannot start thread ") + std::to_string(started + 1) + " of " +
                std::to_string(threads) + " (" + error.what() + ")", {}, "ask for fewer threads");
  } catch (...) {  // no memory for the next one: those that run must end before the pool does
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() noexcept {
  stopping_.store(true);
  epoch_.fetch_add(2);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::parallel_for(std::int64_t n, std::int64_t grain, Body body) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  const bool nested = current.pool == this;
  if (nested || workers_.empty() || n <= grain) {
    const int worker = nested ? current.worker : 0;
    const Inside inside(this, worker);
    for (std::int64_t begin = 0; begin < n; begin += grain) body(begin, begin + grain < n ? begin + grain : n, worker);
    return;
  }
  body_ = &body;
  n_ = n;
  grain_ = grain;
  next_.store(0, std::memory_order_relaxed);
  epoch_.fetch_add(1);  // open
  epoch_.notify_all();
  take_pieces(0);
  epoch_.fetch_add(1);  // closed: who has not come in by now need not be waited for
  for (int spins = 0; inside_.load() != 0; ++spins) spins < kSpins ? pause() : std::this_thread::yield();
  if (failed_.exchange(false)) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadPool::take_pieces(int worker) {
  const Inside inside(this, worker);
  try {
    for (;;) {
      const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
      if (begin >= n_) return;
      (*body_)(begin, begin + grain_ < n_ ? begin + grain_ : n_, worker);
    }
  } catch (...) {
    if (!failed_.exchange(true)) error_ = std::current_exception();
    next_.store(n_, std::memory_order_relaxed);  // nobody starts another piece
  }
}

void ThreadPool::work(int worker) {
  std::uint32_t seen = 0;
  for (;;) {
    std::uint32_t epoch = epoch_.load();
    for (int spins = 0; epoch == seen && spins < kSpins; ++spins) {
      pause();
      epoch = epoch_.load(std::memory_order_acquire);
    }
    if (epoch == seen) {
      epoch_.wait(seen);
      continue;
    }
    if (stopping_.load()) return;
    seen = epoch;
    if (epoch % 2 == 0) continue;
    // Either the caller sees us inside and waits, or we see that the loop is closed: both orders are sequentially consistent.
    inside_.fetch_add(1);
    if (epoch_.load() == epoch) take_pieces(worker);
    inside_.fetch_sub(1);
  }
}

}  // namespace patchbay::cpu

/// @file streams.h
/// The work that streams still have to do. Streams are emulated as queues: a piece of work may run when it is given or as late as somebody
/// waits for it (by a coin, under random schedules), so that a missing wait shows.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "gpu/state.h"
#include "patchbay/gpu/emulated_host.h"

namespace patchbay::gpu::emulator {

struct GraphState { std::vector<std::function<void()>> work; };

struct StreamState {
  int device = 0;
  StreamOptions options;                      ///< not of the default stream: it goes by those in force
  std::deque<std::function<void()>> queue;
  std::uint64_t given = 0, done = 0;          ///< pieces of work
  std::shared_ptr<GraphState> recording;      ///< while captured
  std::exception_ptr fault;                   ///< of work that was waited for by who could not tell
};
struct EventState {
  std::shared_ptr<StreamState> stream;        ///< where it was recorded last
  std::uint64_t ticket = 0;                   ///< it has happened when the stream has done so many pieces
  std::optional<std::chrono::steady_clock::time_point> time;
  std::shared_ptr<GraphState> recording;
};

/// The device that the calling thread uses.
extern thread_local int device_in_use;

/// All streams of all devices. Calls hold mutex().
class Streams {
 public:
  static Streams& instance();
  std::recursive_mutex& mutex() { return mutex_; }
  Stream create();
  void destroy(Stream stream);
  /// @throws Error when the stream does not exist.
  std::shared_ptr<StreamState> state_of(Stream stream);
  /// Records the work, runs it, or leaves it for later.
  void give(Stream stream, std::function<void()> work);
  /// Runs what the stream was given up to `ticket`. @throws the Error of the first piece that fails, now or in settle(); the rest is
  /// dropped.
  void run_until(StreamState& stream, std::uint64_t ticket);
  void run_all();
  /// Runs all that was given, to the stream or to all; a fault is kept for who waits next.
  void settle(StreamState& stream) noexcept;
  void settle_all() noexcept;
  /// Ends a capture in every stream that joined it.
  void end_recording(const std::shared_ptr<GraphState>& recording);

 private:
  std::recursive_mutex mutex_;
  std::shared_ptr<StreamState> default_ = std::make_shared<StreamState>();
  std::vector<std::shared_ptr<StreamState>> others_;
  std::uint64_t decisions_ = 0;
};

}  // namespace patchbay::gpu::emulator

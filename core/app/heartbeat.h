/// @file heartbeat.h
/// A sign of life from work whose single steps may take minutes.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace patchbay::app {

/// Says what is being done whenever nothing was said for a while, from a thread of its own. Thread rule: every method from any thread.
class Heartbeat {
 public:
  using Line = std::function<std::string()>;
  using Say = std::function<void(const std::string& line)>;

  /// say: standard error, where null.
  explicit Heartbeat(std::chrono::milliseconds pause = std::chrono::seconds(30), Say say = nullptr);
  ~Heartbeat();
  /// From now on, when it is time, `line()`; called from the other thread; null: nothing. The first call starts it.
  void doing(Line line);
  /// Something else was said.
  void said();

 private:
  void beat(std::stop_token stop);

  const std::chrono::milliseconds pause_;
  const Say say_;
  std::mutex mutex_;
  std::condition_variable_any woken_;
  Line line_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::jthread thread_;
};

}  // namespace patchbay::app

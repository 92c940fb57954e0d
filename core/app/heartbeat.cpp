#include "heartbeat.h"

#include <cstdio>
#include <utility>

namespace patchbay::app {
namespace {

void say_to_stderr(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace

Heartbeat::Heartbeat(std::chrono::milliseconds pause, Say say) : pause_(pause), say_(say ? std::move(say) : say_to_stderr) {}

Heartbeat::~Heartbeat() = default;  // the thread, the last member, is stopped and joined first

void Heartbeat::doing(Line line) {
  const std::lock_guard lock(mutex_);
  line_ = std::move(line);
  if (line_ && !thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { beat(std::move(stop)); });
}

void Heartbeat::said() {
  const std::lock_guard lock(mutex_);
  last_ = std::chrono::steady_clock::now();
}

void Heartbeat::beat(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    woken_.wait_until(lock, stop, last_ + pause_, [] { return false; });
    if (stop.stop_requested() || std::chrono::steady_clock::now() < last_ + pause_) continue;  // something was said meanwhile
    last_ = std::chrono::steady_clock::now();
    if (line_) say_(line_());
  }
}

}  // namespace patchbay::app

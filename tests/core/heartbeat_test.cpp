// The line that says that long work goes on: not before its time, again and again, and the last thing it was told.
#include "heartbeat.h"

#include <catch2/catch.hpp>
#include <vector>

using patchbay::app::Heartbeat;
using namespace std::chrono_literals;

namespace {

/// What was said, and a way to wait for it.
struct Listener {
  std::mutex mutex;
  std::condition_variable heard;
  std::vector<std::string> lines;

  Heartbeat::Say say() {
    return [this](const std::string& line) {
      const std::lock_guard lock(mutex);
      lines.push_back(line);
      heard.notify_all();
    };
  }
  bool hears(std::size_t count) {
    std::unique_lock lock(mutex);
    return heard.wait_for(lock, 10s, [&] { return lines.size() >= count; });
  }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex);
    return lines;
  }
};

}  // namespace

TEST_CASE("heartbeat: while one step goes on, its line comes again and again, made anew each time; then that of the next step") {
  Listener listener;
  Heartbeat heartbeat(10ms, listener.say());
  int asked = 0;
  heartbeat.doing([&] { return "first " + std::to_string(++asked); });
  REQUIRE(listener.hears(2));
  heartbeat.doing([] { return std::string("second"); });
  REQUIRE(listener.hears(listener.all().size() + 2));
  const auto lines = listener.all();
  CHECK(lines[0] == "first 1");
  CHECK(lines[1] == "first 2");
  CHECK(lines.back() == "second");
}

TEST_CASE("heartbeat: nothing while there is something else to read, nothing once the work is over, and no wait at the end") {
  Listener listener;
  const auto begin = std::chrono::steady_clock::now();
  {
    Heartbeat patient(1h, listener.say()), talked_over(5s, listener.say()), over(5ms, listener.say());
    patient.doing([] { return std::string("patient"); });
    talked_over.doing([] { return std::string("talked over"); });
    over.doing(nullptr);
    while (std::chrono::steady_clock::now() < begin + 5500ms) {
      std::this_thread::sleep_for(10ms);
      talked_over.said();
    }
  }
  CHECK(listener.all().empty());
  CHECK(std::chrono::steady_clock::now() - begin < 60s);
}

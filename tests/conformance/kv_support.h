// Shared by the conformance suites of the KV cache and of attention: a device with as many threads as one likes and dirty memory,
// plugins by name, and random numbers.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "patchbay/backend.h"
#include "patchbay/kv_store.h"
#include "patchbay/plugin.h"

namespace patchbay::test {

/// Memory comes filled with 0xFF: NaN in every float format, so that a read of a cell nobody wrote shows.
class DirtyDevice final : public Device {
 public:
  explicit DirtyDevice(int threads = 1) : threads_(threads) {}
  Buffer allocate(std::int64_t bytes) override {
    std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)), std::free);
    std::memset(memory.get(), 0xFF, bytes);
    return Buffer(std::move(memory), bytes, 0);
  }
  void copy(TensorRef, TensorRef) override { throw Error("DirtyDevice", "copies nothing"); }
  int concurrency() const override { return threads_; }
  void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t, int)> body) override {
    std::atomic<std::int64_t> next{0};
    const auto work = [&](int worker) {
      for (std::int64_t begin; (begin = next.fetch_add(grain)) < n;) body(begin, std::min(n, begin + grain), worker);
    };
    std::vector<std::thread> others;
    for (int worker = 1; worker < threads_; ++worker) others.emplace_back(work, worker);
    work(0);
    for (auto& other : others) other.join();
  }

 private:
  int threads_;
};

inline Settings scalar(const std::string& text) {
  Settings settings;
  settings.kind = Settings::Kind::scalar;
  settings.text = text;
  settings.where = "test";
  return settings;
}
inline PluginSpec plugin(const std::string& type, std::vector<std::pair<std::string, Settings>> parameters = {}) {
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  settings->where = "test";
  settings->entries = std::move(parameters);
  return {type, settings};
}

inline std::vector<float> random_values(std::mt19937& random, std::int64_t n, float spread = 1.0f) {
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace patchbay::test

// Which decoding steps are recorded, replayed, and let go.
#include "engine/step_graphs.h"

#include <catch2/catch.hpp>

#include "patchbay/attention.h"

using namespace patchbay;

namespace {

/// Counts recordings, and those that still exist.
class RecordingDevice : public Device {
 public:
  struct Recorded : patchbay::Graph {
    explicit Recorded(RecordingDevice& of) : device(of) { ++device.alive; }
    ~Recorded() override { --device.alive; }
    void replay() override { ++device.replayed; }
    RecordingDevice& device;
  };
  Buffer allocate(std::int64_t) override { return {}; }
  void copy(TensorRef, TensorRef) override {}
  int concurrency() const override { return 1; }
  void parallel_for(std::int64_t, std::int64_t, FunctionRef<void(std::int64_t, std::int64_t, int)>) override {}
  DeviceMemory memory() const override { return {0, allocations}; }
  std::unique_ptr<patchbay::Graph> capture(FunctionRef<void()> body) override {
    body();
    ++captured;
    return std::make_unique<Recorded>(*this);
  }
  std::int64_t allocations = 0;
  int captured = 0, replayed = 0, alive = 0;
};

/// A step that decodes one token of each of n sequences.
void decode(StepGraphs& graphs, std::int64_t n, int& ran) {
  StepPlan plan;
  for (std::int64_t i = 0; i < n; ++i) plan.sequences.push_back({static_cast<SeqId>(i), i, 1, 10, {}});
  GpuStep step;
  step.sequences = n;
  graphs.run(plan, step, [&] { ++ran; });
}

}  // namespace

TEST_CASE("step graphs: run, recorded, replayed; given up when memory has moved") {
  RecordingDevice device;
  StepGraphs graphs(device);
  int ran = 0;
  for (int i = 0; i < 4; ++i) decode(graphs, 1, ran);
  CHECK(ran == 2);
  CHECK(device.captured == 1);
  CHECK(device.replayed == 2);
  ++device.allocations;
  decode(graphs, 1, ran);
  CHECK(ran == 3);
  CHECK(device.alive == 0);
}

TEST_CASE("step graphs: no more than the limit are kept, and the one longest unused makes room") {
  RecordingDevice device;
  StepGraphs graphs(device);
  constexpr auto kMost = static_cast<std::int64_t>(StepGraphs::kMost);
  int ran = 0;
  for (std::int64_t n = 1; n <= kMost; ++n)
    for (int twice = 0; twice < 2; ++twice) decode(graphs, n, ran);
  CHECK(device.alive == kMost);
  decode(graphs, 1, ran);  // in use again: 2 is now the oldest
  CHECK(device.replayed == 1);
  for (std::int64_t n = kMost + 1; n <= kMost + 3; ++n)
    for (int twice = 0; twice < 2; ++twice) decode(graphs, n, ran);
  CHECK(device.alive == kMost);
  CHECK(graphs.shapes() == StepGraphs::kMost);
  const int captured = device.captured;
  decode(graphs, 1, ran);
  decode(graphs, 5, ran);
  CHECK(device.replayed == 3);
  for (int twice = 0; twice < 2; ++twice) decode(graphs, 2, ran);  // let go: begins anew
  CHECK(device.captured == captured + 1);
}

/// @file step_graphs.h
/// Decoding steps of one shape, recorded at their second appearance and replayed from then on: one launch in place of hundreds.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>

#include "engine/step_plan.h"

namespace patchbay {

class PATCHBAY_API StepGraphs {
 public:
  /// A recording holds memory of the device, and the shapes are many: batch sizes times lengths. More than so many are not kept; the one
  /// longest unused makes room.
  static constexpr std::size_t kMost = 64;

  explicit StepGraphs(Device& device) : device_(device) {}
  /// Does what body does: launches that depend on the step's shape alone, all else being read from the step's inputs on the device.
  /// A step that is no decoding (a sequence with several rows, a tree, hidden states) is run as it is. The first of its shape is
  /// too, so that memory grows outside of a recording; a recording older than the device's last allocation is given up.
  void run(const StepPlan& plan, const GpuStep& step, FunctionRef<void()> body);
  std::size_t shapes() const { return shapes_.size(); }

 private:
  using Shape = std::array<std::int64_t, 4>;  ///< sequences, longest, rows that want logits, draws

  Device& device_;
  std::int64_t allocations_ = 0;
  struct Recording {
    std::unique_ptr<Graph> graph;  ///< null: the shape was seen once
    std::uint64_t used = 0;        ///< the step that last had it
  };
  std::map<Shape, Recording> shapes_;
  std::uint64_t steps_ = 0;
};

}  // namespace patchbay

/// @file step_graphs.h
/// Decoding steps of one shape, recorded at their second appearance and replayed from then on: one launch in place of hundreds.
#pragma once
#include <array>
#include <map>
#include <memory>

#include "engine/step_plan.h"

namespace patchbay {

class StepGraphs {
 public:
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
  std::map<Shape, std::unique_ptr<Graph>> shapes_;  ///< null: seen once
};

}  // namespace patchbay

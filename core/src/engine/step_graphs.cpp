#include "engine/step_graphs.h"

#include <algorithm>

namespace patchbay {

void StepGraphs::run(const StepPlan& plan, const GpuStep& step, FunctionRef<void()> body) {
  const bool decoding = std::ranges::all_of(plan.sequences, [](const StepSequence& sequence) { return sequence.rows == 1; });
  if (!decoding || plan.hidden) return body();
  if (const std::int64_t allocations = device_.memory().allocations; allocations != allocations_) {
    shapes_.clear();
    allocations_ = allocations;
  }
  const Shape shape = {step.sequences, step.longest, static_cast<std::int64_t>(plan.logit_rows.size()),
                       static_cast<std::int64_t>(plan.draws.size())};
  const auto [entry, first] = shapes_.try_emplace(shape);
  Recording& recording = entry->second;
  recording.used = ++steps_;
  if (shapes_.size() > kMost) shapes_.erase(std::ranges::min_element(shapes_, {}, [](const auto& one) { return one.second.used; }));
  if (first) return body();
  if (recording.graph) return recording.graph->replay();
  recording.graph = device_.capture(body);
}

}  // namespace patchbay

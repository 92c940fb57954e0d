/// @file sample_runner.h
/// The calibration samples on their way through a model, block by block: only the hidden states between two blocks are kept, on disk.
/// E hidden size, H query heads, D head size.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/stage.h"
#include "quantize/calibration_tokens.h"
#include "quantize/spilled_rows.h"

namespace patchbay {

/// The parts of a block, in their order.
enum class BlockPart { attention, output, feed_forward };

class PATCHBAY_API SampleRunner {
 public:
  /// Everything is borrowed; `weights` has what stands outside of the blocks, and the block in work.
  SampleRunner(const ModelSpec& spec, const ModelWeights& weights, const std::vector<std::vector<Token>>& samples, Ops& ops);
  /// Called now and then, so that a long calibration can be watched and stopped: which share of a pass is done.
  void set_progress(std::function<void(double fraction)> progress) { progress_ = std::move(progress); }

  /// All samples through parts `first` to `last` of a block. With `keep` they stay where they come to; else they are afterwards where they
  /// were. @throws Error naming the block where what stays is not finite.
  void run(int layer, BlockPart first, BlockPart last, bool keep);
  /// What the head reads, sample by sample.
  void run_final_norm(const std::function<void(View<const float, 2> x)>& sees);
  /// Where the samples are, (tokens, E) one after the other: to be looked at, or copied and put back.
  const SpilledRows& states() const { return states_; }
  void restore(const SpilledRows& states) { states_.copy(states); }

 private:
  void embed(std::span<const StageParts> none);
  StepPlan plan_of(const std::vector<Token>& sample) const;

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const std::vector<std::vector<Token>>& samples_;
  Ops& ops_;
  std::int64_t tokens_ = 0, longest_ = 0;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<KvStore> store_;          ///< of one layer and one sample
  SpilledRows states_;                      ///< (tokens, E)
  std::unique_ptr<SpilledRows> heads_;      ///< (tokens, H*D): what attention made of them, between its part and the next
  std::function<void(double fraction)> progress_;
};

}  // namespace patchbay

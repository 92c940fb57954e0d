/// @file step_plan.h
/// The rows of a step, laid out for the forward pass: on the host, and as a GPU reads them.
#pragma once
#include <vector>

#include "patchbay/attention.h"
#include "patchbay/model_runner.h"

namespace patchbay {

struct StepPlan {
  std::vector<Token> tokens;                ///< (T)
  std::vector<std::int32_t> positions;      ///< (T)
  std::vector<StepSequence> sequences;
  std::vector<std::int32_t> logit_rows;     ///< rows whose logits are wanted, ascending
  bool hidden = false;                      ///< final hidden states of all rows are wanted
  std::vector<TokenDraw> draws;             ///< one per logit row: tokens are wanted in place of logits; or empty
};

/// What of a plan operations read, where they read it: the plan's own arrays on the host; on a GPU one block of device memory,
/// filled by one copy. There the places depend on the step's shape alone, so that a graph finds the next step's numbers.
class PATCHBAY_API StepInputs {
 public:
  explicit StepInputs(Device& device) : device_(device) {}
  /// The plan must stay until the next call; the store has grown for its sequences.
  void load(const StepPlan& plan, KvStore& store);
  TensorRef tokens() const { return tokens_; }          ///< (T) i32
  TensorRef positions() const { return positions_; }    ///< (T) i32
  TensorRef logit_rows() const { return logit_rows_; }  ///< (rows that want logits) i32
  /// Of a GPU alone.
  const GpuStep& gpu() const { return gpu_; }
  const SamplingRows& sampling() const { return sampling_; }

 private:
  template <class T> std::size_t add(const std::vector<T>& values);
  void describe(const StepPlan& plan);
  std::vector<std::uint8_t> tree(const StepPlan& plan);
  std::vector<std::byte*> slabs(const StepPlan& plan, KvStore& store);

  Device& device_;
  TensorRef tokens_, positions_, logit_rows_;
  GpuStep gpu_;
  SamplingRows sampling_;
  std::vector<std::byte> packed_;
  Buffer memory_;
  std::vector<std::int32_t> row_sequence_, row_slot_, first_row_, sequence_rows_, committed_;
};

}  // namespace patchbay

/// @file outside_blocks.h
/// Embedding, output norm and head of a model on their way to being quantised.
#pragma once
#include <functional>
#include <memory>

#include "engine/weights.h"
#include "quantize/quantized_model.h"
#include "quantize/rotations.h"
#include "quantize/sample_runner.h"

namespace patchbay {

class OutsideBlocks {
 public:
  /// `weights` was loaded as stored. Everything is borrowed.
  OutsideBlocks(ModelWeights& weights, const ModelSpec& spec, const WeightPlan& plan, Ops& ops)
      : weights_(weights), spec_(spec), plan_(plan), ops_(ops) {}
  /// Into the turned basis of the residual stream: then the head is no longer the embedding, since it reads behind the norm.
  void turn(const Rotations& rotations, QuantizedModel& result);
  /// Matrices that a quantizer is named for. `samples`, behind the last block, give the statistics of the head's inputs; null: nobody asks.
  /// A table of rows has no inputs.
  QuantizedModel quantize(SampleRunner* samples);

 private:
  void keep_plain(Linear& linear, const std::vector<float>& values, QuantizedModel& result);
  const WeightPlan::Choice& choice_of(const Linear& linear) const;

  ModelWeights& weights_;
  const ModelSpec& spec_;
  const WeightPlan& plan_;
  Ops& ops_;
};

}  // namespace patchbay

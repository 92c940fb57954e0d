/// @file transformer.h
/// The forward pass: one for every architecture that ModelSpec can describe, and for every device.
/// T rows of this step, E hidden size, V vocabulary.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "engine/stage.h"
#include "engine/step_graphs.h"

namespace patchbay {

class PATCHBAY_API Transformer {
 public:
  /// Stages in the order of their layers: the first has the embedding, the last the head.
  Transformer(const ModelSpec& spec, const ModelWeights& weights, std::span<const StageParts> stages, std::int64_t max_tokens,
              ActivationMode mode);
  /// The stores must have grown for every sequence of the plan. The result is valid until the next call.
  Step forward(const StepPlan& plan);
  /// logits(n,V) of final hidden states (n,E), all on the host.
  void head(View<const float, 2> hidden, View<float, 2> logits);
  void set_probe(Probe* probe);
  Probe* probe() const { return probe_; }
  /// The type of activations where logits are made.
  DType activations() const { return stages_.back().ops().device().activations(); }
  /// Whether plans may ask for draws.
  bool draws() const { return !stages_.back().ops().device().is_host(); }
  /// How attention sees the cache: "fp16, read natively".
  std::string kv_path() const { return stages_.back().kv_path(); }

 private:
  void embed(const StepPlan& plan);
  void look_up(const Linear& table, std::span<const std::int32_t> ids, TensorRef ids_on_device, TensorRef out);
  void hand_over(Stage& from, Stage& to);
  void compute_logits(Stage& last, TensorRef hidden, TensorRef logits);
  void run(std::size_t stage, const StepPlan& plan);
  void finish(const StepPlan& plan);
  Step collect(const StepPlan& plan);

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  std::deque<Stage> stages_;  ///< a deque: stages do not move
  std::deque<StepGraphs> graphs_;  ///< of each stage
  Probe* probe_ = nullptr;
  std::vector<float> room_, hidden_, host_logits_;
  Buffer selected_, logits_, drawn_;
  std::vector<Token> tokens_;
};

}  // namespace patchbay

/// @file transformer.h
/// The forward pass: one function for every architecture that ModelSpec can describe.
/// T rows of this step, E hidden size, H query heads, G key/value heads, D head size, F feed-forward size, V vocabulary.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "engine/feed_forward.h"
#include "engine/model_spec.h"
#include "engine/rope.h"
#include "engine/weights.h"
#include "patchbay/attention.h"
#include "patchbay/model_runner.h"

namespace patchbay {

/// The rows of a step, laid out for the forward pass.
struct StepPlan {
  std::vector<Token> tokens;                ///< (T)
  std::vector<std::int32_t> positions;      ///< (T)
  std::vector<StepSequence> sequences;
  std::vector<std::int64_t> logit_rows;     ///< rows whose logits are wanted, ascending
  bool hidden = false;                      ///< final hidden states of all rows are wanted
};

class PATCHBAY_API Transformer {
 public:
  Transformer(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, Attention& attention, KvStore& store, ActivationMode mode);
  /// The store must have grown for every sequence of the plan. The result is valid until the next call.
  Step forward(const StepPlan& plan);
  /// logits(n,V) of final hidden states (n,E).
  void head(View<const float, 2> hidden, View<float, 2> logits);
  void set_probe(Probe* probe) { probe_ = probe; }
  /// "read natively" or "gathered to fp32": how attention sees the cache.
  std::string kv_path() const;

 private:
  void reserve(std::int64_t rows);
  void embed(const StepPlan& plan);
  void attention_block(const StepPlan& plan, int layer);
  void project_heads(const BlockWeights& block, int layer);
  void norm_heads(const NormWeights& weights, View<float, 3> x);
  void turn_heads(const StepPlan& plan, int layer);
  void attend(const StepPlan& plan, int layer);
  void ffn_block(int layer);
  void normalise(View<float, 2> x, const NormWeights& weights, View<float, 2> out);
  Step finish(const StepPlan& plan);
  std::span<const KvView> views(const StepPlan& plan, int layer);
  void show_cache(const StepPlan& plan, int layer);
  void saw(std::string_view name, int layer, TensorRef tensor) { if (probe_) probe_->saw(name, layer, tensor); }
  View<float, 2> rows(const Buffer& buffer, std::int64_t cols) const { return buffer.view<float, 2>({rows_, cols}); }
  View<float, 3> heads(const Buffer& buffer, std::int64_t n) const { return buffer.view<float, 3>({rows_, n, spec_.head_size}); }

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  Ops& ops_;
  Attention& attention_;
  KvStore& store_;
  Activation activation_;
  FeedForward feed_forward_;
  std::vector<RotaryEmbedding> ropes_;
  Probe* probe_ = nullptr;
  std::int64_t rows_ = 0, capacity_ = 0;
  Buffer x_, norm_, q_, k_, v_, heads_, projected_;
  std::vector<float> logits_, selected_;
  std::vector<KvView> views_;
  // Only for an attention that cannot read the store's layout: the cache decoded to fp32.
  std::vector<std::vector<float>> gathered_;
  std::vector<KvSegment> gathered_segments_;
};

}  // namespace patchbay

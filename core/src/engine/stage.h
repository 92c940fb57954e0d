/// @file stage.h
/// Consecutive layers of a model on one device: the blocks of the forward pass.
/// T rows of this step, E hidden size, H query heads, G key/value heads, D head size, F feed-forward size.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "engine/cached_attention.h"
#include "engine/feed_forward.h"
#include "engine/model_spec.h"
#include "engine/rope.h"
#include "engine/weights.h"
#include "patchbay/activation.h"
#include "patchbay/rounded_inputs.h"

namespace patchbay {

/// What a stage is made of; everything is borrowed.
struct StageParts {
  int first = 0, count = 0;  ///< layers [first, first + count) of the model; the store counts its own from 0
  Ops* ops = nullptr;
  Attention* attention = nullptr;
  KvStore* store = nullptr;
};

class Stage {
 public:
  Stage(const ModelSpec& spec, const ModelWeights& weights, const StageParts& parts, std::int64_t max_tokens, ActivationMode mode);
  /// Makes room for the plan's rows and brings what operations read of it to the device.
  void begin(const StepPlan& plan);
  /// Takes x() through the stage's layers.
  void run(const StepPlan& plan);
  // The parts of a layer, one after the other, for whoever looks between them. Each leaves in norm() what the next one reads.
  void run_attention(const StepPlan& plan, int layer);  ///< norm(), of x() by attention_norm, to attention()
  void add_attention(int layer);                        ///< attention() into x()
  void add_feed_forward(int layer);                     ///< norm(), of x() by ffn_norm, into x()
  void normalise(TensorRef x, const NormWeights& weights, TensorRef out);
  void set_probe(Probe* probe) { probe_ = probe; }
  /// Shows a tensor to the probe, as floats of the host.
  void saw(std::string_view name, int layer, TensorRef tensor);

  TensorRef x() const { return rows(x_, spec_.hidden); }        ///< (T,E): what goes from block to block
  TensorRef norm() const { return rows(norm_, spec_.hidden); }  ///< (T,E): free between blocks
  TensorRef attention() const { return rows(heads_, static_cast<std::int64_t>(spec_.heads) * spec_.head_size); }  ///< (T,H*D)
  const StepInputs& inputs() const { return inputs_; }
  Activation& activation() { return activation_; }
  Ops& ops() const { return ops_; }
  std::string kv_path() const { return attention_.kv_path(); }

 private:
  void add_to_stream(TensorRef projected, const NormWeights* next, const std::optional<RowRounding>& rounding);
  std::optional<RowRounding> rounding_before(std::initializer_list<const Linear*> readers) const;
  void project_heads(const BlockWeights& block, int layer);
  void norm_heads(const NormWeights& weights, TensorRef x);
  void turn_and_cache(const StepPlan& plan, int layer);
  void attend(const StepPlan& plan, int layer);
  TensorRef rows(const Buffer& buffer, std::int64_t cols) const { return buffer.tensor(type_, {rows_, cols}); }
  TensorRef heads(const Buffer& buffer, std::int64_t n) const { return buffer.tensor(type_, {rows_, n, spec_.head_size}); }

  const ModelSpec& spec_;
  const ModelWeights& weights_;
  int first_, count_;
  Ops& ops_;
  KvStore& store_;
  const DType type_;  ///< of all activations
  StepInputs inputs_;
  Activation activation_;
  FeedForward feed_forward_;
  CachedAttention attention_;
  std::vector<RotaryEmbedding> ropes_;
  struct Roundings { std::optional<RowRounding> attention, ffn; };
  std::vector<Roundings> roundings_;  ///< per layer, of what the norm before each part gives, where all that reads it rounds alike
  bool input_ready_ = false;          ///< activation_ has the codes of what is to be in norm(), and norm() has nothing
  Probe* probe_ = nullptr;
  std::int64_t rows_ = 0, capacity_ = 0;
  Buffer x_, norm_, q_, k_, v_, heads_, projected_;
};

}  // namespace patchbay

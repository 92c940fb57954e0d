/// @file cached_attention.h
/// A step's keys and values into the cache, and attention over it: on the host through a store's views, on a GPU through its slabs.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/step_plan.h"

namespace patchbay {

class PATCHBAY_API CachedAttention {
 public:
  CachedAttention(Attention& attention, KvStore& store, Ops& ops) : attention_(attention), store_(store), ops_(ops) {}
  /// Stores k, v (T,G,D) of all rows as tentative tokens. `layer` counts within the store.
  void write(const StepPlan& plan, const StepInputs& inputs, int layer, TensorRef k, TensorRef v);
  /// out(T,H,D) of q(T,H,D).
  void attend(const AttentionSpec& spec, const StepPlan& plan, const StepInputs& inputs, int layer, TensorRef q, TensorRef out);
  /// For a probe alone: shows what the cache of each sequence in `layer` means, (S,G,D) keys and values, whatever attention reads.
  void show(const AttentionSpec& spec, const StepPlan& plan, int layer, FunctionRef<void(TensorRef k, TensorRef v)> sees);
  /// "fp16, read natively" or "fp16, gathered to fp32".
  std::string kv_path() const;

 private:
  std::span<const KvView> views(const AttentionSpec& spec, const StepPlan& plan, int layer);

  Attention& attention_;
  KvStore& store_;
  Ops& ops_;
  std::vector<KvView> views_;
  // Only for an attention of the host that cannot read the store's layout: the cache decoded to fp32.
  std::vector<std::vector<float>> gathered_;
  std::vector<KvSegment> gathered_segments_;
};

}  // namespace patchbay

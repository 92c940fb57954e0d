#include "engine/stage.h"

#include <algorithm>
#include <utility>

#include "device_rows.h"

namespace patchbay {

Stage::Stage(const ModelSpec& spec, const ModelWeights& weights, const StageParts& parts, std::int64_t max_tokens, ActivationMode mode)
    : spec_(spec), weights_(weights), first_(parts.first), count_(parts.count), ops_(*parts.ops), store_(*parts.store),
      type_(ops_.device().activations()), inputs_(ops_.device()), activation_(mode, ops_), feed_forward_(spec, ops_, activation_),
      attention_(*parts.attention, store_, ops_) {
  for (const Rope& rope : spec.ropes) ropes_.emplace_back(rope, max_tokens, ops_);
  for (int layer = 0; layer < static_cast<int>(weights.blocks.size()); ++layer) {
    const BlockWeights& block = weights.blocks[layer];
    Roundings& found = roundings_.emplace_back(Roundings{rounding_before({&block.q, &block.k, &block.v}), {}});
    if (!spec.expert_layer[layer]) found.ffn = rounding_before({&block.ffn.gate, &block.ffn.up});
  }
}

/// How all of them round their input; nothing where one does not, or otherwise, or the norm and the rounding are no one kernel.
std::optional<RowRounding> Stage::rounding_before(std::initializer_list<const Linear*> readers) const {
  if (!dynamic_cast<RoundingOps*>(&ops_) || spec_.norm != Norm::rms) return {};
  std::optional<RowRounding> common;
  for (const Linear* reader : readers) {
    if (!reader->kernel) continue;  // a model without a gate
    const auto rounding = input_rounding_of(reader->kernel.get());
    if (!rounding || rounding->scale == RowRounding::Scale::tensor || (common && *common != *rounding)) return {};
    common = rounding;
  }
  return common;
}

void Stage::begin(const StepPlan& plan) {
  rows_ = static_cast<std::int64_t>(plan.tokens.size());
  inputs_.load(plan, store_);
  for (RotaryEmbedding& rope : ropes_) rope.prepare(plan.positions);
  if (rows_ <= capacity_) return;
  capacity_ = rows_;
  const auto room = [&](std::int64_t cols) { return ops_.device().allocate(rows_ * cols * bytes_of(type_)); };
  x_ = room(spec_.hidden);
  norm_ = room(spec_.hidden);
  projected_ = room(spec_.hidden);
  q_ = room(static_cast<std::int64_t>(spec_.heads) * spec_.head_size);
  heads_ = room(static_cast<std::int64_t>(spec_.heads) * spec_.head_size);
  k_ = room(static_cast<std::int64_t>(spec_.kv_heads) * spec_.head_size);
  v_ = room(static_cast<std::int64_t>(spec_.kv_heads) * spec_.head_size);
  feed_forward_.reserve(rows_);
}

void Stage::run(const StepPlan& plan) {
  if (count_ > 0) normalise(x(), weights_.blocks[first_].attention_norm, norm());
  for (int layer = first_; layer < first_ + count_; ++layer) {
    run_attention(plan, layer);
    add_attention(layer);
    add_feed_forward(layer);
  }
}

void Stage::saw(std::string_view name, int layer, TensorRef tensor) {
  if (!probe_) return;
  if (tensor.device == 0) return probe_->saw(name, layer, tensor);
  std::vector<float> values;
  const TensorRef flat = tensor.reshaped({tensor.shape[0], tensor.size() / std::max<std::int64_t>(tensor.shape[0], 1)});
  TensorRef here = read_rows(flat, values, ops_.device());
  if (tensor.rank == 3) here = here.reshaped({tensor.shape[0], tensor.shape[1], tensor.shape[2]});
  probe_->saw(name, layer, here);
}

void Stage::normalise(TensorRef x, const NormWeights& weights, TensorRef out) {
  const std::int64_t size = x.shape[1];
  const TensorRef weight = weights.weight.tensor({size});
  if (spec_.norm == Norm::rms) return ops_.rms_norm(x, weight, spec_.norm_epsilon, out);
  ops_.layer_norm(x, weight, weights.bias.tensor({size}), spec_.norm_epsilon, out);
}

/// x += projected, then norm() of x by `next`: what the part that follows reads, or, where that rounds it, the codes. Null: the stage ends here.
void Stage::add_to_stream(TensorRef projected, const NormWeights* next, const std::optional<RowRounding>& rounding) {
  if (next && rounding && !probe_) {
    activation_.reset(norm());
    rounded(activation_, ops_, *rounding, [&](const RoundedRows& codes) {
      dynamic_cast<RoundingOps&>(ops_).add_rms_norm_quantize(x(), projected, next->weight.tensor({spec_.hidden}), spec_.norm_epsilon, *rounding, norm(), codes);
    });
    input_ready_ = true;
    return;
  }
  if (next && spec_.norm == Norm::rms) {
    return ops_.add_rms_norm(x(), projected, next->weight.tensor({spec_.hidden}), spec_.norm_epsilon, norm());
  }
  ops_.add(x(), projected);
  if (next) normalise(x(), *next, norm());
}

void Stage::run_attention(const StepPlan& plan, int layer) {
  const BlockWeights& block = weights_.blocks[layer];
  saw("attention_norm", layer, norm());
  if (!std::exchange(input_ready_, false)) activation_.reset(norm());
  project_heads(block, layer);
  turn_and_cache(plan, layer);
  attend(plan, layer);
}

void Stage::add_attention(int layer) {
  const BlockWeights& block = weights_.blocks[layer];
  const TensorRef projected = rows(projected_, spec_.hidden);
  activation_.reset(attention());
  multiply(block.attention_output, activation_, projected, ops_);
  saw("attention_output", layer, projected);
  if (block.attention_post_norm.weight.size() > 0) normalise(projected, block.attention_post_norm, projected);
  add_to_stream(projected, &block.ffn_norm, roundings_[layer].ffn);
  saw("attention_residual", layer, x());
}

/// q, k and v from the present activation.
void Stage::project_heads(const BlockWeights& block, int layer) {
  const std::int64_t size = spec_.head_size;
  multiply(block.q, activation_, rows(q_, spec_.heads * size), ops_);
  multiply(block.k, activation_, rows(k_, spec_.kv_heads * size), ops_);
  multiply(block.v, activation_, rows(v_, spec_.kv_heads * size), ops_);
  saw("q", layer, heads(q_, spec_.heads));
  saw("k", layer, heads(k_, spec_.kv_heads));
  saw("v", layer, heads(v_, spec_.kv_heads));
  norm_heads(block.q_norm, heads(q_, spec_.heads));
  norm_heads(block.k_norm, heads(k_, spec_.kv_heads));
}

/// Each head of each row by itself, where the model has such norms.
void Stage::norm_heads(const NormWeights& weights, TensorRef x) {
  if (weights.weight.size() == 0) return;
  const TensorRef each = x.reshaped({x.shape[0] * x.shape[1], x.shape[2]});
  normalise(each, weights, each);
}

/// Turns queries and keys, and writes this step's keys and values into the cache.
void Stage::turn_and_cache(const StepPlan& plan, int layer) {
  const TensorRef q = heads(q_, spec_.heads), k = heads(k_, spec_.kv_heads), v = heads(v_, spec_.kv_heads);
  const int rope = spec_.rope_of_layer.empty() ? -1 : spec_.rope_of_layer[layer];
  if (rope >= 0) {
    const RopeSpec turns = ropes_[rope].spec();
    // A probe is shown the turned keys, which a fused kernel leaves to the cache.
    const bool at_once = !ops_.device().is_host() && !probe_;
    if (at_once) return ops_.rope_write_kv(q, k, v, inputs_.positions(), turns, inputs_.gpu(), layer - first_);
    ops_.rope(q, inputs_.positions(), turns);
    ops_.rope(k, inputs_.positions(), turns);
  }
  saw("q_rope", layer, q);
  saw("k_rope", layer, k);
  attention_.write(plan, inputs_, layer - first_, k, v);
}

void Stage::attend(const StepPlan& plan, int layer) {
  AttentionSpec spec;
  spec.heads = spec_.heads;
  spec.kv_heads = spec_.kv_heads;
  spec.head_size = spec_.head_size;
  spec.scale = spec_.attention_scale;
  spec.window = spec_.windows[layer];
  spec.soft_cap = spec_.attention_soft_cap;
  const TensorRef out = heads(heads_, spec_.heads);
  if (probe_) {
    attention_.show(spec, plan, layer - first_, [&](TensorRef k, TensorRef v) {
      saw("k_cached", layer, k);
      saw("v_cached", layer, v);
    });
  }
  attention_.attend(spec, plan, inputs_, layer - first_, heads(q_, spec_.heads), out);
  saw("attention", layer, out);
}

void Stage::add_feed_forward(int layer) {
  const BlockWeights& block = weights_.blocks[layer];
  const TensorRef projected = rows(projected_, spec_.hidden);
  saw("ffn_norm", layer, norm());
  feed_forward_.run(block, norm(), std::exchange(input_ready_, false), projected, [&](std::string_view name, TensorRef tensor) { saw(name, layer, tensor); });
  saw("ffn_output", layer, projected);
  if (block.ffn_post_norm.weight.size() > 0) normalise(projected, block.ffn_post_norm, projected);
  const bool last = layer + 1 == first_ + count_;
  if (last) add_to_stream(projected, nullptr, {});
  else add_to_stream(projected, &weights_.blocks[layer + 1].attention_norm, roundings_[layer + 1].attention);
  saw("block_output", layer, x());
}

}  // namespace patchbay

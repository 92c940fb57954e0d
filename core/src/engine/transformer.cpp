#include "transformer.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace patchbay {

Transformer::Transformer(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, Attention& attention, KvStore& store,
                         ActivationMode mode)
    : spec_(spec), weights_(weights), ops_(ops), attention_(attention), store_(store), activation_(mode, ops),
      feed_forward_(spec, ops, activation_) {
  for (const Rope& rope : spec.ropes) ropes_.emplace_back(rope, ops);
}

void Transformer::reserve(std::int64_t rows) {
  rows_ = rows;
  if (rows <= capacity_) return;
  capacity_ = rows;
  const auto room = [&](std::int64_t cols) { return ops_.device().allocate(rows * cols * bytes_of(DType::f32)); };
  x_ = room(spec_.hidden);
  norm_ = room(spec_.hidden);
  projected_ = room(spec_.hidden);
  q_ = room(static_cast<std::int64_t>(spec_.heads) * spec_.head_size);
  heads_ = room(static_cast<std::int64_t>(spec_.heads) * spec_.head_size);
  k_ = room(static_cast<std::int64_t>(spec_.kv_heads) * spec_.head_size);
  v_ = room(static_cast<std::int64_t>(spec_.kv_heads) * spec_.head_size);
  feed_forward_.reserve(rows);
}

void Transformer::embed(const StepPlan& plan) {
  const View<float, 2> x = rows(x_, spec_.hidden);
  for (std::int64_t row = 0; row < rows_; ++row) {
    weights_.embedding.format->decode(weights_.embedding.packed, plan.tokens[row], x.rows(row, row + 1));
  }
  if (spec_.embedding_scale != 1) ops_.scale(x, spec_.embedding_scale);
  if (const Linear& positions = weights_.position_embedding; positions.format) {
    const View<float, 2> learned = rows(norm_, spec_.hidden);
    for (std::int64_t row = 0; row < rows_; ++row) {
      positions.format->decode(positions.packed, plan.positions[row], learned.rows(row, row + 1));
    }
    ops_.add(x, learned);
  }
  saw("embedding", -1, x);
}

std::span<const KvView> Transformer::views(const StepPlan& plan, int layer) {
  views_.clear();
  for (const StepSequence& sequence : plan.sequences) views_.push_back(store_.view(layer, sequence.seq));
  if (views_.empty() || attention_.reads(views_.front().layout)) return views_;
  const std::int64_t heads = spec_.kv_heads, size = spec_.head_size;
  gathered_.resize(views_.size());
  gathered_segments_.resize(views_.size());
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const std::int64_t length = views_[i].length, values = length * heads * size;
    gathered_[i].resize(static_cast<std::size_t>(2 * values));
    float* k = gathered_[i].data();
    gather(views_[i], store_.format(), View<float, 3>(k, {length, heads, size}), View<float, 3>(k + values, {length, heads, size}));
    KvSegment& all = gathered_segments_[i] = {};
    all.count = length;
    all.k = reinterpret_cast<const std::byte*>(k);
    all.v = reinterpret_cast<const std::byte*>(k + values);
    all.token_stride = heads * size * bytes_of(DType::f32);
    all.head_stride = size * bytes_of(DType::f32);
    views_[i] = {KvLayout{DType::f32, false}, std::span<const KvSegment>(&all, 1), length};
  }
  return views_;
}

/// What the format made of keys and values, for a probe alone: whatever attention reads, this is what the bytes mean.
void Transformer::show_cache(const StepPlan& plan, int layer) {
  for (const StepSequence& sequence : plan.sequences) {
    const KvView view = store_.view(layer, sequence.seq);
    const std::array<std::int64_t, 3> shape = {view.length, spec_.kv_heads, spec_.head_size};
    std::vector<float> k(static_cast<std::size_t>(shape[0] * shape[1] * shape[2])), v(k.size());
    gather(view, store_.format(), View<float, 3>(k.data(), shape), View<float, 3>(v.data(), shape));
    saw("k_cached", layer, View<float, 3>(k.data(), shape));
    saw("v_cached", layer, View<float, 3>(v.data(), shape));
  }
}

std::string Transformer::kv_path() const {
  const KvFormat& format = store_.format();
  return std::string(format.name()) + (attention_.reads(format.layout()) ? ", read natively" : ", gathered to fp32");
}

void Transformer::normalise(View<float, 2> x, const NormWeights& weights, View<float, 2> out) {
  const auto weight = weights.weight.view<float, 1>({x.shape[1]});
  if (spec_.norm == Norm::rms) return ops_.rms_norm(x, weight, spec_.norm_epsilon, out);
  ops_.layer_norm(x, weight, weights.bias.view<float, 1>({x.shape[1]}), spec_.norm_epsilon, out);
}

void Transformer::attention_block(const StepPlan& plan, int layer) {
  const BlockWeights& block = weights_.blocks[layer];
  const View<float, 2> x = rows(x_, spec_.hidden), norm = rows(norm_, spec_.hidden), projected = rows(projected_, spec_.hidden);
  normalise(x, block.attention_norm, norm);
  saw("attention_norm", layer, norm);
  activation_.reset(norm);
  project_heads(block, layer);
  turn_heads(plan, layer);
  attend(plan, layer);
  activation_.reset(rows(heads_, static_cast<std::int64_t>(spec_.heads) * spec_.head_size));
  multiply(block.attention_output, activation_, projected, ops_);
  saw("attention_output", layer, projected);
  if (block.attention_post_norm.weight.size() > 0) normalise(projected, block.attention_post_norm, projected);
  ops_.add(x, projected);
  saw("attention_residual", layer, x);
}

/// q, k and v from the present activation.
void Transformer::project_heads(const BlockWeights& block, int layer) {
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
void Transformer::norm_heads(const NormWeights& weights, View<float, 3> x) {
  if (weights.weight.size() == 0) return;
  const View<float, 2> each(x.data, {x.shape[0] * x.shape[1], x.shape[2]});
  normalise(each, weights, each);
}

void Transformer::turn_heads(const StepPlan& plan, int layer) {
  const int rope = spec_.rope_of_layer.empty() ? -1 : spec_.rope_of_layer[layer];
  if (rope >= 0) {
    ropes_[rope].apply(heads(q_, spec_.heads), plan.positions);
    ropes_[rope].apply(heads(k_, spec_.kv_heads), plan.positions);
  }
  saw("q_rope", layer, heads(q_, spec_.heads));
  saw("k_rope", layer, heads(k_, spec_.kv_heads));
}

/// Writes this step's keys and values, then attends over the cache.
void Transformer::attend(const StepPlan& plan, int layer) {
  const View<float, 3> k = heads(k_, spec_.kv_heads), v = heads(v_, spec_.kv_heads), out = heads(heads_, spec_.heads);
  for (const StepSequence& s : plan.sequences) {
    store_.write(layer, s.seq, k.rows(s.first_row, s.first_row + s.rows), v.rows(s.first_row, s.first_row + s.rows));
  }
  if (probe_) show_cache(plan, layer);
  AttentionSpec spec;
  spec.heads = spec_.heads;
  spec.kv_heads = spec_.kv_heads;
  spec.head_size = spec_.head_size;
  spec.scale = spec_.attention_scale;
  spec.window = spec_.windows[layer];
  spec.soft_cap = spec_.attention_soft_cap;
  attention_.run(spec, plan.sequences, views(plan, layer), heads(q_, spec_.heads), out, ops_.device());
  saw("attention", layer, out);
}

void Transformer::ffn_block(int layer) {
  const BlockWeights& block = weights_.blocks[layer];
  const View<float, 2> x = rows(x_, spec_.hidden), norm = rows(norm_, spec_.hidden), projected = rows(projected_, spec_.hidden);
  normalise(x, block.ffn_norm, norm);
  saw("ffn_norm", layer, norm);
  feed_forward_.run(block, norm, projected, [&](std::string_view name, TensorRef tensor) { saw(name, layer, tensor); });
  saw("ffn_output", layer, projected);
  if (block.ffn_post_norm.weight.size() > 0) normalise(projected, block.ffn_post_norm, projected);
  ops_.add(x, projected);
  saw("block_output", layer, x);
}

Step Transformer::finish(const StepPlan& plan) {
  // The norm works row by row, so it may run on the wanted rows alone.
  const std::int64_t hidden = spec_.hidden, wanted = static_cast<std::int64_t>(plan.logit_rows.size());
  const View<float, 2> x = rows(x_, hidden);
  Step step;
  if (plan.hidden) {
    const View<float, 2> norm = rows(norm_, hidden);
    normalise(x, weights_.output_norm, norm);
    saw("final_norm", -1, norm);
    step.hidden = norm;
  }
  if (wanted == 0) return step;
  selected_.resize(static_cast<std::size_t>(wanted * hidden));
  const View<float, 2> selected(selected_.data(), {wanted, hidden});
  for (std::int64_t i = 0; i < wanted; ++i) {
    std::memcpy(&selected(i, 0), &x(plan.logit_rows[i], 0), static_cast<std::size_t>(hidden) * sizeof(float));
  }
  normalise(selected, weights_.output_norm, selected);
  if (!plan.hidden) saw("final_norm", -1, selected);
  logits_.resize(static_cast<std::size_t>(wanted * spec_.vocabulary));
  const View<float, 2> logits(logits_.data(), {wanted, spec_.vocabulary});
  head(selected, logits);
  saw("logits", -1, logits);
  step.logits = logits;
  return step;
}

void Transformer::head(View<const float, 2> hidden, View<float, 2> logits) {
  activation_.reset(hidden);
  multiply(spec_.tied_head ? weights_.embedding : weights_.head, activation_, logits, ops_);
  if (spec_.logit_soft_cap > 0) ops_.soft_cap(logits, spec_.logit_soft_cap);
}

Step Transformer::forward(const StepPlan& plan) {
  reserve(static_cast<std::int64_t>(plan.tokens.size()));
  for (RotaryEmbedding& rope : ropes_) rope.prepare(plan.positions);
  embed(plan);
  for (int layer = 0; layer < spec_.layers; ++layer) {
    attention_block(plan, layer);
    ffn_block(layer);
  }
  return finish(plan);
}

}  // namespace patchbay

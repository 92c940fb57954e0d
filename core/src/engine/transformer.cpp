#include "transformer.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace patchbay {

Transformer::Transformer(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, Attention& attention, KvStore& store,
                         ActivationMode mode)
    : spec_(spec), weights_(weights), ops_(ops), attention_(attention), store_(store), activation_(mode, ops) {
  rope_.dims = spec.rope_dims;
  rope_.interleaved = spec.rope_interleaved;
  rope_.frequencies = spec.rope_frequencies.data();
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
  gate_ = room(spec_.ffn);
  up_ = room(spec_.ffn);
}

void Transformer::embed(const StepPlan& plan) {
  const View<float, 2> x = rows(x_, spec_.hidden);
  for (std::int64_t row = 0; row < rows_; ++row) {
    weights_.embedding.format->decode(weights_.embedding.packed, plan.tokens[row], x.rows(row, row + 1));
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

void Transformer::attention_block(const StepPlan& plan, int layer) {
  const BlockWeights& block = weights_.blocks[layer];
  const std::int64_t heads = spec_.heads, kv_heads = spec_.kv_heads, size = spec_.head_size;
  const View<float, 2> x = rows(x_, spec_.hidden), norm = rows(norm_, spec_.hidden), projected = rows(projected_, spec_.hidden);
  ops_.rms_norm(x, block.attention_norm.view<float, 1>({spec_.hidden}), spec_.norm_epsilon, norm);
  saw("attention_norm", layer, norm);

  activation_.reset(norm);
  block.q.kernel->run(activation_, rows(q_, heads * size));
  block.k.kernel->run(activation_, rows(k_, kv_heads * size));
  block.v.kernel->run(activation_, rows(v_, kv_heads * size));
  const auto q = q_.view<float, 3>({rows_, heads, size});
  const auto k = k_.view<float, 3>({rows_, kv_heads, size}), v = v_.view<float, 3>({rows_, kv_heads, size});
  saw("q", layer, q);
  saw("k", layer, k);
  saw("v", layer, v);
  ops_.rope(q, plan.positions, rope_);
  ops_.rope(k, plan.positions, rope_);
  saw("q_rope", layer, q);
  saw("k_rope", layer, k);

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
  const auto out = heads_.view<float, 3>({rows_, heads, size});
  attention_.run(spec, plan.sequences, views(plan, layer), q, out, ops_.device());
  saw("attention", layer, out);

  activation_.reset(rows(heads_, heads * size));
  block.attention_output.kernel->run(activation_, projected);
  saw("attention_output", layer, projected);
  ops_.add(x, projected);
  saw("attention_residual", layer, x);
}

void Transformer::ffn_block(const StepPlan&, int layer) {
  const BlockWeights& block = weights_.blocks[layer];
  const View<float, 2> x = rows(x_, spec_.hidden), norm = rows(norm_, spec_.hidden), projected = rows(projected_, spec_.hidden);
  const View<float, 2> gate = rows(gate_, spec_.ffn), up = rows(up_, spec_.ffn);
  ops_.rms_norm(x, block.ffn_norm.view<float, 1>({spec_.hidden}), spec_.norm_epsilon, norm);
  saw("ffn_norm", layer, norm);
  activation_.reset(norm);
  block.gate.kernel->run(activation_, gate);
  block.up.kernel->run(activation_, up);
  saw("ffn_gate", layer, gate);
  saw("ffn_up", layer, up);
  ops_.gated(spec_.gate, gate, up, gate);
  saw("ffn_gated", layer, gate);
  activation_.reset(gate);
  block.down.kernel->run(activation_, projected);
  saw("ffn_output", layer, projected);
  ops_.add(x, projected);
  saw("block_output", layer, x);
}

Step Transformer::finish(const StepPlan& plan) {
  // The norm works row by row, so it may run on the wanted rows alone.
  const std::int64_t hidden = spec_.hidden, wanted = static_cast<std::int64_t>(plan.logit_rows.size());
  const View<float, 2> x = rows(x_, hidden);
  const auto weight = weights_.output_norm.view<float, 1>({hidden});
  Step step;
  if (plan.hidden) {
    const View<float, 2> norm = rows(norm_, hidden);
    ops_.rms_norm(x, weight, spec_.norm_epsilon, norm);
    saw("final_norm", -1, norm);
    step.hidden = norm;
  }
  if (wanted == 0) return step;
  selected_.resize(static_cast<std::size_t>(wanted * hidden));
  const View<float, 2> selected(selected_.data(), {wanted, hidden});
  for (std::int64_t i = 0; i < wanted; ++i) {
    std::memcpy(&selected(i, 0), &x(plan.logit_rows[i], 0), static_cast<std::size_t>(hidden) * sizeof(float));
  }
  ops_.rms_norm(selected, weight, spec_.norm_epsilon, selected);
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
  (spec_.tied_head ? weights_.embedding : weights_.head).kernel->run(activation_, logits);
}

Step Transformer::forward(const StepPlan& plan) {
  reserve(static_cast<std::int64_t>(plan.tokens.size()));
  embed(plan);
  for (int layer = 0; layer < spec_.layers; ++layer) {
    attention_block(plan, layer);
    ffn_block(plan, layer);
  }
  return finish(plan);
}

}  // namespace patchbay

#include "transformer.h"

#include "device_rows.h"

namespace patchbay {
namespace {

/// Room for rows of `cols`, kept from step to step.
TensorRef room_for(Buffer& buffer, DType type, std::int64_t rows, std::int64_t cols, Device& device) {
  const std::int64_t bytes = rows * cols * bytes_of(type);
  if (buffer.size() < bytes) buffer = device.allocate(bytes);
  return buffer.tensor(type, {rows, cols});
}

}  // namespace

Transformer::Transformer(const ModelSpec& spec, const ModelWeights& weights, std::span<const StageParts> stages,
                         std::int64_t max_tokens, ActivationMode mode)
    : spec_(spec), weights_(weights) {
  for (const StageParts& parts : stages) {
    // Rounding to 8 bits is for the host's integer products.
    const bool host = parts.ops->device().is_host();
    stages_.emplace_back(spec, weights, parts, max_tokens, host ? mode : ActivationMode::fp32);
    graphs_.emplace_back(parts.ops->device());
  }
}

void Transformer::set_probe(Probe* probe) {
  probe_ = probe;
  for (Stage& stage : stages_) stage.set_probe(probe);
}

/// out(T,E): rows of an embedding, decoded where it lies, or on the host.
void Transformer::look_up(const Linear& table, std::span<const std::int32_t> ids, TensorRef ids_on_device, TensorRef out) {
  Ops& ops = stages_.front().ops();
  if (out.device != 0 && table.kernel && table.kernel->takes_rows()) return table.kernel->take_rows(ids_on_device, out);
  const auto rows = static_cast<std::int64_t>(ids.size());
  const bool direct = out.device == 0 && out.dtype == DType::f32;
  if (!direct) room_.resize(static_cast<std::size_t>(out.size()));
  const View<float, 2> decoded = direct ? out.as<float, 2>() : View<float, 2>(room_.data(), {rows, out.shape[1]});
  for (std::int64_t row = 0; row < rows; ++row) table.format->decode(table.packed, ids[row], decoded.rows(row, row + 1));
  if (!direct) write_rows(decoded, out, ops.device());
}

void Transformer::embed(const StepPlan& plan) {
  Stage& first = stages_.front();
  const TensorRef x = first.x();
  look_up(weights_.embedding, plan.tokens, first.inputs().tokens(), x);
  if (spec_.embedding_scale != 1) first.ops().scale(x, spec_.embedding_scale);
  if (weights_.position_embedding.format) {
    look_up(weights_.position_embedding, plan.positions, first.inputs().positions(), first.norm());
    first.ops().add(x, first.norm());
  }
  first.saw("embedding", -1, x);
}

/// By way of the host.
void Transformer::hand_over(Stage& from, Stage& to) {
  write_rows(read_rows(from.x(), room_, from.ops().device()), to.x(), to.ops().device());
}

/// What follows the last block, on its device.
void Transformer::finish(const StepPlan& plan) {
  Stage& last = stages_.back();
  Device& device = last.ops().device();
  const auto wanted = static_cast<std::int64_t>(plan.logit_rows.size());
  if (plan.hidden) {
    last.normalise(last.x(), weights_.output_norm, last.norm());
    last.saw("final_norm", -1, last.norm());
  }
  if (wanted == 0) return;
  // The norm works row by row, so it may run on the wanted rows alone.
  const TensorRef selected = room_for(selected_, last.x().dtype, wanted, spec_.hidden, device);
  last.ops().take_rows(last.x(), last.inputs().logit_rows(), selected);
  last.normalise(selected, weights_.output_norm, selected);
  if (!plan.hidden) last.saw("final_norm", -1, selected);
  const TensorRef logits = room_for(logits_, DType::f32, wanted, spec_.vocabulary, device);
  compute_logits(last, selected, logits);
  last.saw("logits", -1, logits);
  if (plan.draws.empty()) return;
  const std::int64_t bytes = wanted * bytes_of(DType::i32);
  if (drawn_.size() < bytes) drawn_ = device.allocate(bytes);
  last.ops().sample(logits, last.inputs().sampling(), drawn_.tensor(DType::i32, {wanted}));
}

/// The results, as the host reads them.
Step Transformer::collect(const StepPlan& plan) {
  Stage& last = stages_.back();
  Device& device = last.ops().device();
  const auto wanted = static_cast<std::int64_t>(plan.logit_rows.size());
  Step step;
  if (plan.hidden) step.hidden = read_rows(last.norm(), hidden_, device);
  if (!plan.draws.empty()) {
    tokens_.resize(plan.draws.size());
    device.copy(drawn_.tensor(DType::i32, {wanted}), View<Token, 1>(tokens_.data(), {wanted}));
    step.drawn = tokens_;
    return step;
  }
  if (wanted > 0) step.logits = read_rows(logits_.tensor(DType::f32, {wanted, spec_.vocabulary}), host_logits_, device);
  return step;
}

void Transformer::compute_logits(Stage& last, TensorRef hidden, TensorRef logits) {
  last.activation().reset(hidden);
  multiply(weights_.head.format ? weights_.head : weights_.embedding, last.activation(), logits, last.ops());
  if (spec_.logit_soft_cap > 0) last.ops().soft_cap(logits, spec_.logit_soft_cap);
}

void Transformer::head(View<const float, 2> hidden, View<float, 2> logits) {
  Stage& last = stages_.back();
  Device& device = last.ops().device();
  if (device.is_host()) return compute_logits(last, hidden, logits);
  const TensorRef there = room_for(selected_, device.activations(), hidden.shape[0], spec_.hidden, device);
  write_rows(hidden, there, device);
  const TensorRef result = room_for(logits_, DType::f32, hidden.shape[0], spec_.vocabulary, device);
  compute_logits(last, there, result);
  device.copy(result, logits);
}

/// A stage's layers, and behind the last one the head.
void Transformer::run(std::size_t stage, const StepPlan& plan) {
  Stage& here = stages_[stage];
  const auto body = [&] {
    here.run(plan);
    if (&here == &stages_.back()) finish(plan);
  };
  const bool replayable = !here.ops().device().is_host() && !probe_ && spec_.experts.count == 0;  // experts are chosen on the host
  if (replayable) graphs_[stage].run(plan, here.inputs().gpu(), body);
  else body();
}

Step Transformer::forward(const StepPlan& plan) {
  for (Stage& stage : stages_) stage.begin(plan);
  embed(plan);
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    if (i > 0) hand_over(stages_[i - 1], stages_[i]);
    run(i, plan);
  }
  return collect(plan);
}

}  // namespace patchbay

#include "quantize/rotations.h"

#include <algorithm>

namespace patchbay {
namespace {

using Turns = std::vector<std::shared_ptr<const Rotation>>;

void turn_all(const Turns& turns, View<float, 2> rows, Device& device) {
  device.parallel_for(rows.shape[0], 64, [&](std::int64_t begin, std::int64_t end, int) {
    for (const auto& rotation : turns) rotation->turn(rows.rows(begin, end));
  });
}

/// The outputs of w(R,C) in groups of D rows: each becomes Q^T of itself, since y Q = x (Q^T W)^T.
void turn_outputs(const Turns& turns, View<float, 2> w, View<float, 1> bias, std::int64_t group, Device& device) {
  std::vector<float> columns(static_cast<std::size_t>(w.size()));
  const View<float, 2> transposed(columns.data(), {w.shape[1], w.shape[0]});
  for (std::int64_t r = 0; r < w.shape[0]; ++r)
    for (std::int64_t c = 0; c < w.shape[1]; ++c) transposed(c, r) = w(r, c);
  turn_all(turns, View<float, 2>(columns.data(), {w.size() / group, group}), device);
  for (std::int64_t r = 0; r < w.shape[0]; ++r)
    for (std::int64_t c = 0; c < w.shape[1]; ++c) w(r, c) = transposed(c, r);
  if (bias.size() > 0) turn_all(turns, View<float, 2>(bias.data, {bias.size() / group, group}), device);
}

/// The norm's weights into the columns of what reads it.
void fold(View<float, 1> norm, View<float, 2> w) {
  for (std::int64_t r = 0; r < w.shape[0]; ++r)
    for (std::int64_t c = 0; c < w.shape[1]; ++c) w(r, c) *= norm[c];
}

}  // namespace

Rotations::Rotations(const std::vector<std::shared_ptr<Transform>>& transforms, const ModelSpec& spec) {
  bool looks_at_inputs = false;
  for (const auto& transform : transforms) {
    auto residual = transform->residual_rotation(spec.hidden), values = transform->value_rotation(spec.head_size);
    if ((residual || values) && looks_at_inputs)
      throw Error("weights.transforms", "a rotation stands behind a transform that looks at inputs, but rotations are folded before any block runs", {},
                  "name the rotation before it");
    looks_at_inputs = looks_at_inputs || transform->needs().any();
    if (!residual && !values && residual_.empty() && values_.empty()) ++before_;
    if (residual) residual_.push_back(std::move(residual));
    if (values) values_.push_back(std::move(values));
  }
  if (residual_.empty()) return;
  const char* const reason = spec.norm == Norm::layer ? "its norms take the mean off, which a rotation does not pass"
                             : spec.place(Role::attention_post_norm) || spec.place(Role::ffn_post_norm)
                                 ? "its norms behind attention and feed-forward part have weights of their own"
                                 : nullptr;
  if (reason) throw Error("weights.transforms", "the residual stream of architecture " + spec.architecture + " cannot be turned: " + reason);
}

void Rotations::turn(EditableBlock& block, const ModelSpec& spec, Device& device) const {
  if (residual_.empty() && values_.empty()) return;
  const std::int64_t size = spec.head_size;
  for (BlockGroup& part : block.groups()) {
    LinearGroup& group = part.group;
    if (part.stage == BlockStage::attention_out && !values_.empty()) {
      EditableMatrix &output = group.consumers.front(), &v = group.producer.front();
      turn_outputs(values_, v.w, v.bias, size, device);
      turn_all(values_, View<float, 2>(output.w.data, {output.w.size() / size, size}), device);
    }
    if (residual_.empty()) continue;
    const bool reads_residual = part.stage == BlockStage::attention_in || part.stage == BlockStage::ffn_in;
    for (EditableMatrix& consumer : group.consumers) {
      if (!reads_residual) {
        turn_outputs(residual_, consumer.w, consumer.bias, spec.hidden, device);
        continue;
      }
      fold(group.norm_weight, consumer.w);
      turn_all(residual_, consumer.w, device);
    }
    if (reads_residual) std::fill_n(group.norm_weight.data, group.norm_weight.size(), 1.0f);
  }
}

void Rotations::turn_rows(View<float, 2> rows, Device& device) const { turn_all(residual_, rows, device); }

void Rotations::fold_into_head(View<float, 2> head, View<float, 1> norm, Device& device) const {
  if (residual_.empty()) return;
  fold(norm, head);
  turn_all(residual_, head, device);
}

}  // namespace patchbay

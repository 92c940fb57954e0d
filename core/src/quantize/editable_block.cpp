#include "quantize/editable_block.h"

#include <algorithm>
#include <cmath>

#include "device_rows.h"
#include "patchbay/plugin.h"
#include "quantize/quantize_matrix.h"

namespace patchbay {
namespace {

View<float, 1> floats(const VectorWeight& vector) { return vector.values.view<float, 1>({vector.size() / bytes_of(DType::f32)}); }

/// Of v's outputs, which are the values' heads, those that the columns of the output matrix read: H / G heads of queries share one.
std::vector<std::int32_t> value_rows(const ModelSpec& spec) {
  std::vector<std::int32_t> rows;
  for (int head = 0; head < spec.heads; ++head)
    for (int d = 0; d < spec.head_size; ++d) rows.push_back(head / (spec.heads / spec.kv_heads) * spec.head_size + d);
  return rows;
}

std::vector<std::int32_t> own_rows(std::int64_t count) {
  std::vector<std::int32_t> rows;
  for (std::int32_t c = 0; c < count; ++c) rows.push_back(c);
  return rows;
}

}  // namespace

Needs LayerInput::needs() const {
  Needs needs;
  for (const BlockMatrix* reader : readers) needs = needs | reader->choice->needs();
  return needs;
}

EditableBlock::EditableBlock(BlockWeights& block, const ModelSpec& spec, const WeightPlan& plan, int layer, bool edits, Ops& ops)
    : block_(block), spec_(spec), plan_(plan), layer_(layer), edits_(edits), ops_(ops) {
  add(BlockStage::attention_in, {&block.q, &block.k, &block.v});
  add(BlockStage::attention_out, {&block.attention_output});
  if (!block.experts.empty()) {
    add_experts();
    return;
  }
  add(BlockStage::ffn_in, {&block.ffn.gate, &block.ffn.up});
  add(BlockStage::ffn_out, {&block.ffn.down});
}

void EditableBlock::add_experts() {
  add(BlockStage::ffn_in, {&block_.router, &block_.shared.gate, &block_.shared.up});
  for (FeedForwardWeights& expert : block_.experts) {
    add(BlockStage::ffn_in, {&expert.gate, &expert.up});
    add(BlockStage::ffn_out, {&expert.down});
  }
  if (block_.shared.down.format) add(BlockStage::ffn_out, {&block_.shared.down});
}

void EditableBlock::add(BlockStage stage, std::initializer_list<Linear*> readers) {
  LayerInput& input = inputs_.emplace_back();
  input.stage = stage;
  for (Linear* linear : readers) {
    if (!linear->format) continue;  // a role that the model lacks
    BlockMatrix& matrix = matrices_.emplace_back();
    matrix.linear = linear;
    matrix.stored = linear->packed;
    matrix.stored_format = linear->format;
    matrix.choice = &plan_.choice(label_of(matrix.name()));
    if (edits_) bring_to_floats(matrix);
    input.readers.push_back(&matrix);
  }
}

void EditableBlock::bring_to_floats(BlockMatrix& matrix) {
  matrix.values = decoded(*matrix.linear, ops_.device());
  Linear& linear = *matrix.linear;
  linear.format = make<WeightFormat>({"fp32", nullptr});
  linear.packed.parts = {View<float, 2>(matrix.values.data(), {linear.packed.rows, linear.packed.cols})};
  linear.packed.storage = nullptr;
  linear.kernel = linear.format->prepare(linear.packed, ops_, ActivationMode::fp32);
}

void EditableBlock::use(BlockMatrix& matrix, const QuantizedMatrix& quantized) {
  Linear& linear = *matrix.linear;
  linear.packed = quantized.packed;
  linear.format = quantized.format;
  matrix.values = {};
  // Decoded once for all samples, not once for each: the same products bit for bit.
  const auto values = std::make_shared<const std::vector<float>>(decoded(linear, ops_.device()));
  const View<const float, 2> w(values->data(), {linear.packed.rows, linear.packed.cols});
  linear.kernel = multiply_as_stored(linear.format->label(), {matrix.name(), w.shape[0], w.shape[1], {w}, values, {}}, w, ops_);
}

EditableMatrix EditableBlock::editable(BlockMatrix& matrix) const {
  EditableMatrix editable;
  editable.name = matrix.name();
  editable.w = {matrix.values.data(), {matrix.stored.rows, matrix.stored.cols}};
  if (matrix.linear->bias.size() > 0) editable.bias = floats(matrix.linear->bias);
  editable.format = matrix.choice->format;
  return editable;
}

void EditableBlock::add_consumers(LinearGroup& group, const LayerInput& input) {
  for (BlockMatrix* reader : input.readers) {
    group.name += (group.consumers.empty() ? "" : ",") + reader->name();
    group.consumers.push_back(editable(*reader));
  }
}

BlockMatrix* EditableBlock::matrix_of(const Linear& linear) {
  const auto found = std::ranges::find(matrices_, &linear, &BlockMatrix::linear);
  return found == matrices_.end() ? nullptr : &*found;
}

LinearGroup EditableBlock::group_of(const LayerInput& input) {
  LinearGroup group;
  group.statistics = input.statistics;
  add_consumers(group, input);
  const Linear* const first = input.readers.front()->linear;
  const auto made_by = [&](const NormWeights& norm) {
    group.norm_weight = floats(norm.weight);
    if (norm.bias.size() > 0) group.norm_bias = floats(norm.bias);
  };
  const auto made_by_rows = [&](const Linear& producer, std::vector<std::int32_t> rows) {
    group.producer = {editable(*matrix_of(producer))};
    group.producer_row = std::move(rows);
  };
  if (input.stage == BlockStage::attention_in) made_by(block_.attention_norm);
  if (input.stage == BlockStage::ffn_in) made_by(block_.ffn_norm);
  if (first == &block_.attention_output) made_by_rows(block_.v, value_rows(spec_));
  if (!spec_.gated) return group;  // what stands before down is then a function of up that no factor passes
  const auto is_down_of = [&](const FeedForwardWeights& part) {
    if (first == &part.down) made_by_rows(part.up, own_rows(part.down.packed.cols));
  };
  is_down_of(block_.ffn);
  is_down_of(block_.shared);
  for (const FeedForwardWeights& expert : block_.experts) is_down_of(expert);
  return group;
}

std::vector<BlockGroup> EditableBlock::groups() {
  std::vector<BlockGroup> groups;
  groups.reserve(inputs_.size());
  LinearGroup* of_experts = nullptr;  // router and all experts read what one norm makes
  for (const LayerInput& input : inputs_) {
    if (input.stage == BlockStage::ffn_in && of_experts) {
      add_consumers(*of_experts, input);
      continue;
    }
    groups.push_back({input.stage, group_of(input)});
    LinearGroup& group = groups.back().group;
    if (input.stage != BlockStage::ffn_in || block_.experts.empty()) continue;
    of_experts = &group;
    if (block_.shared_router.size() == 0) continue;
    const View<float, 1> router = floats(block_.shared_router);
    group.consumers.push_back({tensor_label(*spec_.place(Role::shared_router), layer_), View<float, 2>(router.data, {1, router.shape[0]}), {}, nullptr});
  }
  return groups;
}

void EditableBlock::note(const LinearGroup& group, const std::string& line) {
  for (const EditableMatrix& consumer : group.consumers) {
    const auto matrix = std::ranges::find(matrices_, consumer.name, &BlockMatrix::name);
    if (matrix == matrices_.end() || !matrix->choice->format) continue;
    matrix->note += (matrix->note.empty() ? "" : "; ") + line;
    return;
  }
}

void EditableBlock::keep_norm(Role role, const NormWeights& norm, QuantizedModel& result) const {
  const TensorPlace* place = spec_.place(role);
  if (!place) return;
  const auto keep = [&](const VectorWeight& vector, const std::string& label) {
    const View<float, 1> values = floats(vector);
    if (vector.size() > 0) result.vectors[label].assign(values.data, values.data + values.size());
  };
  const std::string label = tensor_label(*place, layer_);
  keep(norm.weight, label);
  keep(norm.bias, bias_name(label));
}

void EditableBlock::keep_changed(QuantizedModel& result) {
  if (!edits_) return;
  keep_norm(Role::attention_norm, block_.attention_norm, result);
  keep_norm(Role::ffn_norm, block_.ffn_norm, result);
  if (block_.shared_router.size() > 0) {
    const View<float, 1> router = floats(block_.shared_router);
    result.vectors[tensor_label(*spec_.place(Role::shared_router), layer_)].assign(router.data, router.data + router.size());
  }
  for (BlockMatrix& matrix : matrices_) {
    if (matrix.linear->bias.size() > 0) {
      const View<float, 1> bias = floats(matrix.linear->bias);
      result.vectors[bias_name(matrix.name())].assign(bias.data, bias.data + bias.size());
    }
    if (matrix.choice->format) continue;
    Linear stored;
    stored.packed = matrix.stored;
    stored.format = matrix.stored_format;
    if (decoded(stored, ops_.device()) == matrix.values) continue;
    QuantizedMatrix plain = in_plain_numbers(matrix.name(), View<const float, 2>(matrix.values.data(), {matrix.stored.rows, matrix.stored.cols}),
                                             *matrix.stored_format, ops_.device());
    use(matrix, plain);
    result.matrices[matrix.name()] = std::move(plain);
  }
}

QuantizedMatrix in_plain_numbers(const std::string& name, View<const float, 2> w, const WeightFormat& stored, Device& device) {
  constexpr float kLargestHalf = 65504;
  const bool fits = std::all_of(w.data, w.data + w.size(), [](float value) { return std::fabs(value) <= kLargestHalf; });
  const std::string kept = stored.label() == "bf16" || stored.label() == "fp32" ? stored.label() : fits ? "fp16" : "fp32";
  QuantizedMatrix result;
  result.quantized = false;
  result.note = "changed by a transform and not quantised: kept in " + kept;
  result.format = make<WeightFormat>({kept, nullptr});
  result.packed = result.format->allocate(name, w.shape[0], w.shape[1], device);
  write_rows(w, result.packed.parts.at(0), device);
  return result;
}

}  // namespace patchbay

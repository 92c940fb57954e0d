#include "model_spec.h"

#include <algorithm>

namespace patchbay {
namespace {

bool per_layer(const TensorPlace& place) { return place.name.find('*') != std::string::npos; }

std::string filled(std::string pattern, int layer, int expert, std::string_view suffix) {
  if (const auto star = pattern.find('*'); star != std::string::npos) pattern.replace(star, 1, std::to_string(layer));
  if (const auto hash = pattern.find('#'); hash != std::string::npos) pattern.replace(hash, 1, std::to_string(expert));
  return pattern.append(suffix);
}

enum class In { all_layers, dense_layers, expert_layers };

In layers_with(Role role) {
  switch (role) {
    case Role::gate: case Role::up: case Role::down: return In::dense_layers;
    case Role::router: case Role::expert_gate: case Role::expert_up: case Role::expert_down:
    case Role::shared_router: case Role::shared_gate: case Role::shared_up: case Role::shared_down: return In::expert_layers;
    default: return In::all_layers;
  }
}

}  // namespace

bool has_bf16(const ModelFile& file) {
  return std::ranges::find(file.tensors(), "bf16", &FileTensor::format) != file.tensors().end();
}

const TensorPlace* ModelSpec::place(Role role) const {
  for (const TensorPlace& place : places) {
    if (place.role == role) return &place;
  }
  return nullptr;
}

void ModelSpec::for_each_tensor(FunctionRef<void(const TensorPlace&, int, int)> body) const {
  for (const TensorPlace& place : places) {
    if (!per_layer(place)) {
      body(place, -1, 0);
      continue;
    }
    const In in = layers_with(place.role);
    const int copies = place.name.find('#') == std::string::npos ? 1 : experts.count;
    for (int layer = 0; layer < layers; ++layer) {
      if (in != In::all_layers && expert_layer[layer] != (in == In::expert_layers)) continue;
      for (int expert = 0; expert < copies; ++expert) body(place, layer, expert);
    }
  }
}

MatrixShape matrix_shape(const ModelSpec& spec, Role role) {
  const std::int64_t hidden = spec.hidden, size = spec.head_size, q = spec.heads * size, k = spec.kv_heads * size;
  const Experts& experts = spec.experts;
  switch (role) {
    case Role::embedding: case Role::head: return {spec.vocabulary, hidden};
    case Role::position_embedding: return {spec.context, hidden};
    case Role::output_norm: case Role::attention_norm: case Role::attention_post_norm: case Role::ffn_norm:
    case Role::ffn_post_norm: case Role::shared_router: return {hidden, 1};
    case Role::q_norm: case Role::k_norm: return {size, 1};
    case Role::q: return {q, hidden};
    case Role::k: case Role::v: return {k, hidden};
    case Role::attention_output: return {hidden, q};
    case Role::gate: case Role::up: return {spec.ffn, hidden};
    case Role::down: return {hidden, spec.ffn};
    case Role::router: return {experts.count, hidden};
    case Role::expert_gate: case Role::expert_up: return {experts.ffn, hidden};
    case Role::expert_down: return {hidden, experts.ffn};
    case Role::shared_gate: case Role::shared_up: return {experts.shared_ffn, hidden};
    case Role::shared_down: return {hidden, experts.shared_ffn};
  }
  return {};
}

void fit_to_length(ModelSpec& spec, std::int64_t max_tokens) {
  for (Rope& rope : spec.ropes) {
    if (!rope.long_frequencies.empty() && max_tokens > rope.original_context) rope.frequencies = rope.long_frequencies;
  }
}

std::string tensor_name(const TensorPlace& place, int layer, int expert, std::string_view suffix) {
  return filled(place.name, layer, expert, suffix);
}
std::string tensor_label(const TensorPlace& place, int layer, std::string_view suffix) { return filled(place.label, layer, 0, suffix); }

}  // namespace patchbay

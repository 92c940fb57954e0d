// Which quantizer and format each tensor of a run gets.
#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "gguf_types.h"
#include "kernel_choice.h"
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"
#include "patchbay/rounded_inputs.h"
#include "registry.h"
#include "weights.h"

namespace patchbay {
namespace {

constexpr std::int64_t kDivided = 1 << 16;  // the length of a row that every format's blocks divide

std::string stem(std::string_view tensor) {
  constexpr std::string_view kSuffix = ".weight";
  return std::string(tensor.ends_with(kSuffix) ? tensor.substr(0, tensor.size() - kSuffix.size()) : tensor);
}

/// Stays as stored unless a rule names it: what is no linear layer of a block, and the routers (a token sent to another expert
/// costs more than their few bytes). With `all` embedding and head are quantised too.
bool kept_by_default(Role role, bool all) {
  return role == Role::position_embedding || role == Role::router || role == Role::shared_router ||
         (!all && (role == Role::embedding || role == Role::head));
}

/// Of a format that is called as a plugin is; else nothing, and it runs with the kernels that it was made with.
PluginSpec spec_of(const WeightFormat& format) {
  const std::vector<std::string> names = Registry::instance().names("formats");
  return std::ranges::find(names, format.label()) == names.end() ? PluginSpec() : PluginSpec{format.label(), nullptr};
}

/// What a mix of formats says of a tensor that other formats leave as stored: the mixes of GGUF name one for embedding and head.
WeightPlan::Choice named_by_mix(const WeightPlan::Choice& by_default, Role role, const TensorFacts& facts) {
  const bool outside = role == Role::embedding || role == Role::head;
  if (!outside || !by_default.format || !by_default.format->for_tensor(facts)) return {};
  return by_default;
}

/// A scale of all rows of a step makes each row's bits depend on the others.
void refuse_common_scale(const WeightFormat& format, const std::string& tensor) {
  const auto rounding = input_rounding_of(&format);
  if (!rounding || rounding->scale != RowRounding::Scale::tensor) return;
  throw Error("tensor " + tensor + ": format " + format.label(),
              "deterministic: true, and one scale for the inputs of all tokens of a step makes a token's result depend on the others",
              "activations: token or static", "or set deterministic: false");
}

}  // namespace

Needs WeightPlan::Choice::needs() const { return format ? quantizer->needs() | format->needs() : Needs(); }

Needs WeightPlan::needs() const {
  Needs needs;
  for (const auto& [label, choice] : choices_) needs = needs | choice.needs();
  return needs;
}

std::shared_ptr<WeightFormat> stored_format(const ModelFile& file, const FileTensor& tensor) {
  if (tensor.format.empty()) {
    throw Error(file.path(),
                "tensor " + std::string(tensor.name) + " has type " + std::string(tensor.type_name) + ", which is not computed",
                computed_types(), "requantise the model to one of these");
  }
  return make<WeightFormat>(stored_spec(tensor));
}

PluginSpec stored_spec(const FileTensor& tensor) { return tensor.module ? tensor.module->format() : PluginSpec{std::string(tensor.format), nullptr}; }

std::int64_t rows_of(const FileTensor& tensor) {
  std::int64_t rows = 1;
  for (std::size_t i = 1; i < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  return rows;
}

WeightPlan::WeightPlan(const ModelFile& file, const ModelSpec& spec, const RunConfig& config) {
  const auto made = [](const WeightRule& rule) {
    Choice choice;
    choice.quantizer = make<Quantizer>(rule.quantizer);
    if (!choice.quantizer->keeps_stored()) {
      choice.spec = rule.format;
      choice.format = make<WeightFormat>(rule.format);
    }
    return choice;
  };
  const Choice by_default = made(config.weights);
  std::vector<Choice> by_rule;
  for (const WeightRule& rule : config.rules) by_rule.push_back(made(rule));
  std::vector<bool> used(config.rules.size());
  std::set<const FileTensor*> seen;
  spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) {
    const FileTensor* tensor = file.tensor(tensor_name(place, layer, expert));
    if (!tensor) throw Error(file.path(), "tensor " + tensor_name(place, layer, expert) + " is missing");
    if (!seen.insert(tensor).second) return;  // another part of a fused tensor
    tensors_.push_back(tensor);
    if (const FileTensor* bias = file.tensor(tensor_name(place, layer, expert, ".bias"))) tensors_.push_back(bias);
    if (matrix_shape(spec, place.role).cols == 1) return;  // a norm, or the router of an expert that all share
    const std::string label = tensor_label(place, layer), short_name = stem(label);
    const std::int64_t rows = rows_of(*tensor), cols = tensor->shape[0];
    matrices_.push_back({label, tensor, place.transposed ? cols : rows, place.transposed ? rows : cols, place.transposed});
    TensorFacts facts{short_name, layer, spec.layers, matrices_.back().rows, matrices_.back().cols, spec.heads, spec.kv_heads, spec.experts.count, false};
    facts.is_head = place.role == Role::head || (place.role == Role::embedding && spec.tied_head);
    Choice& choice = choices_[label];
    choice = kept_by_default(place.role, config.quantize_all) ? named_by_mix(by_default, place.role, facts) : by_default;
    for (std::size_t i = config.rules.size(); i-- > 0;) {  // backwards, so that the first rule has the last word
      if (fnmatch(config.rules[i].match.c_str(), short_name.c_str(), 0) != 0) continue;
      used[i] = true;
      choice = by_rule[i];
      choice.by_rule = true;
    }
    if (const auto mixed = choice.format ? choice.format->for_tensor(facts) : nullptr) {
      facts.cols = kDivided;
      const std::string wanted = choice.format->for_tensor(facts)->label();
      choice.instead_of = wanted == mixed->label() ? "" : wanted;
      choice.format = mixed;
      choice.spec = spec_of(*mixed);
    }
  });
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    throw Error("weights.rules[" + std::to_string(i) + "].match",
                "\"" + config.rules[i].match + "\" matches no weight of the model",
                "names such as blk.0.attn_q, *.ffn_down, token_embd (layers 0 to " + std::to_string(spec.layers - 1) + ")");
  }
}

const WeightPlan::Choice& WeightPlan::choice(const std::string& tensor) const {
  static const Choice kStored;
  const auto found = choices_.find(tensor);
  return found == choices_.end() ? kStored : found->second;
}

void check_weights(const ModelFile& file, const WeightPlan& plan, const RunConfig& config) {
  std::set<std::string> formats;
  for (const FileTensor* tensor : plan.tensors()) stored_format(file, *tensor);
  for (const WeightPlan::Matrix& matrix : plan.matrices()) {
    const auto stored = stored_format(file, *matrix.tensor);
    const auto& wanted = plan.choice(matrix.label).format;
    try {
      (wanted ? *wanted : *stored).layout(matrix.rows, matrix.cols);
    } catch (const Error& error) {
      throw error.at("tensor " + matrix.label);
    }
    if (config.deterministic && wanted) refuse_common_scale(*wanted, matrix.label);
    if (wanted && plan.choice(matrix.label).spec.type.empty()) continue;
    formats.insert(wanted ? plan.choice(matrix.label).spec.type : matrix.transposed ? "fp32" : std::string(matrix.tensor->format));
  }
  check_weight_kernel(config, {formats.begin(), formats.end()});
}

}  // namespace patchbay

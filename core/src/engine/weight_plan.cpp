// Which quantizer and format each tensor of a run gets.
#include <fnmatch.h>

#include <algorithm>
#include <optional>
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

/// Which rule decides for a matrix, and that none is in vain.
class RuleMatches {
 public:
  explicit RuleMatches(const std::vector<WeightRule>& rules) : rules_(rules), uses_(rules.size()) {}

  /// The first rule that matches.
  std::optional<std::size_t> first(const std::string& name) {
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      if (!matches(i, name)) continue;
      uses_[i].matched = true;
      if (first) uses_[i].before.insert(*first);
      else first = i, uses_[i].decides = true;
    }
    return first;
  }
  /// What no rule can speak of.
  void saw_vector(const std::string& name) {
    for (std::size_t i = 0; i < rules_.size(); ++i)
      if (uses_[i].vector.empty() && matches(i, name)) uses_[i].vector = name;
  }
  /// @throws Error for a rule that decides nothing.
  void require_all_used(int layers) const {
    for (std::size_t i = 0; i < rules_.size(); ++i) {
      const Use& use = uses_[i];
      const std::string where = "weights.rules[" + std::to_string(i) + "].match", pattern = "\"" + rules_[i].match + "\"";
      const std::string names = "names such as blk.0.attn_q, *.ffn_down, token_embd (layers 0 to " + std::to_string(layers - 1) + ")";
      if (!use.matched && !use.vector.empty())
        throw Error(where, pattern + " matches norms and other vectors alone (" + use.vector + "): they are not quantised, and stay as stored", names, "name matrices, or leave the rule out");
      if (!use.matched && stem(rules_[i].match) != rules_[i].match) throw Error(where, pattern + " matches no weight of the model", names, "leave out \".weight\"");
      if (!use.matched) throw Error(where, pattern + " matches no weight of the model", names);
      if (!use.decides) throw Error(where, pattern + " decides for no matrix: the first rule that matches wins, and all that it matches go to " + earlier(use.before), "", "put it before, or leave it out");
    }
  }

 private:
  struct Use {
    bool matched = false, decides = false;
    std::string vector;            ///< the first that it matches
    std::set<std::size_t> before;  ///< rules that took a matrix from it
  };
  bool matches(std::size_t i, const std::string& name) const { return fnmatch(rules_[i].match.c_str(), name.c_str(), 0) == 0; }
  std::string earlier(const std::set<std::size_t>& rules) const {
    std::string text;
    for (const std::size_t i : rules) text += (text.empty() ? "rules[" : " and rules[") + std::to_string(i) + "] (\"" + rules_[i].match + "\")";
    return text;
  }

  const std::vector<WeightRule>& rules_;
  std::vector<Use> uses_;
};

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
  RuleMatches rules(config.rules);
  std::set<const FileTensor*> seen;
  spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) {
    const FileTensor* tensor = file.tensor(tensor_name(place, layer, expert));
    if (!tensor) throw Error(file.path(), "tensor " + tensor_name(place, layer, expert) + " is missing");
    if (!seen.insert(tensor).second) return;  // another part of a fused tensor
    tensors_.push_back(tensor);
    const std::string label = tensor_label(place, layer), short_name = stem(label);
    if (const FileTensor* bias = file.tensor(tensor_name(place, layer, expert, ".bias"))) {
      tensors_.push_back(bias);
      rules.saw_vector(short_name + ".bias");
    }
    if (matrix_shape(spec, place.role).cols == 1) return rules.saw_vector(short_name);  // a norm, or the router of an expert that all share
    const std::int64_t rows = rows_of(*tensor), cols = tensor->shape[0];
    matrices_.push_back({label, tensor, place.transposed ? cols : rows, place.transposed ? rows : cols, place.transposed});
    TensorFacts facts{short_name, layer, spec.layers, matrices_.back().rows, matrices_.back().cols, spec.heads, spec.kv_heads, spec.experts.count, false};
    facts.is_head = place.role == Role::head || (place.role == Role::embedding && spec.tied_head);
    Choice& choice = choices_[label];
    choice = kept_by_default(place.role, config.quantize_all) ? named_by_mix(by_default, place.role, facts) : by_default;
    if (const auto rule = rules.first(short_name)) {
      choice = by_rule[*rule];
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
  rules.require_all_used(spec.layers);
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

// ModelSpec from the metadata of a GGUF file. What an architecture's files leave unsaid is in the table of architectures.
#include <cmath>
#include <cstring>
#include <iterator>

#include "engine/architectures.h"
#include "engine/model_spec_hf.h"
#include "engine/rope.h"
#include "model_spec.h"

namespace patchbay {
namespace {

/// Keys that change the computation in ways that no architecture of the table has. At their neutral value they may stand.
struct UncomputedKey { std::string_view name; double neutral; };
constexpr UncomputedKey kUncomputed[] = {
    {"attention.clamp_kqv", 0},       {"attention.max_alibi_bias", 0}, {"logit_scale", 1},         {"residual_scale", 1},
    {"embedding_scale", 1},           {"expert_weights_scale", 1},     {"expert_gating_func", 1},  {"expert_group_count", 1},
    {"router_logit_softcapping", 0},  {"rope.scale_linear", 1},        {"leading_dense_block_count", 0},
    {"rope.scaling.yarn_ext_factor", 1}, {"rope.scaling.yarn_log_multiplier", 0}, {"interleave_moe_layer_step", 1},
};

class Reader {
 public:
  explicit Reader(const ModelFile& file) : file_(file), architecture_(file.string("general.architecture")) {
    const ArchitectureRule* rule = find_architecture(architecture_);
    if (!rule) throw Error(file.path(), "architecture \"" + architecture_ + "\" is not computed", architecture_names());
    rule_ = rule;
  }

  ModelSpec read() {
    refuse_uncomputed();
    read_sizes();
    read_attention();
    read_windows();
    if (rule_->rope) read_ropes();
    read_experts();
    read_places();
    spec_.tied_head = spec_.place(Role::head) == nullptr;
    if (rule_->leaves_fp16 || has_bf16(file_)) spec_.native_type = DType::bf16;
    return std::move(spec_);
  }

 private:
  [[noreturn]] void fail(std::string_view key, std::string problem, std::string allowed = {}) const {
    throw Error(file_.path() + ": " + key_of(key), std::move(problem), std::move(allowed));
  }
  [[noreturn]] void missing(const std::string& tensor) const {
    throw Error(file_.path(), "tensor " + tensor + " is missing", "", "the file is not a whole model: fetch it again");
  }
  std::string key_of(std::string_view name) const { return architecture_ + "." + std::string(name); }
  int count(std::string_view name) const {
    const std::uint64_t value = file_.integer(key_of(name));
    if (value > (1u << 30)) fail(name, "is " + std::to_string(value), "at most 2^30");
    return static_cast<int>(value);
  }
  int count_or(std::string_view name, int otherwise) const { return file_.find(key_of(name)) ? count(name) : otherwise; }
  /// A positive, finite number.
  double positive(std::string_view name) const {
    const double value = file_.real(key_of(name));
    if (!(value > 0) || !std::isfinite(value)) fail(name, "is " + std::to_string(value), "above 0");
    return value;
  }
  double positive_or(std::string_view name, double otherwise) const {
    return file_.find(key_of(name)) ? positive(name) : otherwise;
  }
  /// 0 where a key says 0 or is not there: no soft cap, no window.
  double cap(std::string_view name) const { return file_.maybe_real(key_of(name)).value_or(0) == 0 ? 0 : positive(name); }

  void refuse_uncomputed() const {
    for (const UncomputedKey& key : kUncomputed) {
      const MetaEntry* entry = file_.find(key_of(key.name));
      if (!entry) continue;
      const bool whole =
          std::holds_alternative<std::uint64_t>(entry->value) || std::holds_alternative<std::int64_t>(entry->value);
      const double value = whole ? static_cast<double>(file_.integer(key_of(key.name))) : file_.real(key_of(key.name));
      if (value != key.neutral)
        fail(key.name, "is " + std::to_string(value) + ", which is not computed", std::to_string(key.neutral));
    }
  }

  void read_sizes() {
    spec_.architecture = architecture_;
    spec_.layers = count("block_count");
    spec_.hidden = count("embedding_length");
    spec_.ffn = count("feed_forward_length");
    spec_.context = count("context_length");
    const FileTensor* embedding = file_.tensor("token_embd.weight");
    if (!embedding) missing("token_embd.weight");
    spec_.vocabulary = static_cast<int>(embedding->shape.at(1));
    spec_.norm = rule_->norm;
    spec_.norm_epsilon = static_cast<float>(
        positive(rule_->norm == Norm::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"));
    spec_.gate = rule_->gate;
    spec_.gated = rule_->gated;
    if (rule_->scaled_embedding) spec_.embedding_scale = std::sqrt(static_cast<float>(spec_.hidden));
    spec_.logit_soft_cap = static_cast<float>(cap("final_logit_softcapping"));
  }

  void read_attention() {
    spec_.heads = count("attention.head_count");
    spec_.kv_heads = count_or("attention.head_count_kv", spec_.heads);
    spec_.head_size = count_or("attention.key_length", spec_.hidden / spec_.heads);
    if (count_or("attention.value_length", spec_.head_size) != spec_.head_size) {
      fail("attention.value_length", "differs from the keys' length, which is not computed", std::to_string(spec_.head_size));
    }
    const int divisor = spec_.layers == rule_->wide_scale_layers ? spec_.hidden / spec_.heads : spec_.head_size;
    spec_.attention_scale = static_cast<float>(positive_or("attention.scale", 1.0 / std::sqrt(static_cast<double>(divisor))));
    spec_.attention_soft_cap = static_cast<float>(cap("attn_logit_softcapping"));
  }

  void read_windows() {
    const int window = count_or("attention.sliding_window", 0);
    const std::vector<bool> slides = sliding_layers();
    for (const bool layer : slides) spec_.windows.push_back(layer ? window : 0);
  }

  /// The pattern is a list, or a period n: of n layers the last sees everything.
  std::vector<bool> sliding_layers() const {
    constexpr std::string_view kPattern = "attention.sliding_window_pattern";
    const MetaEntry* entry = file_.find(key_of(kPattern));
    if (entry && entry->array) {
      const auto* list = std::get_if<std::vector<bool>>(&entry->value);
      if (!list || std::ssize(*list) != spec_.layers)
        fail(kPattern, "has not one bool per layer", std::to_string(spec_.layers) + " bools, or a period");
      return *list;
    }
    const int period = count_or(kPattern, rule_->window_period);
    std::vector<bool> slides(spec_.layers, true);
    for (int layer = period - 1; period > 0 && layer < spec_.layers; layer += period) slides[layer] = false;
    return slides;
  }

  // Ropes ---------------------------------------------------------------------------------------------------------------------

  void read_ropes() {
    spec_.ropes.push_back(scaled_rope());
    if (rule_->local_rope_base > 0) {  // scaling stretches the layers that see far, and only these
      Rope local = spec_.ropes[0];
      const double base = positive_or("rope.freq_base_swa", rule_->local_rope_base);
      local.frequencies = rounded(plain_frequencies(base, local.dims));
      spec_.ropes.push_back(std::move(local));
    }
    for (int layer = 0; layer < spec_.layers; ++layer) {
      const bool none = rule_->rope_period > 0 && layer % rule_->rope_period == rule_->rope_period - 1;
      spec_.rope_of_layer.push_back(none ? -1 : spec_.ropes.size() > 1 && spec_.windows[layer] > 0 ? 1 : 0);
    }
  }

  Rope scaled_rope() const {
    Rope rope;
    rope.dims = count_or("rope.dimension_count", spec_.head_size);
    if (rope.dims > spec_.head_size || rope.dims % 2) {
      fail("rope.dimension_count", "is " + std::to_string(rope.dims), "an even number up to " + std::to_string(spec_.head_size));
    }
    rope.interleaved = rule_->interleaved;
    rope.base = positive_or("rope.freq_base", 10000.0);
    std::vector<double> frequencies = plain_frequencies(rope.base, rope.dims);
    const std::string kind(file_.maybe_string(key_of("rope.scaling.type")).value_or("none"));
    if (kind == "linear") {
      scale_linear(frequencies, positive("rope.scaling.factor"));
    } else if (kind == "yarn") {
      read_yarn(rope, frequencies);
    } else if (kind == "longrope") {
      read_long_rope(rope, frequencies);
    } else if (kind == "dynamic") {  // not of llama.cpp, which has no word for it: how patchbay writes Hugging Face's rope type
      rope.dynamic_factor = positive("rope.scaling.factor");
      rope.original_context = count("rope.scaling.original_context_length");
      if (rope.dims < 4) fail("rope.dimension_count", "is " + std::to_string(rope.dims), "4 or more for dynamic scaling");
    } else if (kind != "none") {
      fail("rope.scaling.type", "is \"" + kind + "\", which is not computed", "none, linear, dynamic, yarn, longrope");
    }
    if (file_.tensor("rope_freqs.weight")) divide(frequencies, divisors("rope_freqs.weight", rope.dims / 2));
    rope.frequencies = rounded(frequencies);
    return rope;
  }

  void read_yarn(Rope& rope, std::vector<double>& frequencies) const {
    Yarn yarn;
    yarn.factor = positive("rope.scaling.factor");
    yarn.original_context = count("rope.scaling.original_context_length");
    yarn.beta_fast = positive_or("rope.scaling.yarn_beta_fast", yarn.beta_fast);
    yarn.beta_slow = positive_or("rope.scaling.yarn_beta_slow", yarn.beta_slow);
    scale_yarn(frequencies, rope.base, yarn);
    rope.magnitude = static_cast<float>(yarn_magnitude(yarn.factor) * positive_or("rope.scaling.attn_factor", 1) *
                                        positive_or("rope.scaling.yarn_attn_factor", 1));
  }

  void read_long_rope(Rope& rope, std::vector<double>& frequencies) const {
    rope.original_context = count("rope.scaling.original_context_length");
    rope.magnitude = static_cast<float>(positive_or("rope.scaling.attn_factor", 1));
    std::vector<double> far = frequencies;
    divide(far, divisors("rope_factors_long.weight", rope.dims / 2));
    rope.long_frequencies = rounded(far);
    divide(frequencies, divisors("rope_factors_short.weight", rope.dims / 2));
  }

  std::vector<float> divisors(const std::string& name, int pairs) const {
    const FileTensor* tensor = file_.tensor(name);
    if (!tensor) missing(name);
    if (tensor->format != "fp32" || tensor->shape != std::vector<std::int64_t>{pairs}) {
      throw Error(file_.path(), "tensor " + name + " does not hold one F32 for each pair", std::to_string(pairs) + " values");
    }
    std::vector<float> values(pairs);
    std::memcpy(values.data(), tensor->data, values.size() * sizeof(float));
    for (const float value : values) {
      if (!(value > 0)) throw Error(file_.path(), "tensor " + name + " holds " + std::to_string(value), "numbers above 0");
    }
    return values;
  }

  // Experts, tensors ----------------------------------------------------------------------------------------------------------

  void read_experts() {
    Experts& experts = spec_.experts;
    experts.count = count_or("expert_count", 0);
    spec_.expert_layer.assign(spec_.layers, experts.count > 0);
    if (experts.count == 0) return;
    experts.used = count("expert_used_count");
    if (experts.used < 1 || experts.used > experts.count) {
      fail("expert_used_count", "is " + std::to_string(experts.used), "1 to expert_count, " + std::to_string(experts.count));
    }
    experts.ffn = count_or("expert_feed_forward_length", spec_.ffn);
    experts.shared_ffn = count_or("expert_shared_feed_forward_length", 0);
    experts.normalized = file_.maybe_boolean(key_of("expert_weights_norm")).value_or(rule_->normalized_experts);
  }

  std::int64_t extent(char letter) const {
    const std::int64_t size = spec_.head_size;
    switch (letter) {
      case 'E': return spec_.hidden;
      case 'Q': return spec_.heads * size;
      case 'K': case 'W': return spec_.kv_heads * size;
      case 'F': return spec_.ffn;
      case 'M': return spec_.experts.ffn;
      default: throw Error("table of architectures", std::string("no extent '") + letter + "'");
    }
  }
  std::int64_t extents(std::string_view letters) const {
    std::int64_t sum = 0;
    for (const char letter : letters) sum += extent(letter);
    return sum;
  }

  // A role is the model's when its tensor is in the file: check_model has seen to it that none is missing or too many.
  void read_places() {
    constexpr std::string_view kSuffix = ".weight";
    for (const auto& group : rule_->tensors) {
      for (const TensorRule& rule : group) {
        if (!rule.role) continue;
        TensorPlace place;
        place.role = *rule.role;
        place.name = place.label = rule.name.substr(0, rule.name.size() - kSuffix.size());
        place.first_row = extents(rule.before);
        place.rows = extents(rule.rows);
        if (file_.tensor(tensor_name(place, 0))) spec_.places.push_back(std::move(place));
      }
    }
  }

  const ModelFile& file_;
  std::string architecture_;
  const ArchitectureRule* rule_ = nullptr;
  ModelSpec spec_;
};

}  // namespace

ModelSpec read_model_spec(const ModelFile& file) {
  if (file.form() == FileForm::safetensors) return read_folder_model_spec(file);
  check_model(file);
  return Reader(file).read();
}

}  // namespace patchbay

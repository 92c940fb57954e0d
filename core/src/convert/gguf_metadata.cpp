// Names of keys and what they mean: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and the PyPI package gguf.
#include "convert/gguf_metadata.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/hf_models.h"
#include "engine/json_keys.h"
#include "engine/rope.h"

namespace patchbay {
namespace {

TensorOutput float_tensor(const std::string& name, const std::vector<float>& values) {
  const auto write = [values](ByteSink sink) { sink({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}); };
  return {name, find_tensor_type("F32"), {std::ssize(values)}, write};
}

class Metadata {
 public:
  Metadata(GgufWriter& writer, const ModelSpec& spec, const JsonKeys& config, std::string architecture)
      : writer_(writer), spec_(spec), config_(config), architecture_(std::move(architecture)) {}

  void add() {
    add_sizes();
    add_attention();
    add_windows();
    if (!spec_.ropes.empty()) add_rope();
    add_experts();
  }

 private:
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }
  void number(std::string_view name, std::int64_t value) { writer_.u32(key(name), static_cast<std::uint32_t>(value)); }
  void real(std::string_view name, double value) { writer_.f32(key(name), static_cast<float>(value)); }

  void add_sizes() {
    number("block_count", spec_.layers);
    number("context_length", spec_.context);
    number("embedding_length", spec_.hidden);
    number("feed_forward_length", spec_.ffn);
    number("vocab_size", spec_.vocabulary);
    real(spec_.norm == Norm::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", spec_.norm_epsilon);
    if (spec_.logit_soft_cap > 0) real("final_logit_softcapping", spec_.logit_soft_cap);
  }

  void add_attention() {
    number("attention.head_count", spec_.heads);
    number("attention.head_count_kv", spec_.kv_heads);
    if (!spec_.ropes.empty()) {  // GPT-2 has no such keys
      number("attention.key_length", spec_.head_size);
      number("attention.value_length", spec_.head_size);
    }
    if (spec_.attention_soft_cap > 0) real("attn_logit_softcapping", spec_.attention_soft_cap);
    const float usual = static_cast<float>(1 / std::sqrt(static_cast<double>(spec_.head_size)));
    if (spec_.attention_scale != usual) real("attention.scale", spec_.attention_scale);
  }

  /// One window; which layers it holds in is a rule of the architecture, or a list.
  void add_windows() {
    std::int64_t window = 0;
    std::vector<bool> slides;
    for (const std::int64_t of_layer : spec_.windows) {
      slides.push_back(of_layer > 0);
      window = std::max(window, of_layer);
    }
    if (window == 0) return;
    number("attention.sliding_window", window);
    const bool everywhere = std::find(slides.begin(), slides.end(), false) == slides.end();
    if (!everywhere && !architecture_.starts_with("gemma")) writer_.booleans(key("attention.sliding_window_pattern"), slides);
  }

  void add_experts() {
    const Experts& experts = spec_.experts;
    if (experts.count == 0) return;
    if (std::ranges::find(spec_.expert_layer, false) != spec_.expert_layer.end()) {
      throw Error(config_.where(), "GGUF has no words for layers without experts between those with (mlp_only_layers, decoder_sparse_step)", "experts in every layer");
    }
    number("expert_count", experts.count);
    number("expert_used_count", experts.used);
    if (architecture_ == "llama") return;  // where all else goes without saying
    number("expert_feed_forward_length", experts.ffn);
    if (experts.shared_ffn > 0) number("expert_shared_feed_forward_length", experts.shared_ffn);
    if (architecture_ == "qwen2moe" && experts.normalized) writer_.boolean(key("expert_weights_norm"), true);
    if (architecture_ == "qwen3moe" && !experts.normalized) writer_.boolean(key("expert_weights_norm"), false);
  }

  // RoPE ----------------------------------------------------------------------------------------------------------------------

  void add_rope() {
    const Rope& rope = spec_.ropes[0];
    real("rope.freq_base", rope.base);
    number("rope.dimension_count", rope.dims);
    if (spec_.ropes.size() > 1) real("rope.freq_base_swa", spec_.ropes[1].base);
    const nlohmann::json* parameters = config_.find("rope_parameters");
    if (parameters && parameters->contains("full_attention")) parameters = &(*parameters)["full_attention"];
    if (!parameters) parameters = config_.find("rope_scaling");
    if (!parameters) return;
    const JsonKeys keys(*parameters, config_.where() + ": rope_parameters");
    const char* type_key = keys.find("rope_type") ? "rope_type" : "type";
    if (keys.find(type_key)) add_scaling(keys.text(type_key), keys, rope);
  }

  void add_scaling(const std::string& type, const JsonKeys& keys, const Rope& rope) {
    if (type == "llama3") return add_divisors(rope);  // has no type in GGUF: the divisors say it
    if (!rope.long_frequencies.empty()) return add_long_rope(keys, rope);
    if (type != "linear" && type != "dynamic" && type != "yarn") return;
    writer_.text(key("rope.scaling.type"), type);
    real("rope.scaling.factor", keys.positive("factor"));
    if (type == "dynamic") number("rope.scaling.original_context_length", rope.original_context);
    if (type != "yarn") return;
    const double factor = keys.positive("factor");
    const std::int64_t stated = keys.count_or("original_max_position_embeddings", config_.count_or("original_max_position_embeddings", config_.count("max_position_embeddings")));
    number("rope.scaling.original_context_length", stated);
    if (keys.find("beta_fast")) real("rope.scaling.yarn_beta_fast", keys.positive("beta_fast"));
    if (keys.find("beta_slow")) real("rope.scaling.yarn_beta_slow", keys.positive("beta_slow"));
    const double more = rope.magnitude / yarn_magnitude(factor);
    if (std::abs(more - 1) > 1e-6) real("rope.scaling.attn_factor", more);
  }

  void add_divisors(const Rope& rope) {
    const std::vector<double> plain = plain_frequencies(rope.base, rope.dims);
    std::vector<float> divisors;
    for (std::size_t i = 0; i < plain.size(); ++i) divisors.push_back(static_cast<float>(plain[i] / static_cast<double>(rope.frequencies[i])));
    writer_.tensor(float_tensor("rope_freqs.weight", divisors));
  }

  void add_long_rope(const JsonKeys& keys, const Rope& rope) {
    writer_.text(key("rope.scaling.type"), "longrope");
    number("rope.scaling.original_context_length", rope.original_context);
    real("rope.scaling.attn_factor", rope.magnitude);
    writer_.tensor(float_tensor("rope_factors_long.weight", keys.at("long_factor").get<std::vector<float>>()));
    writer_.tensor(float_tensor("rope_factors_short.weight", keys.at("short_factor").get<std::vector<float>>()));
  }

  GgufWriter& writer_;
  const ModelSpec& spec_;
  const JsonKeys& config_;
  std::string architecture_;
};

}  // namespace

std::string gguf_architecture(const std::string& model_type, const std::string& where) {
  const HfModel* model = find_hf_model(model_type);
  if (!model) throw Error(where + ": model_type", "\"" + model_type + "\" is not computed", hf_model_names());
  return std::string(model->gguf);
}

void add_model_metadata(GgufWriter& writer, const ModelSpec& spec, const nlohmann::json& config, const std::string& architecture, const std::string& where) {
  const JsonKeys keys(config, where);
  Metadata(writer, spec, keys, architecture).add();
}

}  // namespace patchbay

// Names of keys are those of transformers' config classes, as in engine/model_spec_hf.cpp, which reads them back.
#include "convert/hf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/hf_models.h"
#include "engine/rope.h"
#include "utf8.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

class Config {
 public:
  Config(const ModelFile& gguf, const ModelSpec& spec)
      : gguf_(gguf), spec_(spec), architecture_(gguf.string("general.architecture")), gpt2_(architecture_ == "gpt2"), gemma_(architecture_.starts_with("gemma")) {}

  Json write() {
    const HfModel& model = *find_hf_model(model_type());
    json_ = {{"architectures", Json::array({model.class_name})}, {"model_type", model.model_type}};
    add_sizes(model);
    if (!gpt2_) add_attention(model);
    if (!gpt2_) add_rope();
    add_experts();
    json_["vocab_size"] = spec_.vocabulary;
    json_["tie_word_embeddings"] = spec_.tied_head;
    return std::move(json_);
  }

 private:
  std::string key(std::string_view name) const { return architecture_ + "." + std::string(name); }
  double real(std::string_view name) const { return gguf_.real(key(name)); }
  bool has_window() const { return window() > 0; }
  std::int64_t window() const { return spec_.windows.empty() ? 0 : *std::max_element(spec_.windows.begin(), spec_.windows.end()); }

  /// GGUF calls several of transformers' models llama.
  std::string model_type() const {
    if (architecture_ == "llama") return spec_.experts.count > 0 ? "mixtral" : has_window() ? "mistral" : "llama";
    if (architecture_ == "gemma3") return "gemma3_text";
    if (architecture_ == "qwen2moe") return "qwen2_moe";
    return architecture_ == "qwen3moe" ? "qwen3_moe" : architecture_;
  }

  void add_sizes(const HfModel& model) {
    const Gate gate = spec_.gate;
    json_[std::string(model.activation_key)] = gate == Gate::silu ? "silu" : gpt2_ ? "gelu_new" : "gelu_pytorch_tanh";
    if (gpt2_) {
      json_.update({{"n_embd", spec_.hidden}, {"n_layer", spec_.layers}, {"n_head", spec_.heads}, {"n_inner", spec_.ffn}, {"n_positions", spec_.context},
                    {"layer_norm_epsilon", shortest(spec_.norm_epsilon)}});
      return;
    }
    json_.update({{"hidden_size", spec_.hidden}, {"intermediate_size", spec_.ffn}, {"num_hidden_layers", spec_.layers}, {"num_attention_heads", spec_.heads},
                  {"num_key_value_heads", spec_.kv_heads}, {"head_dim", spec_.head_size}, {"max_position_embeddings", context()},
                  {"rms_norm_eps", shortest(spec_.norm_epsilon)}});
  }
  /// The digits that a person wrote, not those of the float next to them.
  static double shortest(float value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", static_cast<double>(value));
    return std::strtod(text, nullptr);
  }
  /// Of dynamic RoPE: before it is stretched.
  std::int64_t context() const {
    const bool dynamic = !spec_.ropes.empty() && spec_.ropes[0].dynamic_factor > 0;
    return dynamic ? spec_.ropes[0].original_context : spec_.context;
  }

  void add_attention(const HfModel& model) {
    const bool bias = gguf_.tensor("blk.0.attn_q.bias") != nullptr;
    if (architecture_ == "llama" || architecture_ == "smollm3") {
      json_["attention_bias"] = bias;
      json_["mlp_bias"] = gguf_.tensor("blk.0.ffn_gate.bias") != nullptr;
    }
    if (gemma_) {
      const double scalar = shortest(1 / (spec_.attention_scale * spec_.attention_scale));
      json_["query_pre_attn_scalar"] = scalar == std::floor(scalar) ? Json(static_cast<std::int64_t>(scalar)) : Json(scalar);  // transformers wants an integer
      json_["attn_logit_softcapping"] = spec_.attention_soft_cap > 0 ? Json(shortest(spec_.attention_soft_cap)) : Json();
      json_["final_logit_softcapping"] = spec_.logit_soft_cap > 0 ? Json(shortest(spec_.logit_soft_cap)) : Json();
    }
    if (model.windows == Windows::none) return;
    json_["sliding_window"] = has_window() ? Json(window()) : Json();
    if (model.windows == Windows::all) return;  // in every layer
    if (model.windows == Windows::late || model.windows == Windows::used || model.windows == Windows::without_rope) json_["use_sliding_window"] = has_window();
    // A list begins as an array: a null that memory runs out for on its way to one cannot be destroyed (nlohmann-json 3.11.2).
    Json layer_types = Json::array(), no_rope_layers = Json::array();
    for (const std::int64_t of_layer : spec_.windows) layer_types.push_back(of_layer > 0 ? "sliding_attention" : "full_attention");
    json_["layer_types"] = std::move(layer_types);
    if (model.model_type != "smollm3") return;
    for (const int rope : spec_.rope_of_layer) no_rope_layers.push_back(rope >= 0 ? 1 : 0);  // 1: it has RoPE
    json_["no_rope_layers"] = std::move(no_rope_layers);
  }

  void add_experts() {
    const Experts& experts = spec_.experts;
    if (experts.count == 0) return;
    json_["num_experts_per_tok"] = experts.used;
    if (architecture_ == "llama") {
      json_["num_local_experts"] = experts.count;
      json_["intermediate_size"] = experts.ffn;
      return;
    }
    json_.update({{"num_experts", experts.count}, {"moe_intermediate_size", experts.ffn}, {"norm_topk_prob", experts.normalized}, {"decoder_sparse_step", 1},
                  {"mlp_only_layers", Json::array()}});
    if (experts.shared_ffn > 0) json_["shared_expert_intermediate_size"] = experts.shared_ffn;
  }

  // RoPE ----------------------------------------------------------------------------------------------------------------------

  void add_rope() {
    const Rope& rope = spec_.ropes[0];
    json_["rope_theta"] = rope.base;
    if (rope.dims != spec_.head_size) json_["partial_rotary_factor"] = static_cast<double>(rope.dims) / spec_.head_size;
    if (spec_.ropes.size() > 1) json_["rope_local_base_freq"] = gguf_.maybe_real(key("rope.freq_base_swa")).value_or(10000.0);
    const std::string type(gguf_.maybe_string(key("rope.scaling.type")).value_or("none"));
    Json scaling;
    if (gguf_.tensor("rope_freqs.weight")) scaling = llama3(rope);
    if (type == "linear" || type == "dynamic" || type == "yarn") scaling = {{"rope_type", type}, {"factor", real("rope.scaling.factor")}};
    if (type == "yarn") add_yarn(rope, scaling);
    if (type == "longrope") scaling = long_rope(rope);
    json_["rope_scaling"] = scaling;
  }

  void add_yarn(const Rope& rope, Json& scaling) const {
    scaling["original_max_position_embeddings"] = gguf_.integer(key("rope.scaling.original_context_length"));
    for (const char* beta : {"beta_fast", "beta_slow"}) {
      const std::string name = key(std::string("rope.scaling.yarn_") + beta);
      if (gguf_.find(name)) scaling[beta] = gguf_.real(name);
    }
    scaling["attention_factor"] = rope.magnitude;
  }

  Json long_rope(const Rope& rope) {
    json_["original_max_position_embeddings"] = rope.original_context;
    const double factor = static_cast<double>(spec_.context) / static_cast<double>(rope.original_context);
    return {{"rope_type", "longrope"}, {"factor", factor}, {"short_factor", values("rope_factors_short.weight")}, {"long_factor", values("rope_factors_long.weight")},
            {"attention_factor", rope.magnitude}};
  }

  std::vector<float> values(const std::string& name) const {
    const FileTensor& tensor = *gguf_.tensor(name);  // read_model_spec has seen that it holds fp32
    std::vector<float> numbers(static_cast<std::size_t>(tensor.shape[0]));
    std::memcpy(numbers.data(), tensor.data, numbers.size() * sizeof(float));
    return numbers;
  }

  /// GGUF keeps Llama 3's divisors, not what they were made from. All published models stretch what is below 1 and keep what is above 4 turns.
  Json llama3(const Rope& rope) const {
    const std::vector<float> divisors = values("rope_freqs.weight");
    Llama3Scaling scaling{static_cast<double>(*std::max_element(divisors.begin(), divisors.end())), 1, 4, 0};
    scaling.factor = std::round(scaling.factor * 1000) / 1000;
    for (scaling.original_context = 16; scaling.original_context <= 1 << 20; scaling.original_context *= 2) {
      std::vector<double> frequencies = plain_frequencies(rope.base, rope.dims);
      scale_llama3(frequencies, scaling);
      const auto near = [](float a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b); };
      if (!std::equal(rope.frequencies.begin(), rope.frequencies.end(), frequencies.begin(), frequencies.end(), near)) continue;
      return {{"rope_type", "llama3"}, {"factor", scaling.factor}, {"low_freq_factor", scaling.low}, {"high_freq_factor", scaling.high},
              {"original_max_position_embeddings", static_cast<std::int64_t>(scaling.original_context)}};
    }
    throw Error(escaped(gguf_.path()) + ": tensor 'rope_freqs.weight'", "holds divisors of RoPE that config.json has no word for", "those of Llama 3");
  }

  const ModelFile& gguf_;
  const ModelSpec& spec_;
  std::string architecture_;
  bool gpt2_, gemma_;
  Json json_;
};

}  // namespace

nlohmann::ordered_json hf_config(const ModelFile& gguf, const ModelSpec& spec) { return Config(gguf, spec).write(); }

}  // namespace patchbay

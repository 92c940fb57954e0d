// ModelSpec from config.json. Names of keys, and what a key left out means, are those of transformers' config classes.
#include "engine/model_spec_hf.h"

#include <algorithm>
#include <cmath>

#include "engine/architectures.h"
#include "engine/hf_models.h"
#include "engine/hf_rope.h"
#include "engine/json_keys.h"

namespace patchbay {
namespace {

using Json = nlohmann::json;

/// Keys that change the computation and must have this value where they stand.
struct FixedKey {
  std::string_view name;
  const char* value;
};
constexpr FixedKey kFixed[] = {
    {"use_bidirectional_attention", "false"}, {"scale_attn_weights", "true"},  {"scale_attn_by_inverse_layer_idx", "false"},
    {"add_cross_attention", "false"},         {"is_encoder_decoder", "false"}};

class Reader {
 public:
  Reader(const Json& config, const std::string& where) : keys_(config, where), model_(model_of(keys_)) {}

  ModelSpec read() {
    refuse_changes();
    read_sizes();
    read_attention();
    read_windows();
    if (!model_.gpt2) read_ropes();
    read_experts();
    read_places();
    read_type();
    return std::move(spec_);
  }

 private:
  /// The type that the model was trained in, whatever its tensors are stored in ("dtype" since transformers 4.56).
  void read_type() {
    for (const char* key : {"dtype", "torch_dtype"})
      if (const Json* type = keys_.find(key); type && *type == "bfloat16") spec_.native_type = DType::bf16;
    if (find_architecture(model_.gguf)->leaves_fp16) spec_.native_type = DType::bf16;
  }

  static const HfModel& model_of(const JsonKeys& keys) {
    const std::string type = keys.text("model_type");
    const HfModel* model = find_hf_model(type);
    if (!model) keys.fail("model_type", "\"" + type + "\" is not computed", hf_model_names());
    return *model;
  }

  void refuse_changes() const {
    if (const Json* classes = keys_.find("architectures"); classes && *classes != Json::array({model_.class_name})) {
      keys_.fail("architectures", "is " + classes->dump(), "[\"" + std::string(model_.class_name) + "\"]");
    }
    for (const FixedKey& key : kFixed) {
      const Json* value = keys_.find(key.name);
      if (value && value->dump() != key.value) keys_.fail(key.name, "is " + value->dump() + ", which is not computed", key.value);
    }
  }

  /// Bounds far above every model: lists are made this long before a tensor can show that a number is wrong.
  static constexpr std::int64_t kMostLayers = 1 << 14, kLargestHead = 1 << 16, kLargestExtent = 1 << 24;
  int number(std::string_view key, std::int64_t largest = kLargestExtent) const { return static_cast<int>(keys_.count(key, largest)); }
  int number_or(std::string_view key, int otherwise, std::int64_t largest = kLargestExtent) const {
    return static_cast<int>(keys_.count_or(key, otherwise, largest));
  }

  void read_sizes() {
    spec_.architecture = model_.model_type;
    spec_.layers = number(model_.gpt2 ? "n_layer" : "num_hidden_layers", kMostLayers);
    spec_.hidden = number(model_.gpt2 ? "n_embd" : "hidden_size");
    spec_.ffn = model_.gpt2 ? number_or("n_inner", 4 * spec_.hidden) : number("intermediate_size");
    spec_.context = keys_.count(model_.gpt2 ? "n_positions" : "max_position_embeddings");
    spec_.vocabulary = number("vocab_size");
    spec_.norm = model_.gpt2 ? Norm::layer : Norm::rms;
    spec_.norm_epsilon = static_cast<float>(keys_.positive(model_.gpt2 ? "layer_norm_epsilon" : "rms_norm_eps"));
    spec_.gated = !model_.gpt2;
    spec_.gate = activation(keys_.text(model_.activation_key));
    if (model_.gemma) {
      spec_.norm_offset = 1;
      spec_.embedding_scale = std::sqrt(static_cast<float>(spec_.hidden));
    }
    spec_.logit_soft_cap = static_cast<float>(keys_.positive_or("final_logit_softcapping", 0));
    spec_.tied_head = keys_.boolean_or("tie_word_embeddings", model_.tied);
  }

  Gate activation(const std::string& name) const {
    if (name == "silu") return Gate::silu;
    if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Gate::gelu_tanh;
    keys_.fail(model_.activation_key, "\"" + name + "\" is not computed", "silu, gelu_pytorch_tanh, gelu_new");
  }

  void read_attention() {
    spec_.heads = number(model_.gpt2 ? "n_head" : "num_attention_heads");
    spec_.kv_heads = model_.gpt2 ? spec_.heads : number_or("num_key_value_heads", spec_.heads);
    if (spec_.heads % spec_.kv_heads)
      keys_.fail("num_key_value_heads", "is " + std::to_string(spec_.kv_heads), "a divisor of " + std::to_string(spec_.heads));
    if (!keys_.find("head_dim") && !model_.explicit_head_size && spec_.hidden % spec_.heads) {
      keys_.fail("num_attention_heads", "is " + std::to_string(spec_.heads),
                 "a divisor of hidden_size, " + std::to_string(spec_.hidden));
    }
    spec_.head_size = model_.explicit_head_size ? number("head_dim", kLargestHead)
                                                : number_or("head_dim", spec_.hidden / spec_.heads, kLargestHead);
    const double divisor = model_.gemma ? keys_.positive("query_pre_attn_scalar") : spec_.head_size;
    spec_.attention_scale = static_cast<float>(1 / std::sqrt(divisor));
    spec_.attention_soft_cap = static_cast<float>(keys_.positive_or("attn_logit_softcapping", 0));
  }

  // Windows, RoPE -------------------------------------------------------------------------------------------------------------

  void read_windows() {
    const std::vector<bool> slides = model_.windows == Windows::none ? std::vector<bool>(spec_.layers) : sliding_layers();
    for (const bool layer : slides) spec_.windows.push_back(layer ? keys_.count_or("sliding_window", 0) : 0);
  }

  std::vector<bool> sliding_layers() const {
    if (model_.model_type == "mistral" && !keys_.map().contains("sliding_window"))
      keys_.fail("sliding_window", "missing key", "a window, or null");
    std::vector<bool> slides(spec_.layers);
    if (const Json* types = keys_.find("layer_types")) {
      if (!types->is_array() || static_cast<int>(types->size()) != spec_.layers)
        keys_.fail("layer_types", "has not one entry per layer");
      for (int layer = 0; layer < spec_.layers; ++layer) slides[layer] = slides_by((*types)[layer]);
      return slides;
    }
    const bool used =
        keys_.boolean_or("use_sliding_window", model_.windows == Windows::all || model_.windows == Windows::alternating);
    const std::int64_t first = model_.windows == Windows::late && used ? keys_.count("max_window_layers") : 0;
    const std::int64_t period =
        keys_.count_or("sliding_window_pattern", keys_.count_or("_sliding_window_pattern", std::max(1, model_.full_period)));
    for (int layer = 0; layer < spec_.layers; ++layer) {
      const bool chosen = model_.windows == Windows::late           ? layer >= first
                          : model_.windows == Windows::alternating  ? (layer + 1) % period != 0
                          : model_.windows == Windows::without_rope ? !has_rope(layer)
                                                                    : true;
      slides[layer] = used && chosen;
    }
    return slides;
  }

  bool slides_by(const Json& type) const {
    if (type == "sliding_attention") return true;
    if (type == "full_attention") return false;
    keys_.fail("layer_types", "holds " + type.dump() + ", which is not computed", "sliding_attention, full_attention");
  }

  bool has_rope(int layer) const {
    if (model_.model_type != "smollm3") return true;
    const Json* list = keys_.find("no_rope_layers");  // 1: the layer has RoPE, whatever the key is called
    if (!list) return (layer + 1) % keys_.count_or("no_rope_layer_interval", 4) != 0;
    if (!list->is_array() || static_cast<int>(list->size()) != spec_.layers || !(*list)[layer].is_number_integer()) {
      keys_.fail("no_rope_layers", "has not one 0 or 1 per layer");
    }
    return (*list)[layer] != 0;
  }

  void read_ropes() {
    const Json* parameters = keys_.find("rope_parameters");
    if (parameters && parameters->contains("full_attention")) {  // one for each kind of layer
      for (const char* kind : {"full_attention", "sliding_attention"}) {
        const JsonKeys rope(JsonKeys(*parameters, keys_.where() + ": rope_parameters").at(kind),
                            keys_.where() + ": rope_parameters." + kind);
        spec_.ropes.push_back(scaled_rope(&rope, rope.positive("rope_theta")));
      }
    } else {
      const char* key = parameters ? "rope_parameters" : "rope_scaling";
      const Json* scaling = keys_.find(key);
      const JsonKeys rope(scaling ? *scaling : keys_.map(), keys_.where() + (scaling ? std::string(": ") + key : ""));
      spec_.ropes.push_back(scaled_rope(scaling ? &rope : nullptr, rope_base(parameters ? rope : keys_)));
      if (model_.model_type == "gemma3_text") spec_.ropes.push_back(scaled_rope(nullptr, keys_.positive("rope_local_base_freq")));
    }
    for (int layer = 0; layer < spec_.layers; ++layer) {
      spec_.rope_of_layer.push_back(!has_rope(layer) ? -1 : spec_.ropes.size() > 1 && spec_.windows[layer] > 0 ? 1 : 0);
    }
  }

  double rope_base(const JsonKeys& keys) const {
    const bool old = model_.model_type == "llama" || model_.model_type == "phi3";  // whose first files were without the key
    return old ? keys.positive_or("rope_theta", 10000.0) : keys.positive("rope_theta");
  }

  /// `scaling` null: none.
  Rope scaled_rope(const JsonKeys* scaling, double base) {
    const double turned = scaling && scaling->find("partial_rotary_factor") ? scaling->positive("partial_rotary_factor")
                                                                            : keys_.positive_or("partial_rotary_factor", 1);
    if (turned > 1) keys_.fail("partial_rotary_factor", "is above 1", "at most 1: the whole head");
    HfRopeModel rope;
    rope.base = base;
    rope.dims = static_cast<int>(spec_.head_size * turned);
    rope.context = spec_.context;
    rope.original_context = keys_.count_or("original_max_position_embeddings", 0);
    rope.phi3 = model_.model_type == "phi3";
    if (rope.dims % 2) {
      keys_.fail("partial_rotary_factor", "turns " + std::to_string(rope.dims) + " values", "an even number up to the head size");
    }
    return read_hf_rope(scaling, rope, spec_.context);
  }

  // Experts, tensors ----------------------------------------------------------------------------------------------------------

  void read_experts() {
    spec_.expert_layer.assign(spec_.layers, false);
    const bool mixtral = model_.model_type == "mixtral", qwen = model_.model_type.ends_with("_moe");
    if (!mixtral && !qwen) return;
    Experts& experts = spec_.experts;
    experts.count = number(keys_.find("num_experts") ? "num_experts" : "num_local_experts");
    experts.used = number("num_experts_per_tok");
    if (experts.used > experts.count)
      keys_.fail("num_experts_per_tok", "is " + std::to_string(experts.used), "at most " + std::to_string(experts.count));
    experts.ffn = mixtral ? spec_.ffn : number("moe_intermediate_size");
    if (model_.model_type == "qwen2_moe") experts.shared_ffn = number("shared_expert_intermediate_size");
    if (qwen) keys_.at("norm_topk_prob");
    experts.normalized = keys_.boolean_or("norm_topk_prob", true);
    const Json* dense = keys_.find("mlp_only_layers");
    const std::int64_t step = keys_.count_or("decoder_sparse_step", 1);
    for (int layer = 0; layer < spec_.layers; ++layer) {
      const bool listed = dense && std::find(dense->begin(), dense->end(), Json(layer)) != dense->end();
      spec_.expert_layer[layer] = !listed && (layer + 1) % step == 0;
    }
  }

  void read_places() {
    for (const auto& group : model_.tensors) {
      for (const HfTensor& tensor : group) add_place(tensor);
    }
    if (!spec_.tied_head) add_place({Role::head, "lm_head", "output"});
  }

  void add_place(const HfTensor& tensor) {
    TensorPlace place;
    place.role = tensor.role;
    place.name = tensor.name;
    place.label = tensor.label;
    const std::int64_t q = static_cast<std::int64_t>(spec_.heads) * spec_.head_size,
                       k = static_cast<std::int64_t>(spec_.kv_heads) * spec_.head_size;
    switch (tensor.part) {
      case 'q':
        place.rows = q;
        break;
      case 'k':
        place.first_row = q;
        place.rows = k;
        break;
      case 'v':
        place.first_row = q + k;
        place.rows = k;
        break;
      case 'g':
        place.rows = spec_.ffn;
        break;
      case 'u':
        place.first_row = place.rows = spec_.ffn;
        break;
      default:
        break;
    }
    place.transposed =
        model_.gpt2 && (tensor.name.find(".attn.") != tensor.name.npos || tensor.name.find(".mlp.") != tensor.name.npos);
    place.needs_bias = tensor.bias || wants_bias(tensor.role);
    spec_.places.push_back(std::move(place));
  }

  bool wants_bias(Role role) const {
    switch (role) {
      case Role::q:
      case Role::k:
      case Role::v:
        return keys_.boolean_or("attention_bias", false);
      case Role::attention_output:
        return keys_.boolean_or("attention_bias", false);
      case Role::gate:
      case Role::up:
      case Role::down:
        return keys_.boolean_or("mlp_bias", false);
      default:
        return false;
    }
  }

  JsonKeys keys_;
  const HfModel& model_;
  ModelSpec spec_;
};

}  // namespace

ModelSpec read_hf_model_spec(const Json& config, const std::string& where) { return Reader(config, where).read(); }

}  // namespace patchbay

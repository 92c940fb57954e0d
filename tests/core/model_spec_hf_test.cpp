// ModelSpec from config.json: the same model as its GGUF file, tensor names as transformers saves them, and refusals by key.
#include "engine/model_spec_hf.h"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "support.h"

using namespace patchbay;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

const std::string kFolder = test::source_path("tests/golden/architectures/");
const Json& goldens() {
  static const Json description = Json::parse(test::read_file(kFolder + "architectures.json"));
  return description["models"];
}

ModelSpec spec_of(const Json& config) { return read_hf_model_spec(config, "config.json"); }

std::string refusal(const Json& config) {
  try {
    spec_of(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}
/// The message for a golden's config with one key changed; a null value takes the key out.
std::string refusal(const std::string& model, const std::string& pointer, const Json& value) {
  Json config = goldens()[model]["config"];
  if (value.is_null()) {
    config.erase(pointer);
  } else {
    config[Json::json_pointer("/" + pointer)] = value;
  }
  return refusal(config);
}

void check_same_rope(const Rope& a, const Rope& b) {
  CHECK(a.dims == b.dims);
  CHECK(a.magnitude == Approx(b.magnitude).epsilon(1e-6));
  CHECK(a.dynamic_factor == b.dynamic_factor);
  CHECK(a.original_context == b.original_context);
  REQUIRE(a.frequencies.size() == b.frequencies.size());
  REQUIRE(a.long_frequencies.size() == b.long_frequencies.size());
  for (std::size_t i = 0; i < a.frequencies.size(); ++i) CHECK(a.frequencies[i] == Approx(b.frequencies[i]).epsilon(1e-6));
  for (std::size_t i = 0; i < a.long_frequencies.size(); ++i)
    CHECK(a.long_frequencies[i] == Approx(b.long_frequencies[i]).epsilon(1e-6));
}

}  // namespace

TEST_CASE("config.json describes the same model as the GGUF file") {
  for (const auto& [name, golden] : goldens().items()) {
    DYNAMIC_SECTION(name) {
      const ModelSpec a = spec_of(golden["config"]), b = read_model_spec(*ModelFile::open(kFolder + name + ".gguf"));
      CHECK(std::vector{a.layers, a.hidden, a.heads, a.kv_heads, a.head_size, a.ffn, a.vocabulary} ==
            std::vector{b.layers, b.hidden, b.heads, b.kv_heads, b.head_size, b.ffn, b.vocabulary});
      CHECK(a.context == b.context);
      CHECK(a.norm == b.norm);
      CHECK(a.norm_epsilon == b.norm_epsilon);
      CHECK(a.norm_offset == (name.starts_with("gemma") ? 1.0f : 0.0f));
      CHECK(a.attention_scale == Approx(b.attention_scale));
      CHECK(a.attention_soft_cap == b.attention_soft_cap);
      CHECK(a.logit_soft_cap == b.logit_soft_cap);
      CHECK(a.embedding_scale == b.embedding_scale);
      CHECK(a.gate == b.gate);
      CHECK(a.gated == b.gated);
      CHECK(a.windows == b.windows);
      CHECK(a.rope_of_layer == b.rope_of_layer);
      CHECK(a.expert_layer == b.expert_layer);
      CHECK(a.experts.count == b.experts.count);
      CHECK(a.experts.used == b.experts.used);
      CHECK(a.experts.shared_ffn == b.experts.shared_ffn);
      CHECK(a.experts.normalized == b.experts.normalized);
      CHECK(a.tied_head == b.tied_head);
      REQUIRE(a.ropes.size() == b.ropes.size());
      for (std::size_t i = 0; i < a.ropes.size(); ++i) check_same_rope(a.ropes[i], b.ropes[i]);
      for (const TensorPlace& place : b.places) {
        REQUIRE(a.place(place.role));
        CHECK(a.place(place.role)->label == place.label);
        CHECK(a.place(place.role)->first_row == place.first_row);
      }
    }
  }
}

TEST_CASE("config.json: places name exactly the tensors that transformers saves, with their shapes") {
  for (const auto& [name, golden] : goldens().items()) {
    DYNAMIC_SECTION(name) {
      const ModelSpec spec = spec_of(golden["config"]);
      std::map<std::string, std::int64_t> values;  // in all parts of a tensor together
      spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) {
        const MatrixShape shape = matrix_shape(spec, place.role);
        values[tensor_name(place, layer, expert)] += shape.rows * shape.cols;
        if (place.needs_bias) values[tensor_name(place, layer, expert, ".bias")] += shape.rows;
      });
      std::map<std::string, std::int64_t> saved;
      for (const auto& [tensor, shape] : golden["tensors"].items()) {
        saved[tensor] = 1;
        for (const auto& extent : shape) saved[tensor] *= extent.get<std::int64_t>();
      }
      CHECK(values == saved);
    }
  }
}

TEST_CASE("config.json of older transformers: rope_theta and rope_scaling beside the other keys") {
  Json config = goldens()["llama_llama3"]["config"];
  const ModelSpec now = spec_of(config);
  config["rope_scaling"] = config["rope_parameters"];
  config["rope_scaling"].erase("rope_theta");
  config["rope_theta"] = config["rope_parameters"]["rope_theta"];
  config.erase("rope_parameters");
  check_same_rope(spec_of(config).ropes[0], now.ropes[0]);
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  CHECK(spec_of(config).ropes[0].frequencies[0] == 0.5f);
  config["rope_scaling"] = nullptr;
  CHECK(spec_of(config).ropes[0].frequencies[0] == 1.0f);

  Json gemma = goldens()["gemma3"]["config"];
  gemma["rope_theta"] = 1e6;
  gemma["rope_local_base_freq"] = 10000.0;
  gemma["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  gemma.erase("rope_parameters");
  const ModelSpec old = spec_of(gemma), new_form = spec_of(goldens()["gemma3"]["config"]);
  for (int i = 0; i < 2; ++i) check_same_rope(old.ropes[i], new_form.ropes[i]);
}

TEST_CASE("config.json: windows by list, by layer number and by use_sliding_window") {
  Json config = goldens()["qwen2"]["config"];
  config["layer_types"] = {"full_attention", "sliding_attention"};
  config["sliding_window"] = 9;
  CHECK(spec_of(config).windows == std::vector<std::int64_t>{0, 9});
  config.erase("layer_types");
  config["max_window_layers"] = 1;
  CHECK(spec_of(config).windows == std::vector<std::int64_t>{0, 0});
  config["use_sliding_window"] = true;
  CHECK(spec_of(config).windows == std::vector<std::int64_t>{0, 9});
  Json smollm3 = goldens()["smollm3"]["config"];
  smollm3["no_rope_layers"] = {1, 0, 1, 1};
  CHECK(spec_of(smollm3).rope_of_layer == std::vector<int>{0, -1, 0, 0});
  Json moe = goldens()["qwen3moe"]["config"];
  moe["mlp_only_layers"] = {1};
  CHECK(spec_of(moe).expert_layer == std::vector<bool>{true, false});
}

TEST_CASE("config.json: what is unknown or missing is refused by its key, with what is allowed") {
  CHECK_THAT(refusal("qwen2", "model_type", "mamba"),
             Contains("config.json: model_type") && Contains("\"mamba\"") && Contains("llama, mistral, mixtral"));
  CHECK_THAT(refusal("gemma3", "model_type", "gemma3"), Contains("model_type: \"gemma3\" is not computed") && Contains("gemma3_text"));  // it also reads pictures
  CHECK_THAT(refusal("qwen2", "model_type", nullptr), Contains("model_type") && Contains("missing"));
  CHECK_THAT(refusal("qwen2", "architectures", {"Qwen2ForSequenceClassification"}),
             Contains("architectures") && Contains("Qwen2ForCausalLM"));
  CHECK_THAT(refusal("qwen2", "hidden_act", "relu"), Contains("hidden_act") && Contains("silu, gelu_pytorch_tanh, gelu_new"));
  CHECK_THAT(refusal("llama_linear", "rope_parameters/rope_type", "cubic"),
             Contains("rope_parameters: rope_type") && Contains("default, linear, dynamic, yarn, llama3, longrope"));
  CHECK_THAT(refusal("llama_linear", "rope_parameters/factor", 0), Contains("factor"));
  CHECK_THAT(refusal("llama_linear", "rope_parameters/alpha", 2), Contains("alpha") && Contains("unknown parameter"));
  CHECK_THAT(refusal("phi3_longrope", "rope_parameters/long_factor", {1.0, 2.0}),
             Contains("long_factor") && Contains("6 numbers"));
  CHECK_THAT(refusal("qwen2", "layer_types", {"full_attention", "chunked_attention"}),
             Contains("layer_types") && Contains("chunked_attention"));
  CHECK_THAT(refusal("qwen2", "layer_types", {"full_attention"}), Contains("layer_types"));
  CHECK_THAT(refusal("mistral_window", "sliding_window", nullptr), Contains("sliding_window") && Contains("missing"));
  CHECK_THAT(refusal("qwen3", "head_dim", nullptr), Contains("head_dim") && Contains("missing"));
  CHECK_THAT(refusal("mixtral", "num_experts_per_tok", 6), Contains("num_experts_per_tok") && Contains("at most 5"));
  CHECK_THAT(refusal("qwen3moe", "norm_topk_prob", nullptr), Contains("norm_topk_prob"));
  CHECK_THAT(refusal("gpt2", "scale_attn_by_inverse_layer_idx", true), Contains("scale_attn_by_inverse_layer_idx"));
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
                          "max_position_embeddings", "rms_norm_eps"}) {
    CHECK_THAT(refusal("qwen2", key, nullptr), Contains(key) && Contains("missing"));
    CHECK_THAT(refusal("qwen2", key, "many"), Contains(key) && Contains("\"many\""));
    CHECK_THAT(refusal("qwen2", key, -1), Contains(key) && Contains("-1"));
  }
  CHECK_THAT(refusal(Json::array()), Contains("not a map"));
}

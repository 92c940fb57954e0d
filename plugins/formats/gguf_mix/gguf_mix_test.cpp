// What is particular to gguf_mix: every tensor of models of many shapes gets the type that llama.cpp gives it.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "patchbay/weight_format.h"
#include "registry.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

TensorFacts facts(const nlohmann::json& model, const std::string& name, const std::string& part, int layer) {
  TensorFacts tensor;
  tensor.name = name;
  tensor.layer = layer;
  tensor.layers = model.at("layers");
  tensor.rows = 32;
  tensor.cols = model.at("columns").at(part);
  tensor.heads = model.at("heads");
  tensor.kv_heads = model.at("kv_heads");
  tensor.experts = model.at("experts");
  tensor.is_head = part == "output" || (part == "token_embd" && model.at("tied").get<bool>());
  return tensor;
}

}  // namespace

TEST_CASE("gguf_mix: every mix gives every tensor of every model the type that llama.cpp gives it") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/gguf_mixes/types.json")));
  int tensors = 0;
  for (const auto& [model_name, model] : golden.at("models").items()) {
    REQUIRE(model.at("types").size() == 17);
    for (const auto& [mix, parts] : model.at("types").items()) {
      const auto format = make<WeightFormat>(spec_of("gguf_mix", {{"mix", mix}}));
      for (const auto& [part, letters] : parts.items()) {
        const bool in_blocks = part != "token_embd" && part != "output";
        for (std::size_t layer = 0; layer < letters.get_ref<const std::string&>().size(); ++layer) {
          const std::string name = in_blocks ? "blk." + std::to_string(layer) + "." + part : part;
          INFO(model_name << ", " << mix << ", " << name);
          const auto chosen = format->for_tensor(facts(model, name, part, in_blocks ? static_cast<int>(layer) : -1));
          REQUIRE(chosen->label() == golden.at("letters").at(std::string(1, letters.get_ref<const std::string&>()[layer])).get<std::string>());
          ++tensors;
        }
      }
    }
  }
  REQUIRE(tensors == 49844);
}

TEST_CASE("gguf_mix: strict refuses a row that 256 does not divide, naming the tensor, and takes what fits") {
  TensorFacts tensor{.name = "blk.3.attn_q", .layer = 3, .layers = 30, .rows = 576, .cols = 288, .heads = 9, .kv_heads = 3};
  const auto strict = make<WeightFormat>(spec_of("gguf_mix", {{"mix", "q4_k_m"}, {"strict", "true"}}));
  REQUIRE_THROWS_WITH(strict->for_tensor(tensor), Catch::Contains("tensor blk.3.attn_q") && Catch::Contains("288") && Catch::Contains("q5_0"));
  REQUIRE_THROWS_WITH(strict->layout(576, 288), Catch::Contains("288"));
  REQUIRE(make<WeightFormat>(spec_of("gguf_mix", {{"mix", "q4_k_m"}}))->for_tensor(tensor)->label() == "q5_0");
  tensor.cols = 512;
  REQUIRE(strict->for_tensor(tensor)->label() == "q4_k");
}

TEST_CASE("gguf_mix: the mixes that are no format's name are names of their own") {
  Registry& registry = Registry::instance();
  const PluginSpec spec = registry.without_alias("formats", spec_of("q4_k_m", {{"strict", "true"}}));
  REQUIRE(spec.type == "gguf_mix");
  REQUIRE(make<WeightFormat>(spec)->label() == "gguf_mix/q4_k_m");
  REQUIRE(registry.without_alias("formats", {"q4_k", nullptr}).type == "q4_k");  // a format stays one
  REQUIRE(registry.without_alias("formats", {"q4_k_x", nullptr}).type == "q4_k_x");
  REQUIRE(std::string(registry.resolve("q4_k_m").name) == "gguf_mix");
  REQUIRE(std::string(registry.resolve("formats/q4_k_m").name) == "gguf_mix");
  REQUIRE_THROWS_WITH(registry.without_alias("formats", spec_of("q3_k_s", {{"mix", "q2_k"}})), Catch::Contains("twice"));
  for (const std::string& name : registry.names("formats"))
    for (const std::string_view alias : registry.find("formats", name).aliases.names) {
      INFO(alias);
      const auto names = registry.names("formats");
      REQUIRE(std::count(names.begin(), names.end(), std::string(alias)) == 0);
      REQUIRE_NOTHROW(make<WeightFormat>(registry.without_alias("formats", {std::string(alias), nullptr})));
    }
}

TEST_CASE("gguf_mix: a kernel that is named runs for every type of the mix") {
  const auto cpu = make<Backend>({"cpu", nullptr});
  const auto mix = make<WeightFormat>(spec_of("gguf_mix", {{"mix", "q4_k_m"}, {"kernel", "decode"}}));
  const TensorFacts tensor{.name = "blk.0.ffn_up", .layer = 0, .layers = 1, .rows = 4, .cols = 256, .heads = 1, .kv_heads = 1};
  const auto format = mix->for_tensor(tensor);
  const PackedWeight w = format->allocate("w", 4, 256, cpu->device());
  REQUIRE_THAT(format->prepare(w, cpu->ops(), ActivationMode::q8)->path(), Catch::StartsWith("q4_k:decode"));
}

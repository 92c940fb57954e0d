// Weights as Hugging Face folders hold them (GPT-2's matrices in x out, experts one by one, Gemma's norms w of 1 + w): the golden
// GGUF files turned back into that form, read through config.json, give the logits of the GGUF files.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "config.h"
#include "engine/model_spec_hf.h"
#include "engine/runner.h"
#include "gguf_writer.h"
#include "patchbay/plugin.h"
#include "session.h"
#include "support.h"

using namespace patchbay;

namespace {

const std::string kFolder = test::source_path("tests/golden/architectures/");
const std::string kSettings = "activations: fp32\nattention: naive\nkv_store: {type: contiguous, format: fp32}";
constexpr std::int64_t kMaxTokens = 64;

std::vector<float> values_of(const FileTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.bytes) / sizeof(float));
  std::memcpy(values.data(), tensor.data, values.size() * sizeof(float));
  return values;
}

bool is_norm(Role role) {
  return role == Role::output_norm || role == Role::attention_norm || role == Role::attention_post_norm ||
         role == Role::ffn_norm || role == Role::ffn_post_norm || role == Role::q_norm || role == Role::k_norm;
}

/// The tensor of a place as a folder holds it, made from GGUF's.
void write_tensor(test::GgufWriter& writer, const ModelFile& gguf, const ModelSpec& spec, const TensorPlace& place, int layer,
                  int expert) {
  const FileTensor* tensor = gguf.tensor(tensor_label(place, layer));
  REQUIRE(tensor);
  std::vector<float> values = values_of(*tensor);
  std::vector<std::uint64_t> shape(tensor->shape.begin(), tensor->shape.end());
  if (place.name.find('#') != std::string::npos) {
    const std::size_t one = values.size() / spec.experts.count;
    values = {values.begin() + expert * one, values.begin() + (expert + 1) * one};
    shape.pop_back();
  }
  if (place.transposed) {
    const std::vector<float> rows = values;
    for (std::size_t i = 0; i < rows.size(); ++i) values[i % shape[0] * shape[1] + i / shape[0]] = rows[i];
    std::swap(shape[0], shape[1]);
  }
  if (is_norm(place.role)) {
    for (float& value : values) value -= spec.norm_offset;
  }
  writer.tensor(tensor_name(place, layer, expert), shape, values);
  if (const FileTensor* bias = gguf.tensor(tensor_label(place, layer, ".bias"))) {
    writer.tensor(tensor_name(place, layer, expert, ".bias"), {static_cast<std::uint64_t>(bias->shape[0])}, values_of(*bias));
  }
}

std::vector<float> logits_of(ModelRunner& runner, std::span<const Token> tokens) {
  const SeqId seq = runner.open();
  std::vector<TokenRow> rows;
  for (const Token token : tokens) rows.push_back({seq, token, static_cast<std::int32_t>(rows.size()) - 1, true, 0});
  const Step step = runner.forward(rows);
  return {step.logits.data, step.logits.data + step.logits.size()};
}

/// The engine over a file that no session can open: it has tensors alone.
std::vector<float> logits_of(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, std::span<const Token> tokens) {
  const RunConfig config = read_run_config(parse_yaml(kSettings, "test"));
  const auto backend = make<Backend>(config.backend);
  const auto attention = make<Attention>(config.attention);
  const auto store = make<KvStore>(config.kv_store);
  const ModelWeights weights = load_weights(file, spec, config, backend->ops());
  Transformer transformer(spec, weights, backend->ops(), *attention, *store, config.activations);
  EngineRunner runner(spec, transformer, *store, 1, kMaxTokens);
  store->configure({spec.layers, spec.kv_heads, spec.head_size, kMaxTokens, 1}, backend->device());
  return logits_of(runner, tokens);
}

}  // namespace

TEST_CASE("weights in the form of a folder give the logits of the GGUF file") {
  const auto goldens = nlohmann::json::parse(test::read_file(kFolder + "architectures.json"))["models"];
  for (const std::string model : {"gpt2", "qwen3moe", "qwen2moe", "gemma2", "gemma3", "phi3_window"}) {
    DYNAMIC_SECTION(model) {
      const auto tokens = goldens[model]["sequences"][0]["tokens"].get<std::vector<Token>>();
      const auto gguf = ModelFile::open(kFolder + model + ".gguf");
      const ModelSpec spec = read_hf_model_spec(goldens[model]["config"], "config.json");
      test::GgufWriter writer;
      std::set<std::string> written;
      spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) {
        if (written.insert(tensor_name(place, layer, expert)).second) write_tensor(writer, *gguf, spec, place, layer, expert);
      });
      const test::TemporaryFolder folder;
      writer.write(folder / "folder.gguf");
      const std::vector<float> logits = logits_of(ModelFile::open(folder / "folder.gguf"), spec, tokens);
      SessionOptions options;
      options.max_tokens = kMaxTokens;
      Session session(gguf, read_run_config(parse_yaml(kSettings, "test")), options);
      const std::vector<float> expected = logits_of(session.runner(), tokens);
      REQUIRE(logits.size() == expected.size());
      float largest = 0;
      for (std::size_t i = 0; i < logits.size(); ++i) largest = std::max(largest, std::abs(logits[i] - expected[i]));
      CHECK(largest < 1e-5f);  // 1 + w is rounded twice
    }
  }
}

TEST_CASE("a tensor of another shape than config.json wants, and a missing bias, are refused by name") {
  const auto goldens = nlohmann::json::parse(test::read_file(kFolder + "architectures.json"))["models"];
  const auto gguf = ModelFile::open(kFolder + "gpt2.gguf");
  const ModelSpec spec = read_hf_model_spec(goldens["gpt2"]["config"], "config.json");
  const test::TemporaryFolder folder;
  const auto refusal = [&](const ModelSpec& wanted, std::string_view without_bias) {
    test::GgufWriter writer;
    std::set<std::string> written;
    spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) {
      if (!written.insert(tensor_name(place, layer)).second) return;
      const FileTensor* tensor = gguf->tensor(tensor_label(place, layer));
      if (tensor_name(place, layer) == without_bias) {
        writer.tensor(tensor_name(place, layer),
                      {static_cast<std::uint64_t>(tensor->shape[1]), static_cast<std::uint64_t>(tensor->shape[0])},
                      values_of(*tensor));
      } else {
        write_tensor(writer, *gguf, spec, place, layer, expert);
      }
    });
    writer.write(folder / "folder.gguf");
    try {
      logits_of(ModelFile::open(folder / "folder.gguf"), wanted, std::vector<Token>{1});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal(spec, "transformer.h.1.mlp.c_fc.weight"), Contains("transformer.h.1.mlp.c_fc.bias") && Contains("missing"));
  ModelSpec other = spec;
  other.vocabulary += 1;
  CHECK_THAT(refusal(other, ""), Contains("transformer.wte.weight is 64 x 32") && Contains("65 x 32"));
  other = spec;
  other.ffn = 40;
  CHECK_THAT(refusal(other, ""), Contains("transformer.h.0.mlp.c_fc.weight is 48 x 32") && Contains("40 x 32"));
}

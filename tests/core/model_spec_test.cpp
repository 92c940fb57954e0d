// ModelSpec from GGUF metadata: what tells architectures apart is read, and what cannot be computed is refused by its key.
#include "engine/model_spec.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gguf_writer.h"
#include "support.h"

using namespace patchbay;

namespace {

ModelSpec spec_of(const std::string& model) {
  return read_model_spec(*ModelFile::open(test::source_path("tests/golden/architectures/" + model + ".gguf")));
}

/// The message when the model is read with `bytes` in place of as many bytes at `from` (and `offset` behind its end).
std::string refusal(const std::string& model, const std::string& from, const std::string& bytes, std::size_t offset = 0) {
  std::string file = test::read_file(test::source_path("tests/golden/architectures/" + model + ".gguf"));
  const std::size_t at = file.find(from);
  REQUIRE(at != std::string::npos);
  file.replace(offset == 0 ? at : at + from.size() + offset - 1, bytes.size(), bytes);
  const test::TemporaryFolder folder;
  const std::string path = folder / "model.gguf";
  std::ofstream(path, std::ios::binary) << file;
  try {
    read_model_spec(*ModelFile::open(path));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}
/// With another value for a 4-byte key.
template <class T>
std::string refusal_of_value(const std::string& model, const std::string& key, T value) {
  return refusal(model, key, test::GgufWriter::bytes_of(value), 5);  // the key, its type in 4 bytes, the value
}

}  // namespace

TEST_CASE("spec: windows and RoPE by layer") {
  CHECK(spec_of("mistral_window").windows == std::vector<std::int64_t>{5, 5});
  CHECK(spec_of("qwen2").windows == std::vector<std::int64_t>{0, 0});
  CHECK(spec_of("gemma2").windows == std::vector<std::int64_t>{6, 0, 6});
  const ModelSpec gemma3 = spec_of("gemma3");
  CHECK(gemma3.windows == std::vector<std::int64_t>{6, 6, 6, 6, 6, 0, 6});
  CHECK(gemma3.rope_of_layer == std::vector<int>{1, 1, 1, 1, 1, 0, 1});
  CHECK(gemma3.ropes[1].frequencies[1] == Approx(std::pow(10000.0, -0.25)));  // head size 8
  CHECK(gemma3.ropes[0].frequencies[1] == Approx(std::pow(1e6, -0.25) / 8.0));
  CHECK(spec_of("smollm3").rope_of_layer == std::vector<int>{0, 0, 0, -1});
  CHECK(spec_of("gpt2").ropes.empty());
}

TEST_CASE("spec: scales, caps, experts and places") {
  const ModelSpec gemma2 = spec_of("gemma2");
  CHECK(gemma2.attention_soft_cap == 2.0f);
  CHECK(gemma2.logit_soft_cap == 3.0f);
  CHECK(gemma2.embedding_scale == Approx(std::sqrt(32.0)));
  CHECK(gemma2.attention_scale == Approx(0.25));
  CHECK(gemma2.tied_head);
  const ModelSpec moe = spec_of("qwen2moe");
  CHECK(moe.experts.count == 5);
  CHECK(moe.experts.used == 2);
  CHECK(moe.experts.ffn == 16);
  CHECK(moe.experts.shared_ffn == 24);
  CHECK_FALSE(moe.experts.normalized);
  CHECK(spec_of("qwen3moe").experts.normalized);
  CHECK(spec_of("mixtral").experts.normalized);
  const ModelSpec phi3 = spec_of("phi3_longrope");
  CHECK(phi3.ropes[0].dims == 12);
  const TensorPlace* v = phi3.place(Role::v);
  REQUIRE(v);
  CHECK(tensor_name(*v, 0) == "blk.0.attn_qkv.weight");
  CHECK(v->first_row == 64 + 32);
  CHECK(v->rows == 32);
  CHECK(phi3.place(Role::up)->first_row == phi3.ffn);
  CHECK(phi3.place(Role::q_norm) == nullptr);
}

TEST_CASE("spec: LongRoPE takes its long factors where sequences may pass the original context") {
  ModelSpec spec = spec_of("phi3_longrope");
  const std::vector<float> near = spec.ropes[0].frequencies, far = spec.ropes[0].long_frequencies;
  REQUIRE(near != far);
  fit_to_length(spec, 16);
  CHECK(spec.ropes[0].frequencies == near);
  fit_to_length(spec, 17);
  CHECK(spec.ropes[0].frequencies == far);
}

TEST_CASE("spec: what is not computed is refused by its key") {
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal("qwen2_yarn", "yarn", "yolo"),
             Contains("rope.scaling.type") && Contains("\"yolo\"") && Contains("none, linear, dynamic, yarn, longrope"));
  CHECK_THAT(refusal_of_value<std::uint32_t>("mixtral", "llama.expert_used_count", 6),
             Contains("expert_used_count") && Contains("1 to expert_count, 5"));
  CHECK_THAT(refusal_of_value<std::uint32_t>("mixtral", "llama.expert_used_count", 0), Contains("expert_used_count"));
  CHECK_THAT(refusal_of_value<float>("llama_linear", "llama.rope.scaling.factor", 0.0f), Contains("rope.scaling.factor"));
  CHECK_THAT(refusal_of_value<float>("llama_linear", "llama.rope.scaling.factor", NAN), Contains("rope.scaling.factor"));
  CHECK_THAT(refusal_of_value<float>("gemma2", "gemma2.attn_logit_softcapping", -1.0f), Contains("attn_logit_softcapping"));
  CHECK_THAT(refusal_of_value<float>("gpt2", "gpt2.attention.layer_norm_epsilon", -1.0f), Contains("layer_norm_epsilon"));
  // A key that changes the computation, in place of one of the same length and type.
  CHECK_THAT(refusal("llama_linear", "llama.rope.scaling.factor", "llama.attention.clamp_kqv"),
             Contains("clamp_kqv") && Contains("not computed"));
}

TEST_CASE("spec: an architecture that is not computed is refused with those that are") {
  test::GgufWriter writer;
  writer.string("general.architecture", "mamba");
  const test::TemporaryFolder folder;
  writer.write(folder / "model.gguf");
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(read_model_spec(*ModelFile::open(folder / "model.gguf")),
                    Contains("\"mamba\"") && Contains("llama, smollm3, qwen2"));
}

TEST_CASE("spec: tensors that an architecture must have, and those it has no place for") {
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal("qwen2", "blk.1.attn_k.bias", "blk.1.attn_z.bias"), Contains("blk.1.attn_k.bias") && Contains("missing"));
  CHECK_THAT(refusal("qwen3", "blk.0.attn_q_norm.weight", "blk.0.attn_z_norm.weight"), Contains("blk.0.attn_q_norm.weight"));
  CHECK_THAT(refusal("gpt2", "output_norm.bias", "output_xxxx.bias"), Contains("output_norm.bias"));
  CHECK_THAT(refusal("llama_bias", "blk.1.attn_q.bias", "blk.1.attn_r.bias"),
             Contains("blk.1.attn_r.bias") && Contains("unexpected"));
  CHECK_THAT(refusal("phi3_longrope", "rope_factors_long.weight", "rope_factors_lang.weight"),
             Contains("rope_factors_lang.weight"));
  CHECK_THAT(refusal("qwen2moe", "blk.1.ffn_gate_inp_shexp.weight", "blk.1.ffn_gate_inp_shexp.waight"),
             Contains("ffn_gate_inp_shexp"));
}

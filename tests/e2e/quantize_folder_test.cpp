// patchbay quantize --out FOLDER: the folder is the model that the same settings make in a session, from a folder and from a GGUF file.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "config.h"
#include "convert/convert.h"
#include "experiment/evaluation.h"
#include "model_file.h"
#include "patchbay/plugin.h"
#include "program.h"
#include "quantize/write_folder.h"
#include "session.h"
#include "support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;
using Json = nlohmann::json;

namespace {

const std::string kModel = source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf");
const std::string kCalibration = "{text: '" + source_path("data/calibration.txt") + "', samples: 4, length: 32}";

/// The tiny model as a folder: F16 as in the file, queries' and keys' rows in transformers' order.
const std::string& model_folder() {
  static const TemporaryFolder folder;
  static const std::string path = folder / "model";
  if (!std::filesystem::exists(path)) convert_model(ModelFile::open(kModel), path, {});
  return path;
}

ProgramResult run_quantize(const std::string& model, const std::string& out, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"quantize", "--model", model, "--out", out, "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments);
}

/// The negative log-likelihood of each token of one window.
std::vector<float> scores(const std::string& path, const std::string& weights) {
  const auto file = ModelFile::open(path);
  const std::string yaml = "activations: fp32" + (weights.empty() ? "" : "\nweights: " + weights);
  Session session(file, read_run_config(parse_yaml(yaml, "t.yaml")), {64, 1, {}});
  const auto text = evaluation_text(session.tokenizer(), source_path("data/tiny-shakespeare/evaluation.txt"));
  ScoreOptions options;
  options.windows = 1;
  return score(scored_model(session), text, protocol_named("patchbay", 64), options).nll;
}

struct Case {
  std::string layout, quantizer, format;
  std::vector<std::string> more;  ///< settings beside these, as the command has them
  std::string more_yaml;
};
std::string yaml_of(const Case& c) { return "{quantizer: " + c.quantizer + ", format: " + c.format + c.more_yaml + "}"; }

ProgramResult quantize(const std::string& model, const std::string& out, const Case& c) {
  std::vector<std::string> arguments = {"quantizer=" + c.quantizer, "format=" + c.format};
  if (!c.layout.empty()) arguments.insert(arguments.begin(), {"--layout", c.layout});
  arguments.insert(arguments.end(), c.more.begin(), c.more.end());
  return run_quantize(model, out, arguments);
}

Json config_of(const std::string& folder) { return Json::parse(read_file(folder + "/config.json")); }

}  // namespace

TEST_CASE("quantize: a folder in each layout computes what its settings compute in a session, bit for bit") {
  const Case cases[] = {
      {"", "rtn", "{type: int_grouped, bits: 4, group_size: 32, symmetric: true}", {}, ""},
      {"gptq_v2", "rtn", "{type: int_grouped, bits: 3, group_size: -1}", {}, ""},
      {"gptq_v2", "{type: gptq, desc_act: true, damp_percent: 0.02}", "{type: int_grouped, bits: 4, group_size: 64, column_order: true}", {"calibration=" + kCalibration}, ", calibration: " + kCalibration},
      {"awq", "rtn", "{type: int_grouped, bits: 4, group_size: 64}", {}, ""},
      {"awq_gemv", "rtn", "{type: int_grouped, bits: 4, group_size: 64}", {"rules=[{match: '*.ffn_down', quantizer: none}]"}, ", rules: [{match: '*.ffn_down', quantizer: none}]"},
      {"", "rtn", "{type: int_grouped, bits: 4, group_size: 32}", {"rules=[{match: blk.1.ffn_up, format: {type: int_grouped, bits: 8, group_size: 64}}]"},
       ", rules: [{match: blk.1.ffn_up, format: {type: int_grouped, bits: 8, group_size: 64}}]"},
      {"awq", "rtn", "{type: int_grouped, bits: 4, group_size: 32}", {"calibration=" + kCalibration, "transforms=[{type: awq}]"}, ", calibration: " + kCalibration + ", transforms: [{type: awq}]"},
      {"awq", "rtn", "{type: int_grouped, bits: 4, group_size: 32}", {"transforms=[{type: hadamard}]"}, ", transforms: [{type: hadamard}]"},  // the head is no longer the embedding
      {"", "rtn", "{type: fp8, scales: group, group_size: 64}", {}, ""},
      {"compressed-tensors", "rtn", "{type: fp8, scales: tensor, activations: static}", {"calibration=" + kCalibration, "rules=[{match: '*.ffn_down', format: {type: w8a8}}]"},
       ", calibration: " + kCalibration + ", rules: [{match: '*.ffn_down', format: {type: w8a8}}]"},
  };
  for (const Case& c : cases) {
    INFO(c.layout << " " << c.format);
    const TemporaryFolder folder;
    const std::string out = folder / "out";
    const auto result = quantize(model_folder(), out, c);
    INFO(result.err);
    REQUIRE(result.code == 0);
    const auto written = ModelFile::open(out);
    check_model(*written);
    const bool eight_bits = c.format.find("fp8") != std::string::npos, awq = c.layout.substr(0, 3) == "awq";
    REQUIRE(std::string(written->tensor("model.layers.0.self_attn.q_proj.weight")->format) == (eight_bits ? "fp8" : "int_grouped"));
    REQUIRE(std::string(written->tensor("model.embed_tokens.weight")->type_name) == "F16");
    REQUIRE(scores(out, "") == scores(model_folder(), yaml_of(c)));
    REQUIRE(read_file(out + "/tokenizer.json") == read_file(model_folder() + "/tokenizer.json"));
    const Json config = config_of(out)["quantization_config"];
    REQUIRE(config["quant_method"] == (eight_bits ? "compressed-tensors" : awq ? "awq" : "gptq"));
    REQUIRE(std::filesystem::exists(out + "/quantize_config.json") == (!awq && !eight_bits));
    if (eight_bits) REQUIRE(config["config_groups"].size() == (c.layout.empty() ? 1 : 2));
    if (!awq && !eight_bits) REQUIRE(config["checkpoint_format"] == (config["sym"] ? "gptq" : "gptq_v2"));
    if (c.layout == "awq_gemv") REQUIRE(config["modules_to_not_convert"].size() == 4);
    if (c.quantizer != "rtn") REQUIRE(config["desc_act"] == true);
    if (!awq && !eight_bits) {  // what was told to the quantizer, where GPTQModel writes it
      Json meta = {{"quantizer", {"patchbay"}}};
      if (c.quantizer != "rtn") meta.update({{"damp_percent", 0.02}, {"static_groups", false}, {"true_sequential", true}});
      REQUIRE(config["meta"] == meta);
      REQUIRE(Json::parse(read_file(out + "/quantize_config.json")) == config);
    }
    if (c.more_yaml.find("blk.1.ffn_up") != std::string::npos) REQUIRE(config["dynamic"]["+:^model\\.layers\\.1\\.mlp\\.up_proj$"]["bits"] == 8);
  }
}

TEST_CASE("quantize: a GGUF file becomes the folder that its model's folder becomes, tensor for tensor") {
  const TemporaryFolder folder;
  const Case c = {"awq", "rtn", "{type: int_grouped, bits: 4, group_size: 32}", {}, ""};
  REQUIRE(quantize(kModel, folder / "a", c).code == 0);
  REQUIRE(quantize(model_folder(), folder / "b", c).code == 0);
  REQUIRE((read_file(folder / "a/model.safetensors") == read_file(folder / "b/model.safetensors")));
  const auto close = [](const std::vector<float>& x, const std::vector<float>& y) {
    float largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::fabs(x[i] - y[i]));
    return x.size() == y.size() && largest < 2e-4f;
  };
  REQUIRE(close(scores(folder / "a", ""), scores(kModel, yaml_of(c))));
  // Back to GGUF, by the command that converts any folder, in numbers that lose nothing.
  REQUIRE(run_program({"convert", folder / "a", folder / "a.gguf", "--type", "f32"}).code == 0);
  REQUIRE(close(scores(folder / "a.gguf", ""), scores(folder / "a", "")));
}

TEST_CASE("check: scales and codes of a quantised folder that are no numbers are a fault, with their place, as for who reads them") {
  const TemporaryFolder folder;
  const auto spoilt = [&](const std::string& format, const std::string& tensor, std::size_t offset, const std::string& bytes) {
    const std::string out = folder / ("out_" + format.substr(7, 3));
    if (!std::filesystem::exists(out)) REQUIRE(run_quantize(model_folder(), out, {"format=" + format}).code == 0);
    REQUIRE(run_program({"check", out}).code == 0);
    std::string file = read_file(out + "/model.safetensors");
    const std::string whole = file;
    std::uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    const std::size_t begin = Json::parse(file.substr(8, header))[tensor]["data_offsets"][0];
    file.replace(8 + header + begin + offset, bytes.size(), bytes);
    std::ofstream(out + "/model.safetensors", std::ios::binary) << file;
    const auto result = run_program({"check", out});
    CHECK(result.code == 1);
    CHECK(run_program({"logits", "--model", out, "--tokens", "1,2"}).code == 1);
    std::ofstream(out + "/model.safetensors", std::ios::binary) << whole;
    return result.err;
  };
  const std::string module = "model.layers.1.mlp.up_proj.", gptq = "{type: int_grouped}", fp8 = "{type: fp8}";
  CHECK_THAT(spoilt(gptq, module + "scales", 10, std::string("\0\x7e", 2)), Contains(module + "scales") && Contains("value 5 is nan; allowed: finite scales"));
  CHECK_THAT(spoilt(fp8, module + "weight", 256 * 3 + 9, "\xff"), Contains(module + "weight") && Contains("row 3, column 9 is NaN"));
  CHECK_THAT(spoilt(fp8, module + "weight_scale", 4, std::string("\0\0\x80\x7f", 4)), Contains(module + "weight_scale") && Contains("value 1 is inf"));
}

TEST_CASE("quantize, convert: what is quantised in a folder and becomes floats is said, and so is the folder's layout") {
  const TemporaryFolder folder;
  const std::string quantised = folder / "q";
  REQUIRE(quantize(model_folder(), quantised, {"awq_gemv", "rtn", "{type: int_grouped, bits: 4, group_size: 64}", {}, ""}).code == 0);
  const std::string all = "28 quantised tensors are rounded to f16: patchbay convert --type f32 keeps every value";
  CHECK_THAT(run_program({"convert", quantised, folder / "a.gguf"}).err, Contains("patchbay: note: " + all));
  CHECK(run_program({"convert", quantised, folder / "b.gguf", "--type", "f32"}).err.empty());
  const auto stored = run_program({"quantize", "--model", quantised, "--out", folder / "c.gguf", "quantizer=none"});
  REQUIRE(stored.code == 0);
  CHECK_THAT(stored.out, Contains("warning: " + all));
  const auto some = run_quantize(quantised, folder / "d", {"format.type=w8a8", "rules=[{match: '*.ffn_down', quantizer: none}]"});
  REQUIRE(some.code == 0);
  CHECK_THAT(Json::parse(some.out)["warnings"].dump(), Contains("4 quantised tensors are rounded to f16"));
  const Json described = Json::parse(run_program({"inspect", quantised, "--json"}).out);
  CHECK(described["quantization"]["layout"] == "awq_gemv");
  CHECK(described["quantization"]["weights"]["format"]["bits"] == 4);
  CHECK_THAT(run_program({"inspect", quantised}).out, Contains("quantisation\n") && Contains("awq_gemv\n") && Contains("  format.bits "));
}

TEST_CASE("convert: that a folder's inputs were rounded to 8 bits and are no more is said, and of others nothing") {
  const TemporaryFolder folder;
  for (const auto& [format, rounds] : {std::pair("{type: w8a8, activations: token}", true), {"{type: fp8, activations: token}", true}, {"{type: fp8, activations: none}", false}}) {
    INFO(format);
    REQUIRE(run_program({"quantize", "--model", model_folder(), "--out", folder / "a", "--force", std::string("format=") + format}).code == 0);
    const ProgramResult converted = run_program({"convert", folder / "a", folder / "a.gguf", "--type", "f32", "--force"});
    REQUIRE(converted.code == 0);
    CHECK(((converted.out + converted.err).find("rounds the inputs of 28 matrices to 8 bits") != std::string::npos) == rounds);
  }
}

TEST_CASE("quantize: large models are cut into shards with an index") {
  const TemporaryFolder folder;
  const auto file = ModelFile::open(model_folder());
  const RunConfig config = read_run_config(parse_yaml("weights: {quantizer: rtn, format: {type: int_grouped, bits: 4, group_size: 32}}", "t.yaml"));
  const auto backend = make<Backend>(config.backend);
  write_quantized_folder(file, config, backend->ops(), folder / "whole", {});
  write_quantized_folder(file, config, backend->ops(), folder / "shards", {}, 1'000'000);
  const Json index = Json::parse(read_file(folder / "shards/model.safetensors.index.json"));
  const auto whole = ModelFile::open(folder / "whole"), shards = ModelFile::open(folder / "shards");
  REQUIRE(index["weight_map"].size() > whole->tensors().size());
  REQUIRE(std::filesystem::exists(folder / "shards/model-00002-of-" + index["weight_map"].begin()->get<std::string>().substr(15)));
  REQUIRE_FALSE(std::filesystem::exists(folder / "shards/model.safetensors"));
  REQUIRE(scores(folder / "whole", "") == scores(folder / "shards", ""));
}

TEST_CASE("quantize: a folder that no layout can say is refused, and nothing is left of it (Q03, Q04)") {
  const TemporaryFolder folder;
  const auto refused = [&](std::vector<std::string> settings) {
    const auto result = run_quantize(kModel, folder / "out", std::move(settings));
    CHECK(result.code == 1);
    CHECK(std::filesystem::is_empty(folder.path));
    return result.err;
  };
  CHECK_THAT(refused({"format.type=q4_0"}), Contains("blk.0.") && Contains("no layout of a folder takes format q4_0; allowed: int_grouped of 2, 3, 4 or 8 bits, fp8 of variant e4m3, w8a8") && Contains("OUT NAME.gguf"));
  CHECK_THAT(refused({"format.type=q4_k_m"}), Contains("takes format q6_k, which weights.format gguf_mix/q4_k_m chooses here") && Contains("OUT NAME.gguf"));
  for (const std::string format : {"nf4", "fp4", "salient", "noise"})
    CHECK_THAT(refused({"format.type=" + format}), Contains("takes format " + format) && Contains("in an experiment only (patchbay run)") && !Contains("gguf"));
  CHECK_THAT(refused({"format.type=int_grouped", "rules=[{match: blk.1.ffn_up, format: nf4}]"}), Contains("blk.1") && Contains("nf4") && Contains("in an experiment only"));
  CHECK_THAT(refused({"format.type=int_grouped", "bits_by_sensitivity={budget: 4.5, candidates: [4, 5]}"}), Contains("candidates") && Contains("int_grouped/b5") && Contains("2, 3, 4 or 8"));
  CHECK_THAT(refused({"--layout", "exl2", "format.type=int_grouped"}), Contains("exl2") && Contains("gptq, gptq_v2, awq, awq_gemv, compressed-tensors"));
  CHECK_THAT(refused({"--layout", "compressed-tensors", "format.type=int_grouped"}), Contains("no place for format int_grouped") && Contains("w8a8"));
  CHECK_THAT(refused({"format={type: fp8, variant: e5m2}"}), Contains("blk.0.") && Contains("fp8/e5m2") && Contains("format.variant=e4m3"));
  CHECK_THAT(refused({"format={type: int_grouped, bits: 5}"}), Contains("int_grouped/b5") && Contains("format.bits=2, 3, 4 or 8") && !Contains("gguf"));
  CHECK_THAT(refused({"--layout", "awq", "format={type: int_grouped, bits: 3}"}), Contains("codes of 3 bits") && Contains("4 bits"));
  CHECK_THAT(refused({"--layout", "awq", "format={type: int_grouped, column_order: true}"}), Contains("another order"));
  CHECK_THAT(refused({"--layout", "awq_gemv", "format={type: int_grouped, group_size: 16}"}), Contains("groups of 16"));
  CHECK_THAT(refused({"format={type: int_grouped, group_size: 100}"}), Contains("100") && Contains("blk.0"));
  CHECK_THAT(refused({"format.type=int_grouped", "targets=all"}), Contains("embed_tokens") && Contains("targets=blocks") && !Contains("GGUF"));
  CHECK_THAT(refused({"--layout", "gptq", "format={type: int_grouped, bits: 2, group_size: 8}"}), Contains("zero point 0") && Contains("gptq_v2"));
  CHECK_THAT(refused({"quantizer.type=none"}), Contains("quantises no weight"));
  const auto gguf = run_quantize(kModel, folder / "a.gguf", {"--layout", "gptq", "format.type=q4_0"});
  CHECK(gguf.code == 1);
  CHECK_THAT(gguf.err, Contains("--layout") && Contains("folders"));
}

TEST_CASE("quantize: started with a closed stream, no file of its own takes that place, where progress would be written into it") {
  const TemporaryFolder folder;
  const ShellResult seen = patchbay_run("quantize --model " + kModel + " --out " + (folder / "a.gguf") + " format=q4_0 quantizer=gptq calibration.text=" +
                                            source_path("data/tiny-shakespeare/calibration.txt"),
                                        ">/dev/null <&- 2>&- & p=$!; for i in $(seq 600); do t=$(readlink /proc/$p/fd/2) && break; sleep 0.05; done; echo \"$t\"; kill -9 $p");
  CHECK(seen.out == "/dev/null\n");
}

// patchbay quantize: what it writes is the model that the same settings make in a session, in a file that says so.
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "config.h"
#include "experiment/evaluation.h"
#include "gguf_types.h"
#include "model_file.h"
#include "program.h"
#include "session.h"
#include "support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

const std::string kModel = source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf");

std::vector<std::string> command(const std::string& out, std::vector<std::string> more) {
  std::vector<std::string> arguments = {"quantize", "--model", kModel, "--out", out, "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The negative log-likelihood of each token of one window.
std::vector<float> scores(const std::string& path, const std::string& yaml) {
  const auto file = ModelFile::open(path);
  Session session(file, read_run_config(parse_yaml(yaml, "t.yaml")), {128, 1, {}});
  const auto text = evaluation_text(session.tokenizer(), source_path("data/tiny-shakespeare/evaluation.txt"));
  ScoreOptions options;
  options.windows = 1;
  return score(scored_model(session), text, protocol_named("patchbay", 128), options).nll;
}

std::string type_of(const ModelFile& file, const char* tensor) { return std::string(file.tensor(tensor)->type_name); }

}  // namespace

TEST_CASE("quantize: a file in each type of GGUF computes what its settings compute in a session, bit for bit") {
  const TemporaryFolder folder;
  for (const std::string format : {"q8_0", "q4_0", "q5_1", "q4_k", "q6_k", "iq4_nl", "fp16", "bf16", "fp32"}) {
    INFO(format);
    const std::string out = folder / format + ".gguf";
    const auto result = run_program(command(out, {"quantizer.type=rtn", "format.type=" + format, "rules=[{match: blk.1.ffn_down, format: {type: q8_0}}]"}));
    REQUIRE(result.code == 0);
    const auto written = ModelFile::open(out);
    check_model(*written);
    const auto* q = written->tensor("blk.0.attn_q.weight");
    REQUIRE(std::string(q->format) == format);
    REQUIRE(type_of(*written, "blk.1.ffn_down.weight") == "Q8_0");
    REQUIRE(type_of(*written, "token_embd.weight") == "F16");
    REQUIRE(scores(out, "activations: fp32") == scores(kModel, "activations: fp32\nweights: {quantizer: rtn, format: " + format +
                                                                  ", rules: [{match: blk.1.ffn_down, format: q8_0}]}"));
  }
}

TEST_CASE("quantize: metadata and tokenizer stay, and the file says what it is") {
  const TemporaryFolder folder;
  const std::string out = folder / "m.gguf";
  const auto result = run_program(command(out, {"format.type=q4_0", "targets=all"}));
  REQUIRE(result.code == 0);
  const auto before = ModelFile::open(kModel), after = ModelFile::open(out);
  for (const MetaEntry& entry : before->metadata()) {
    const MetaEntry* copy = after->find(entry.key);
    INFO(entry.key);
    REQUIRE(copy != nullptr);
    if (entry.key == "general.file_type" || entry.key == "general.quantization_version") continue;
    REQUIRE((copy->type == entry.type && copy->array == entry.array && copy->value == entry.value));
  }
  REQUIRE(after->integer("general.file_type") == 2);
  REQUIRE(after->integer("general.quantization_version") == 2);
  REQUIRE_THAT(std::string(after->string("patchbay.weights")), Contains("\"q4_0\""));
  REQUIRE(type_of(*after, "token_embd.weight") == "Q4_0");
  REQUIRE(type_of(*after, "blk.0.attn_norm.weight") == "F32");
  const auto json = nlohmann::json::parse(result.out);
  REQUIRE(json["tensors"] == before->tensors().size());
  REQUIRE(json["quantized_tensors"] == 4 * 7 + 1);
}

TEST_CASE("quantize: with calibration the file is the session's model too, and a stopped run goes on") {
  const TemporaryFolder folder;
  const std::string calibration = "{text: '" + source_path("data/calibration.txt") + "', samples: 4, length: 32}", out = folder / "g.gguf";
  const std::vector<std::string> settings = {"quantizer.type=gptq", "format.type=q4_0", "calibration=" + calibration};
  const auto result = run_program(command(out, settings));
  INFO(result.err);
  REQUIRE(result.code == 0);
  const auto json = nlohmann::json::parse(result.out);
  REQUIRE(json["calibration"]["tokens"] == 128);
  REQUIRE(json["notes"].contains("blk.3.ffn_down.weight"));
  REQUIRE_FALSE(std::filesystem::exists(out + ".partial"));
  REQUIRE(scores(out, "activations: fp32") == scores(kModel, "activations: fp32\nweights: {quantizer: gptq, format: q4_0, calibration: " + calibration + "}"));
}

TEST_CASE("quantize: what cannot be written is refused before any work") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& out, std::vector<std::string> settings) {
    const auto result = run_program(command(out, std::move(settings)));
    CHECK(result.code == 1);
    CHECK(std::filesystem::is_empty(folder.path));
    return result.err;
  };
  CHECK_THAT(refused(folder / "a.gguf", {"format={type: int_grouped, group_size: 32}"}), Contains("GGUF has no type for format int_grouped/b4/g32") && Contains("q4_k"));
  CHECK_THAT(refused(folder / "a.bin", {"format.type=q4_0"}), Contains(".gguf"));
  CHECK_THAT(refused(folder / "a.gguf", {"quantizer.type=gptq", "format.type=q4_0", "calibration.text=nowhere.txt"}), Contains("nowhere.txt"));
  CHECK_THAT(refused(folder / "a.gguf", {"format.type=q9_9"}), Contains("q9_9"));
}

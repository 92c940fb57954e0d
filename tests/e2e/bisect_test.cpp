// patchbay bisect as a user runs it: the forms in which a configuration may be named, and what it says.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "program.h"
#include "support.h"

using Catch::Contains;
using nlohmann::json;
namespace test = patchbay::test;

namespace {

const std::string kModel = test::source_path("tests/golden/tiny_llama/gqa_tied.gguf");

test::ProgramResult bisect(const std::string& a, const std::string& b, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"bisect", a, b, "--tokens", "95,257,31,56"});
  return test::run_program(more);
}

json bisect_json(const std::string& a, const std::string& b, std::vector<std::string> more = {}) {
  more.push_back("--json");
  const auto result = bisect(a, b, more);
  INFO(result.err);
  REQUIRE(result.code == 0);
  return json::parse(result.out);
}

/// Two runs of the tiny model that differ in attention.
std::string experiment(const test::TemporaryFolder& folder) {
  std::ofstream(folder / "two.yaml") << "name: two\nmodel: " << kModel
                                     << "\nbase: {activations: fp32}\nsweep: {attention: [naive, flash]}\ntasks: [memory]\n";
  return folder / "two.yaml";
}

}  // namespace

TEST_CASE("bisect: settings on the command line") {
  const json found = bisect_json("attention=naive", "attention=flash kv_store={type: paged, block_size: 4}", {"--model", kModel, "activations=fp32"});
  CHECK(found["equal"] == false);
  CHECK(found["first_bit"]["operation"] == "attention");
  CHECK(found["first_bit"]["layer"] == 0);
  CHECK(found["first_beyond"].is_null());
  CHECK(found["operations"].size() == 54);
  CHECK(found["weights"].empty());
  CHECK(found["prompt_tokens"] == json({95, 257, 31, 56}));
  const json type = {{"path", "attention.type"}, {"a", "naive"}, {"b", "flash"}};
  CHECK(std::count(found["settings"].begin(), found["settings"].end(), type) == 1);
  const auto text = bisect("attention=naive", "attention=flash", {"--model", kModel, "activations=fp32"});
  CHECK(text.code == 0);
  CHECK_THAT(text.out, Contains("First other bit: layer 0, attention\n") && Contains("token 1 (257 ") && Contains("head ") &&
                           Contains("No operation is beyond a relative RMSE of 0.001.") && Contains("Weights: all 29 tensors"));
  // Layer 0 in full, of the others what leaves them.
  CHECK_THAT(text.out, Contains("1  block_output") && !Contains("1  ffn_gate"));
  CHECK_THAT(bisect("attention=naive", "attention=flash", {"--model", kModel, "--all"}).out, Contains("1  ffn_gate"));
}

TEST_CASE("bisect: equal configurations, and settings that no forward pass sees") {
  const auto same = bisect("defaults", "model=" + kModel, {"--model", kModel});
  CHECK(same.code == 0);
  CHECK_THAT(same.out, Contains("Equal: the results of all 54 operations have the same bits.") && !Contains("nothing to part"));
  const auto decoder = bisect("decoder=greedy max_batched_tokens=2", "decoder=sampling", {"--model", kModel});
  CHECK_THAT(decoder.out, Contains("Equal") && Contains("none of a forward pass, so there was nothing to part"));
  CHECK(bisect_json("decoder=greedy", "decoder=sampling", {"--model", kModel})["equal"] == true);
  const auto exact = bisect("kv_store=contiguous", "kv_store=paged", {"--model", kModel});  // seen by the pass, and exact all the same
  CHECK_THAT(exact.out, Contains("Equal") && !Contains("nothing to part"));
}

TEST_CASE("bisect: runs of an experiment, and records of finished ones") {
  const test::TemporaryFolder folder;
  const std::string yaml = experiment(folder), results = folder / "results";
  const json planned = bisect_json(yaml, yaml + ":attention=flash");
  CHECK(planned["first_bit"]["operation"] == "attention");
  CHECK(bisect_json(yaml + ":1", yaml + ":2")["first_bit"] == planned["first_bit"]);
  CHECK_THAT(bisect(yaml + ":3", yaml).err, Contains("no such run") && Contains("1: attention=naive; 2: attention=flash"));

  const auto run = test::run_program({"run", yaml, "--out", results});
  INFO(run.err);
  REQUIRE(run.code == 0);
  const json finished = bisect_json(results, results + ":attention=flash");
  CHECK(finished["first_bit"] == planned["first_bit"]);
  CHECK(finished["a"]["model"] == kModel);
  CHECK(bisect_json(results, "attention=naive activations=fp32", {"--model", kModel})["equal"] == true);
  CHECK(bisect_json(results, results + ":attention=flash", {"kv_store.format=int8"})["first_bit"]["operation"] == "attention");  // both int8

  // A record is of the model that it was measured on.
  const std::string records = test::read_file(results + "/records.jsonl");
  std::string other = records;
  const auto at = other.find("\"model_sha256\":\"") + 16;
  other[at] = other[at] == '0' ? '1' : '0';
  std::ofstream(results + "/records.jsonl", std::ios::binary) << other;
  CHECK_THAT(bisect(results, "defaults", {}).err, Contains("is not the model of") && Contains("--model"));
  CHECK(bisect(results, results, {"--model", kModel}).code == 0);
}

TEST_CASE("bisect: what it refuses") {
  const auto refused = [](const std::string& a, const std::string& b, const std::vector<std::string>& more) {
    const auto result = bisect(a, b, more);
    CHECK(result.code == 1);
    CHECK(result.out.empty());
    return result.err;
  };
  CHECK_THAT(refused("naive", "defaults", {"--model", kModel}), Contains("naive: names no configuration") && Contains("FILE.yaml[:RUN]"));
  CHECK_THAT(refused("", "defaults", {"--model", kModel}), Contains("names no configuration"));
  CHECK_THAT(refused("attention=naive", "defaults", {}), Contains("--model: is missing"));
  CHECK_THAT(refused("atention=naive", "defaults", {"--model", kModel}), Contains("did you mean attention?"));
  CHECK_THAT(refused("defaults", "defaults", {"--model", kModel, "atention=naive"}), Contains("did you mean attention?"));
  CHECK_THAT(refused("defaults", "defaults", {"--model", kModel, "--prompt", "x"}), Contains("given beside another prompt"));
  CHECK_THAT(test::run_program({"bisect", "defaults", "defaults", "--model", kModel}).err, Contains("--prompt: is empty"));
  CHECK_THAT(refused("defaults", "model=" + test::source_path("tests/golden/tiny_llama/mqa_wide_heads.gguf"), {"--model", kModel}), Contains("other shapes"));
  const test::TemporaryFolder folder;
  CHECK_THAT(refused(folder.path, "defaults", {"--model", kModel}), Contains("holds no records.jsonl"));
}

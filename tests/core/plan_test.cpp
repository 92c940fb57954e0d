#include "experiment/plan.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "config.h"
#include "experiment/sweep.h"
#include "support.h"

using namespace patchbay;
using Catch::Contains;
using Assignments = std::vector<std::string>;

namespace {

Plan plan_of(const std::string& text, const Assignments& assignments = {}) { return read_plan(parse_yaml(text, "t.yaml"), "", assignments); }

/// A whole experiment with `rest` added, its runs alone.
std::string with(const std::string& rest) { return "name: base\nmodel: tiny.gguf\n" + rest + "\nnoise: false\n"; }

std::string refusal(const std::string& text) {
  try {
    plan_of(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> result;
  for (const auto& run : plan.runs) result.push_back(run.name);
  return result;
}

}  // namespace

TEST_CASE("lists multiply, the last axis fastest; the baseline runs first and once") {
  const auto plan = plan_of(with(R"(
sweep:
  attention: [naive, flash]
  kv_store.format: [fp16, int8]
baseline: {attention: flash, kv_store.format: fp16}
)"));
  CHECK(names(plan) == std::vector<std::string>{"attention=flash, kv_store.format=fp16", "attention=naive, kv_store.format=fp16",
                                                "attention=naive, kv_store.format=int8", "attention=flash, kv_store.format=int8"});
  CHECK(plan.runs[0].baseline);
  for (std::size_t i = 1; i < plan.runs.size(); ++i) CHECK_FALSE(plan.runs[i].baseline);
  CHECK(plan.runs[2].config.attention.type == "naive");
  CHECK(nlohmann::json::parse(plan.runs[2].config_json)["kv_store"]["format"]["type"] == "int8");
}

TEST_CASE("a setting that the baseline leaves at its default goes by the name that the axis has for it") {
  const auto plan = plan_of(with("sweep:\n  weights: [{quantizer: rtn, format: q8_0}]\n  kv_store.format: [fp16, int8]\nbaseline: {weights: none}\n"));
  CHECK(plan.runs[0].name == "weights=none, kv_store.format=fp16");
  // A default that is no value of the axis is shown as it is.
  const auto other = plan_of(with("sweep:\n  weights: [{quantizer: rtn, format: q8_0}]\n  kv_store.format: [fp32, int8]\nbaseline: {weights: none}\n"));
  CHECK_THAT(other.runs[0].name, Contains("kv_store.format=fp16"));
}

TEST_CASE("a baseline outside the sweep is a run of its own") {
  const auto plan = plan_of(with(R"(
base:
  weights: {quantizer: rtn, format: {type: int_grouped, group_size: 64}}
  kv_store: {format: int8}
sweep:
  weights.format.bits: [4, 8]
baseline: {weights: none, kv_store: {format: fp16}}
)"));
  REQUIRE(plan.runs.size() == 3);
  CHECK(plan.runs[0].name == "weights.format.bits=none, kv_store.format=fp16");
  CHECK(plan.runs[1].name == "weights.format.bits=4, kv_store.format=int8");
  CHECK(plan.runs[0].config.weights.quantizer.type == "none");
}

TEST_CASE("values can be named, set several keys together, or be a range") {
  const auto named = plan_of(with("sweep: {weights: {as stored: none, small: {quantizer: rtn, format: {type: int_grouped, bits: 4, group_size: 64}}}}"));
  CHECK(names(named) == std::vector<std::string>{"weights=as stored", "weights=small"});
  CHECK(named.runs[1].config.weights.quantizer.type == "rtn");
  const auto together = plan_of(with("sweep: {setup: [{attention: naive, kv_store.format: int8}, {attention: flash, kv_store.format: fp32}]}"));
  REQUIRE(together.runs.size() == 2);
  CHECK(together.runs[1].config.attention.type == "flash");
  CHECK(nlohmann::json::parse(together.runs[1].config_json)["kv_store"]["format"]["type"] == "fp32");
  const auto range = plan_of(with("base: {kv_store: paged}\nsweep: {kv_store.block_size: {from: 16, to: 70, step: 16}}"));
  CHECK(names(range) == std::vector<std::string>{"kv_store.block_size=16", "kv_store.block_size=32", "kv_store.block_size=48", "kv_store.block_size=64"});
}

TEST_CASE("a map without type is merged, one with type replaces") {
  Settings base;
  base.kind = Settings::Kind::map;
  override_path(base, "kv_store", parse_yaml("type: paged\nblock_size: 32\n", "t.yaml"));
  override_path(base, "kv_store", parse_yaml("format: int8\n", "t.yaml"));
  CHECK(to_json(base) == R"({"kv_store":{"block_size":32,"format":"int8","type":"paged"}})");
  override_path(base, "kv_store", parse_yaml("type: contiguous\n", "t.yaml"));
  CHECK(to_json(base) == R"({"kv_store":{"type":"contiguous"}})");
}

TEST_CASE("a parameter of a technique that is not named belongs to its default") {
  const auto config = nlohmann::json::parse(plan_of(with("base: {kv_store: {format: int8}}")).runs[0].config_json);
  CHECK(config["kv_store"]["type"] == "contiguous");
  CHECK(config["kv_store"]["format"]["type"] == "int8");
  CHECK_THAT(refusal(with("base: {kv_store: {block_size: 4}}")), Contains("block_size"));
}

TEST_CASE("defaults, and a sweep of nothing") {
  const auto plan = plan_of(with(""));
  REQUIRE(plan.runs.size() == 1);
  CHECK(plan.runs[0].baseline);
  CHECK(plan.out == "results/base");
  CHECK(plan.tasks.size() == 5);
  CHECK(plan.seed == 0);
  CHECK(plan_of(with("seed: 18446744073709551615")).seed == 18446744073709551615u);
  CHECK(plan_of(with("seed: 0x2A")).seed == 42);
}

TEST_CASE("the baseline is measured again where a sweep has something to compare, and only where there is noise") {
  const std::string sweep = "name: a\nmodel: m\nsweep: {attention: [naive, flash]}\n";
  const auto plan = plan_of(sweep);
  CHECK(names(plan) == std::vector<std::string>{"attention=naive", "baseline again", "attention=flash"});
  CHECK(plan.runs[1].noise);
  CHECK_FALSE(plan.runs[1].baseline);
  CHECK(plan.runs[1].config_json == plan.runs[0].config_json);
  CHECK_THAT(plan_table(plan), Contains("baseline again: noise"));
  const auto json = nlohmann::json::parse(plan_json(plan));
  CHECK(json["noise"] == true);
  CHECK(json["runs"][1]["noise"] == true);
  CHECK(plan_of(sweep, {"noise=false"}).runs.size() == 2);
  CHECK(plan_of(sweep + "tasks: [memory, generation]").runs.size() == 2);
  CHECK(plan_of("name: a\nmodel: m\n").runs.size() == 1);
  CHECK(plan_of("name: a\nmodel: m\nnoise: true\n").runs.size() == 2);
  CHECK_THAT(refusal(sweep + "tasks: [memory]\nnoise: true"), Contains("noise: none of the tasks has noise"));
  CHECK_THAT(refusal(sweep + "noise: yes"), Contains("noise"));
  CHECK_THAT(refusal(sweep + "noise: 1"), Contains("noise"));
  CHECK_THAT(refusal(sweep + "noise: [true]"), Contains("noise"));
  CHECK_THAT(refusal(sweep + "nois: true"), Contains("did you mean noise?"));
}

TEST_CASE("assignments change the experiment or its base, and never what the sweep sets") {
  const auto plan = plan_of(with("sweep: {attention: [naive, flash]}"), {"kv_store.format=int8", "seed=7", "evaluation.chunks=2", "tasks=[memory]"});
  CHECK(plan.seed == 7);
  CHECK(plan.evaluation.chunks == 2);
  CHECK(plan.tasks == std::vector<std::string>{"memory"});
  CHECK(nlohmann::json::parse(plan.runs[1].config_json)["kv_store"]["format"]["type"] == "int8");
  CHECK_THROWS_WITH(plan_of(with("sweep: {attention: [naive, flash]}"), {"attention=naive"}), Contains("the sweep sets attention"));
  CHECK(plan_of(with("sweep: {attention: [naive, flash]}"), {"sweep.attention=[naive]"}).runs.size() == 1);
  CHECK(plan_of(with("sweep: {kv_store.format: [fp16, fp32]}"), {"sweep.kv_store.format=[int8]"}).runs.size() == 1);
  CHECK(plan_of(with(""), {"sweep.kv_store.format=[int8, fp16]"}).runs.size() == 2);
}

TEST_CASE("a misspelt assignment is told of the experiment's keys and of its base's") {
  const auto message = [](const std::string& assignment) {
    try {
      plan_of(with(""), {assignment});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(message("seeed=1"), Contains("command line: seeed: unknown setting") && Contains("did you mean seed?"));
  CHECK_THAT(message("atention=naive"), Contains("did you mean attention?"));
  CHECK(message("threads=2") == "accepted");
  CHECK_THAT(message("gpu_layers=2"), Contains("device cpu has no such layers"));  // known, and out of place here
  CHECK(plan_of(with(""), {"device=simt", "gpu_layers=1"}).runs.front().config.gpu_layers == 1);
  CHECK_THROWS_WITH(plan_of(with(""), {"repeat=2", "seed=1", "repeat=3"}), Contains("command line: repeat: is given twice"));
}

TEST_CASE("a fault is refused by its own name, with file, line and key") {
  // The kinds of fault of a list of hostile configs, in this schema.
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with("bse: {}"), "t.yaml:3: bse: unknown"},
      {with("bse: {}"), "did you mean base"},
      {with("base: {kv_store: {type: paged, blok_size: 4}}"), "block_size"},
      {with("base: {max_batched_tokens: many}"), "not an integer"},
      {with("base: {max_batched_tokens: 0}"), "out of range"},
      {with("base: {max_batched_tokens: 4.7}"), "not an integer"},
      {with("base: {weights: {quantizer: rtn, format: {type: int_grouped, bits: 9}}}"), "bits"},
      {with("base: {weights: {quantizer: rtn, format: {type: int_grouped, group_size: 0}}}"), "group_size"},
      {with("base: {weights: {quantizer: rtn, format: {type: int_grouped, group_size: -7}}}"), "group_size"},
      {with("base: {weights: {quantizer: GPTQX}}"), "rtn"},
      {with("base: {decoder: [greedy]}"), "list"},
      {with("base: [attention, flash]"), "base"},
      {with("seed: 99999999999999999999999"), "out of range"},
      {with("seed: -1"), "out of range"},
      {with("seed: 1.5"), "not an integer"},
      {with("seed: \"1\""), "quotes"},
      {with("repeat: 0"), "out of range"},
      {"name: base\nmodel: no\n", "boolean where text"},
      {"name: base\n", "model: missing key"},
      {"name: base\nmodel:\n", "missing value"},
      {"model: tiny.gguf\n", "name: missing key"},
      {with("out: ../../../../tmp/owned"), "leads outside"},
      {with("out: /etc"), "leads outside"},
      {with("out: a/../../b"), "leads outside"},
      {with("out: \"\""), "bad path"},
      {"name: a/../../b\nmodel: m\n", "bad name"},
      {"name: \"..\"\nmodel: m\n", "bad name"},
      {"name: \"a\\nINFO all tests passed\"\nmodel: m\n", "bad name"},
      {"name: \"\\e[2Jclean\"\nmodel: m\n", "control byte 0x1b"},
      {"name: \"a\\u009b2J\"\nmodel: m\n", "bad name"},
      {"name: \"\"\nmodel: m\n", "bad name"},
      {"name: " + std::string(201, 'a') + "\nmodel: m\n", "bad name"},
      {with("sweep: {attention: []}"), "axis without values"},
      {with("sweep: {attention: flash}"), "axis is expected"},
      {with("sweep: {max_batched_tokens: {from: 2, to: 8, step: 0}}"), "step 0"},
      {with("sweep: {max_batched_tokens: {from: 8, to: 2, step: 1}}"), "never reaches its end"},
      {with("sweep: {max_batched_tokens: {from: 1, to: 1000000000, step: 1}}"), "too many values"},
      {with("sweep: {max_batched_tokens: {from: 1, to: .inf, step: 1}}"), "not finite"},
      {with("sweep: {max_batched_tokens: {to: 8}}"), "from: missing key"},
      {with("sweep: {max_batched_tokens: [4, 4]}"), "the same value twice"},
      {with("sweep: {attention: [flash, {type: flash}]}"), "two runs are the same"},
      {with("sweep: {atention: [naive, flash]}"), "did you mean attention"},
      {with("sweep: {attention: [naive, flash], setup: [{attention: flash}, {attention: naive}]}"), "the axes attention and setup both set attention"},
      {with("sweep: {kv_store.format: [fp16, int8], kv_store: {a: paged, b: contiguous}}"), "the axes kv_store.format and kv_store both set kv_store.format"},
      {with("sweep: {seed: [1, 2]}"), "seed is one for the whole experiment and cannot be swept"},
      {with("sweep: {evaluation.window: [64, 128]}"), "evaluation.window is one for the whole experiment"},
      {with("sweep: {attention: {\"\": naive, b: flash}}"), "bad name of a value, '': it is empty"},
      {with("sweep: {attention: {\"a\\nb\": naive, b: flash}}"), "bad name of a value"},
      {"name: \"  \"\nmodel: m\n", "bad name: it is blank"},
      {"name: \"a\\u202Eb\"\nmodel: m\n", "turns the direction"},
      {with("tasks: []"), "no task"},
      {with("tasks: [perplexty]"), "did you mean perplexity"},
      {with("tasks: [memory, memory]"), "twice"},
      {with("tasks: memory"), "no list"},
      {with("baseline: [1]"), "no map"},
      {with("evaluation: {windw: 3}"), "window"},
      {with("evaluation: {protocol: llama}"), "llama.cpp"},
      {with("evaluation: {window: 1}"), "out of range"},
      {with("include: other.yaml"), "include is not supported"},
      {with("plugins: [../../tmp/evil.so]"), "plugin paths are not taken"},
      {with("plugin_path: /tmp"), "plugin_path: unknown"},
      {with("base:\n  kv_store: ../../evil"), "kv_store"},
  };
  for (const auto& [text, reason] : cases) {
    INFO(text);
    CHECK_THAT(refusal(text), Contains(reason));
  }
  CHECK(refusal(with("out: results/fine\nnote: fine")) == "accepted");
  CHECK(refusal(with("base:\nsweep:\nbaseline:\nevaluation:")) == "accepted");  // their lines are comments
  CHECK(plan_of(with("note: |\n  one line")).note == "one line");
  CHECK(plan_of(with("base: {kv_store: paged}\nsweep: {kv_store.format: [fp16, int8], kv_store.block_size: [16, 32]}")).runs.size() == 4);  // beside each other
}

TEST_CASE("a sweep that explodes is counted, not expanded") {
  std::string text = "name: base\nmodel: tiny.gguf\nsweep:\n";
  for (int axis = 0; axis < 12; ++axis)
    text += "  p" + std::to_string(axis) + ": [{threads: 0}, {threads: 1}, {threads: 2}, {threads: 3}, {threads: 4}, {threads: 5}, {threads: 6}, "
            "{threads: 7}, {threads: 8}, {threads: 9}]\n";
  CHECK_THAT(refusal(text), Contains("1000000000000 runs"));
}

TEST_CASE("every run is checked against the model, by tensor, before anything is loaded") {
  const auto model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "SmolLM2");
  auto plan = plan_of("name: a\nmodel: " + model + "\nevaluation: {text: " + test::source_path("data/evaluation.txt") + ", prompts: " +
                      test::source_path("data/prompts.jsonl") + "}\nsweep: {weights: [none, {quantizer: rtn, format: {type: int_grouped, group_size: 128}}]}");
  try {
    check_plan(plan);
    FAIL("groups of 128 on rows of 576 were accepted");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("run weights=") && Contains("blk.0.") && Contains("576") && Contains("128"));
  }
  auto missing = plan_of("name: a\nmodel: " + model + "\nevaluation: {text: nowhere.txt}\n");
  CHECK_THROWS_WITH(check_plan(missing), Contains("evaluation.text") && Contains("nowhere.txt"));
}

TEST_CASE("the shortest experiment fits itself to a small model; what is asked for and does not fit is named by its key") {
  const std::string shortest = "name: a\nmodel: " + test::source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf") + "\n";  // a context of 512
  const auto checked = [&](const std::string& rest) {
    auto plan = read_plan(parse_yaml(shortest + "evaluation: {text: " + test::source_path("data/evaluation.txt") + ", prompts: " +
                                     test::source_path("data/prompts.jsonl") + rest + "}\n", "t.yaml"), "");
    check_plan(plan);
    return plan.evaluation.prefill_tokens;
  };
  CHECK(checked("") == 511);
  CHECK(checked(", prefill_tokens: 100") == 100);
  CHECK_THROWS_WITH(checked(", prefill_tokens: 512"), Contains("evaluation.prefill_tokens: 512 tokens") && Contains("at most 511"));
  CHECK_THROWS_WITH(checked(", max_tokens: 512"), Contains("evaluation.max_tokens: ") && Contains(" tokens after the 353 of the prompt ") && Contains("context of 512; allowed: at most 159"));
  CHECK_THROWS_WITH(checked(", window: 513"), Contains("evaluation.window: 513 tokens"));
  CHECK_THROWS_WITH(checked(", prompt_count: 5000"), Contains("evaluation.prompt_count of at most "));
}

TEST_CASE("every experiment of the repository can be read") {
  std::vector<std::string> files;
  for (const char* folder : {"configs", "plugins"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path(folder)))
      if (entry.path().extension() == ".yaml" && entry.path().parent_path().filename() != "models") files.push_back(entry.path().string());
  CHECK(files.size() > 5);
  for (const auto& file : files) {
    INFO(file);
    const auto plan = read_plan(parse_yaml_file(file), file);
    CHECK(!plan.runs.empty());
    CHECK(std::filesystem::exists(plan.evaluation.text));
  }
}

TEST_CASE("the quick starts and the ablations plan against their models, where these are here") {
  int planned = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path("configs"))) {
    if (entry.path().extension() != ".yaml" || entry.path().parent_path().filename() == "models") continue;
    INFO(entry.path().string());
    auto plan = read_plan(parse_yaml_file(entry.path().string()), entry.path().string());
    const bool ours = plan.model == "tiny-shakespeare", fetched = plan.model == "smollm2-135m" && std::filesystem::exists(test::smollm2_path());
    if (!ours && !fetched) continue;
    CHECK_NOTHROW(check_plan(plan));
    for (const auto& run : plan.runs) CHECK(run.predicted.has_value());
    ++planned;
  }
  CHECK(planned >= 2);
}

TEST_CASE("the quick start plans twelve runs that differ where it says, and the baseline again") {
  const auto file = test::source_path("configs/quickstart.yaml");
  const auto plan = read_plan(parse_yaml_file(file), file);
  CHECK(plan.runs.size() == 13);
  CHECK(plan.runs[0].baseline);
  CHECK(plan.runs[0].name == "weights=as stored, kv_store.format=fp16, decoder=greedy");
  std::set<std::string> distinct;
  for (const auto& run : plan.runs) distinct.insert(run.config_json);
  CHECK(distinct.size() == 12);
  const auto json = nlohmann::json::parse(plan_json(plan));
  CHECK(json["runs"].size() == 13);
  CHECK(json["runs"][2]["labels"]["decoder"] == "lookup");
  CHECK_THAT(plan_table(plan), Contains("rtn int4 g64") && Contains("baseline"));
  CHECK_FALSE(json["runs"][0].contains("predicted"));  // the model was not looked at
}

TEST_CASE("a checked plan says how much of the weights lies on a device") {
  const auto model = test::source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf");
  const auto predicted = [&](const std::string& base) {
    auto plan = read_plan(parse_yaml("name: sizes\nmodel: " + model + "\nbase: {" + base + "}\ntasks: [memory]\n", "sizes.yaml"), "");
    check_plan(plan);
    return nlohmann::json::parse(plan_json(plan))["runs"][0]["predicted"];
  };
  CHECK_FALSE(predicted("device: cpu").contains("device_weights_bytes"));
  const auto all = predicted("device: simt");
  CHECK(all["device_weights_bytes"] == all["weights_bytes"]);
  CHECK(all["activations"] == "f16");  // the model's file says nothing of bf16
  const auto some = predicted("device: simt, gpu_layers: 2");
  CHECK(some["device_weights_bytes"].get<double>() > 0.4 * all["weights_bytes"].get<double>());
  CHECK(some["device_weights_bytes"].get<double>() < 0.7 * all["weights_bytes"].get<double>());
  CHECK_FALSE(predicted("device: simt, gpu_layers: 0").contains("device_weights_bytes"));
  CHECK_THROWS_WITH(predicted("device: simt, gpu_layers: 5"), Contains("gpu_layers") && Contains("0 to 4"));
}

TEST_CASE("a plan that was checked says what its formats make of the model") {
  const auto model = test::source_path("tests/golden/tiny_llama/gqa_tied.gguf");
  auto plan = read_plan(parse_yaml("name: sizes\nmodel: " + model + "\ntasks: [memory]\nsweep: {kv_store.format: [fp16, int8]}\n", "sizes.yaml"), "");
  const auto file = check_plan(plan);
  const auto json = nlohmann::json::parse(plan_json(plan));
  const auto sizes = [&](int run, const char* key) { return json["runs"][run]["predicted"][key].get<double>(); };
  double stored = 0;
  for (const auto& tensor : file->tensors()) stored += static_cast<double>(tensor.bytes);
  CHECK(sizes(0, "weights_bytes") == stored);
  CHECK(sizes(0, "bits_per_weight") == Approx(32));  // the file is in F32
  CHECK(sizes(0, "kv_bytes_per_token") == 2 * 3 * 2 * 8 * 2);  // keys and values, 3 layers, 2 heads of 8, fp16
  CHECK(sizes(1, "kv_bytes_per_token") == 2 * 3 * 2 * (8 + 2));
  CHECK_THAT(plan_table(plan), Contains("192") && Contains("120"));
}

// The keys under `base:`: read, checked against the plugins, and written back whole.
#include "run_config.h"

#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>

#include "config.h"
#include "patchbay/gpu_linear.h"
#include "registry.h"
#include "support.h"

using namespace patchbay;
using Catch::Contains;

namespace {

RunConfig read(const std::string& yaml) { return read_run_config(parse_yaml(yaml, "a.yaml")); }
RunConfig assigned(const std::vector<std::string>& assignments) {
  Settings map;
  map.kind = Settings::Kind::map;
  for (const std::string& each : assignments) apply_assignment(map, each);
  return read_run_config(map);
}
std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}
std::string refusal(const std::string& yaml) {
  return refusal([&] { read(yaml); });
}
nlohmann::json effective(const RunConfig& config) { return nlohmann::json::parse(to_json(effective_settings(config))); }

}  // namespace

TEST_CASE("without settings every default stands") {
  const RunConfig config = read_run_config(Settings{});
  CHECK(config.device == "cpu");
  CHECK(config.weights.quantizer.type == "none");
  CHECK(config.activations == ActivationMode::q8);
  CHECK(config.max_batched_tokens == 8192);
  const nlohmann::json all = effective(config);
  CHECK(all["weights"] == nlohmann::json::parse(R"({"quantizer": {"type": "none"}, "targets": "blocks"})"));
  CHECK(all["kv_store"]["type"] == "contiguous");
  CHECK(all["kv_store"]["format"]["type"].is_string());
  CHECK(all["decoder"]["type"] == "greedy");
  CHECK(all["processors"].empty());
  CHECK(all["deterministic"] == false);
  CHECK_FALSE(all.contains("threads"));
}

TEST_CASE("weights, rules and what a rule inherits") {
  const RunConfig config = read(R"(
weights:
  quantizer: rtn
  format: {type: int_grouped, bits: 4, group_size: 64}
  rules:
    - {match: "*.ffn_down", format: q8_0}
    - {match: "blk.0.*", quantizer: none}
  targets: all
)");
  CHECK(config.quantize_all);
  REQUIRE(config.rules.size() == 2);
  CHECK(config.rules[0].quantizer.type == "rtn");
  CHECK(config.rules[0].format.type == "q8_0");
  CHECK(config.rules[1].quantizer.type == "none");
  CHECK(config.rules[1].format.type.empty());
  const nlohmann::json weights = effective(config)["weights"];
  CHECK(weights["format"]["bits"] == 4);
  CHECK(weights["format"]["group_size"] == 64);
  CHECK(weights["rules"][0]["format"]["type"] == "q8_0");
  CHECK(weights["rules"][1]["match"] == "blk.0.*");
}

TEST_CASE("a rule has what it does not state from weights: of a format and a quantizer each parameter where the type is the same, else none") {
  const auto rule = [](const std::string& weights, const std::string& stated) {
    return effective(read("weights: {" + weights + ", rules: [{match: 'blk.1.*', " + stated + "}]}\n"))["weights"]["rules"][0];
  };
  const std::string weights = "quantizer: {type: gptq, damp_percent: 0.05}, format: {type: int_grouped, bits: 3, group_size: 32, symmetric: true}";
  const nlohmann::json inherited = rule(weights, "format: {bits: 8}")["format"];
  CHECK(inherited["type"] == "int_grouped");
  CHECK(inherited["bits"] == 8);
  CHECK(inherited["group_size"] == 32);
  CHECK(inherited["symmetric"] == true);
  CHECK(rule(weights, "format: {type: int_grouped, bits: 8}")["format"] == inherited);
  CHECK(rule(weights, "format: {bits: 8}")["quantizer"]["damp_percent"] == 0.05);
  CHECK(rule(weights, "quantizer: {mse: true}")["quantizer"]["damp_percent"] == 0.05);
  CHECK(rule(weights, "quantizer: {type: gptq, mse: true}")["quantizer"]["damp_percent"] == 0.05);
  CHECK(rule(weights, "quantizer: rtn")["quantizer"] == nlohmann::json({{"type", "rtn"}}));
  // Another type has its own defaults, even where it has parameters of the same names.
  const nlohmann::json other = rule("quantizer: rtn, format: {type: fp8, scales: group, group_size: 32}", "format: {type: int_grouped, bits: 8}")["format"];
  CHECK(other["group_size"] == 64);
  // A mix is one type under several names.
  const nlohmann::json mix = rule("quantizer: rtn, format: {type: q4_k_m, strict: true}", "format: q5_k_m")["format"];
  CHECK(mix["mix"] == "q5_k_m");
  CHECK(mix["strict"] == true);
  // Candidates for bits by sensitivity are read as rules are.
  const RunConfig config = read("weights: {" + weights + ", bits_by_sensitivity: {budget: 4, candidates: [2, {bits: 4}, {type: int_grouped, bits: 8}, {bits: 8, group_size: 64}]}}\n");
  const nlohmann::json candidates = effective(config)["weights"]["bits_by_sensitivity"]["candidates"];
  for (std::size_t i = 0; i < 4; ++i) CHECK(candidates[i]["group_size"] == (i == 3 ? 64 : 32));
  CHECK(candidates[2] == inherited);
}

TEST_CASE("parameters without a format are an error whose advice can be followed where they stand") {
  CHECK_THAT(refusal("weights: {rules: [{match: a, format: {bits: 8}}]}\n"),
             Contains("weights.rules[0].format.type: missing key: of which format is bits; allowed: int_grouped") && Contains("quantizer: rtn, format: {type: int_grouped, bits: 8}") && !Contains("weights.quantizer"));
  CHECK_NOTHROW(read("weights: {rules: [{match: a, quantizer: rtn, format: {type: int_grouped, bits: 8}}]}\n"));
  CHECK_THAT(refusal("weights: {quantizer: rtn, format: q8_0, rules: [{match: a, format: {bits: 8}}]}\n"),
             Contains("of which format is bits? Not of weights.format, q8_0") && Contains("name it: format: {type: int_grouped, bits: 8}"));
  CHECK_THAT(refusal("weights: {format: {bits: 8}}\n"), Contains("weights.format.type: missing key") && Contains("weights.quantizer=rtn weights.format.type=int_grouped"));
}

TEST_CASE("effective settings read back as themselves") {
  const RunConfig config = read(
      "weights: {quantizer: rtn, format: {type: int_grouped, bits: 3}, rules: [{match: 'blk.1.*', format: q8_0}]}\n"
      "kv_store: {type: paged, block_size: 32, format: int8}\nactivations: fp32\n");
  const Settings all = effective_settings(config);
  CHECK(to_json(effective_settings(read_run_config(all))) == to_json(all));
}

TEST_CASE("a kernel that needs a GPU is refused with the settings where there is none, not when a run comes to it") {
  if (finds_cublas()) return;  // a GPU's driver is here
  CHECK_THAT(refusal("device: simt\nweights: {quantizer: rtn, format: {type: fp16, kernel: cublas}}\n"), Contains("kernel cublas cannot run on this machine"));
}

TEST_CASE("a device sets what is open: its own kernels, inputs that are not rounded to 8 bits, all layers") {
  const RunConfig config = read("device: simt\n");
  CHECK(config.backend.type == "simt");
  CHECK(config.activations == ActivationMode::fp32);
  CHECK(config.gpu_layers == kAllLayers);
  const nlohmann::json all = effective(config);
  CHECK(all["backend"]["activations"] == "auto");
  CHECK_FALSE(all.contains("gpu_layers"));
  CHECK(all["kv_store"]["format"].contains("kernel"));  // host code, which a device has no part in
  const RunConfig split = read("device: simt\ngpu_layers: 2\n");
  CHECK(split.activations == ActivationMode::q8);  // of the layers that stay on the host
  CHECK(effective(split)["gpu_layers"] == 2);
  CHECK(read("device: simt\ngpu_layers: all\n").gpu_layers == kAllLayers);
  const RunConfig same = read("device: simt\ndeterministic: true\nweights: {quantizer: rtn, format: q8_0}\n");
  CHECK(effective(same)["attention"]["kernel"] == "flash");  // for both phases, where split_kv would decode
  CHECK(effective(same)["weights"]["format"]["kernel"].is_string());
  CHECK(effective(config)["attention"]["kernel"]["decode"] == "split_kv");
  CHECK_THROWS_WITH(read("device: simt\ndeterministic: true\nattention: {type: flash, kernel: {prefill: flash, decode: split_kv}}\n"),
                    Catch::Contains("kernel: deterministic: true") && Catch::Contains("take flash"));
  for (const RunConfig& one : {config, split, same}) {
    const Settings settings = effective_settings(one);
    CHECK(to_json(effective_settings(read_run_config(settings))) == to_json(settings));
  }
}

TEST_CASE("short forms and assignments") {
  CHECK(read("weights: none\n").weights.quantizer.type == "none");
  CHECK(assigned({"weights=none", "weights.quantizer.type=rtn", "weights.format=q8_0"}).weights.quantizer.type == "rtn");
  CHECK(assigned({"weights=none", "weights.targets=all"}).quantize_all);
  const RunConfig config = assigned({"kv_store=paged", "kv_store.format=int8", "threads=2", "max_batched_tokens=16"});
  CHECK(config.kv_store.type == "paged");
  const RunConfig defaults = assigned({"kv_store.format=int8"});  // parameters of the default store
  CHECK(defaults.kv_store.type == "contiguous");
  CHECK(effective(defaults)["kv_store"]["format"]["type"] == "int8");
  CHECK(effective(config)["kv_store"]["format"]["type"] == "int8");
  CHECK(config.threads == 2);
  CHECK(config.max_batched_tokens == 16);
}

TEST_CASE("a plugin's other names set one of its parameters") {
  for (const std::string format : {"q4_k_s", "{type: q4_k_s}", "{type: gguf_mix, mix: q4_k_s}"}) {
    INFO(format);
    const RunConfig config = read("weights: {quantizer: rtn, format: " + format + "}\n");
    CHECK(config.weights.format.type == "gguf_mix");
    CHECK(effective(config)["weights"]["format"]["mix"] == "q4_k_s");
    CHECK(effective(read_run_config(effective_settings(config))) == effective(config));
  }
  CHECK(effective(read("weights: {quantizer: rtn, format: {type: q3_k_l, strict: true}}\n"))["weights"]["format"]["strict"] == true);
  CHECK(read("weights: {quantizer: rtn, format: q8_0, rules: [{match: '*.ffn_down', format: q5_k_m}]}\n").rules[0].format.type == "gguf_mix");
  CHECK(read("weights: {quantizer: rtn, format: q6_k}\n").weights.format.type == "q6_k");  // a format of its own stays one
  CHECK_THAT(refusal("weights:\n  quantizer: rtn\n  format: {type: q4_k_m,\n           mix: q2_k}\n"), Contains("a.yaml:4") && Contains("stated twice"));
}

TEST_CASE("what cannot be run is refused before a weight is read") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"device: {type: simt, checked: true}\n", "a.yaml:1: device: a map where a device's name is expected"},
      {"device: {type: simt, checked: true}\n", "backend: {type: simt, checked: true}"},
      {"device: tpu\n", "a.yaml:1: device: no backend of this build runs on tpu; allowed: "},
      {"device: simt\nactivations: q8\n", "a.yaml:2: activations: device simt does not round its inputs to 8 bits (q8)"},
      {"device: simt\nactivations: bf16\n", "a.yaml:2: activations: bf16 is a type that a GPU computes in"},
      {"device: simt\nactivations: bf16\n", "backend.activations=bf16"},
      {"gpu_layers: 3\n", "a.yaml:1: gpu_layers: device cpu has no such layers"},
      {"device: simt\ngpu_layers: -1\n", "a.yaml:2: gpu_layers: -1"},
      {"device: simt\ngpu_layers: many\n", "all, or a number from 0"},
      {"backend: gpu\n", "a.yaml:1: backend: backends/gpu: unknown plugin"},
      {"weights: rtn\n", "a.yaml:1: weights.format: quantizer rtn needs a format to write; allowed: "},
      {"weights: {quantizer: rtn}\n", "quantizer rtn needs a format"},
      {"weights: {format: q8_0}\n", "weights.format: quantizer none leaves weights as stored, so format q8_0 has no effect"},
      {"weights: {quantizer: none, format: q8_0}\n", "name a quantizer beside it"},
      {"weights: {rules: [{match: '*', format: q8_0}]}\n", "weights.rules[0].format: quantizer none leaves weights as stored"},
      {"weights: {quantizer: rtn, format: q8_0, rules: [{format: q8_0}]}\n", "weights.rules[0].match: missing value"},
      {"weights: {quantizer: rtn, format: q8_0, rules: {a: b}}\n", "weights.rules: no list of rules"},
      {"weights: {quantizer: rtn, format: q8_0, rules: [{match: a, bits: 4}]}\n", "weights.rules[0].bits: unknown parameter"},
      {"weights: {quantizer: rtn, format: {type: int_grouped, bits: 9}}\n", "a.yaml:1: weights.format.bits: 9 is out of range"},
      {"weights: {quantizer: rtn, format: {type: int_grouped, group_sise: 64}}\n", "did you mean group_size?"},
      {"weights: {quantizer: RTNX, format: q8_0}\n", "weights.quantizer: quantizers/RTNX: unknown plugin"},
      {"weights: {quantiser: rtn}\n", "weights.quantiser: unknown parameter"},
      {"weights: [rtn]\n", "weights: a list where one value is expected"},
      {"weights:\n", "weights: missing value"},
      {"weights: {quantizer: rtn, format: q8_0, targets: some}\n", "weights.targets: unknown value some; allowed: blocks, all"},
      {"kv_store: {type: paged, format: {type: int8, nonsense: 1}}\n", "a.yaml:1: kv_store.format.nonsense: unknown parameter"},
      {"kv_store: {type: paged, format: int9}\n", "a.yaml:1: kv_store.format: kv_formats/int9: unknown plugin"},
      {"decoder: gredy\n", "did you mean greedy?"},
      {"processors: temperature\n", "processors: no list of processors"},
      {"processors: [no_such]\n", "a.yaml:1: processors[0]: processors/no_such"},
      {"activations: q4\n", "activations: unknown value q4; allowed: q8, fp32"},
      {"max_batched_tokens: 0\n", "max_batched_tokens: 0 is out of range"},
      {"deterministic: yes\n", "yes is not a boolean"},
      {"threads: -1\n", "threads: -1 is out of range"},
      {"atention: flash\n", "a.yaml:1: atention: unknown parameter; allowed: device, backend, weights, attention"},
  };
  for (const auto& [yaml, expected] : cases) {
    INFO(yaml);
    CHECK_THAT(refusal(yaml), Contains(expected));
  }
  CHECK_THAT(refusal([] { assigned({"kv_store=paged", "kv_store.format=int9"}); }), Contains("command line: kv_store.format"));
}

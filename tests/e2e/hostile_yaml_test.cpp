// Every hostile YAML of ../shared/hostile, through check, plan and run: each in a process of its own, within limits. A fault is named with
// its file and place in one line; a signal, a hang, or another reason fails. Faults of the schema (the manifest's "level: config") are
// written there with placeholder keys: here they stand in this project's schema, and run without ../shared too.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "program.h"
#include "support.h"

namespace test = patchbay::test;

namespace {

const std::string kModel = "model: " + test::source_path("tests/golden/tiny_llama/gqa_tied.gguf") + "\n";
/// The plain config that the others are made from.
const std::string kWeights = "base:\n  weights: {quantizer: rtn, format: {type: int_grouped, bits: 4, group_size: 16}}\n";
const std::string kRest = "tasks: [memory]\nout: results/base\n";
const std::string kPlain = "name: base\nseed: 7\n" + kModel + kWeights + kRest;

std::string with_format(const std::string& parameters) {
  return "name: base\nseed: 7\n" + kModel + "base:\n  weights: {quantizer: rtn, format: {type: int_grouped, " + parameters + "}}\n" + kRest;
}
std::string with_seed(const std::string& seed) { return "name: base\nseed: " + seed + "\n" + kModel + kWeights + kRest; }
std::string with_name(const std::string& name) { return "name: " + name + "\n" + kModel + kWeights + kRest; }
std::string with_out(const std::string& out) { return "name: base\n" + kModel + kWeights + "tasks: [memory]\nout: " + out + "\n"; }
std::string with_base(const std::string& base) { return "name: base\n" + kModel + "base: {" + base + "}\n" + kRest; }
std::string with_sweep(const std::string& sweep) { return kPlain + "sweep: {" + sweep + "}\n"; }

std::string exploding_sweep() {
  std::string text = kPlain + "sweep:\n";
  for (int axis = 0; axis < 12; ++axis) {
    text += "  p" + std::to_string(axis) + ": [";
    for (int value = 0; value < 10; ++value) text += (value ? ", " : "") + ("{threads: " + std::to_string(value)) + "}";
    text += "]\n";
  }
  return text;
}

struct Rewritten {
  std::string text;
  std::string fault;  ///< what the message must hold; "": accepted
};

/// By the file's name in the manifest.
const std::map<std::string, Rewritten>& rewritten() {
  static const std::map<std::string, Rewritten> cases = {
      {"bad_c01_unknown_key", {with_format("bits: 4, groupsize: 16"), "did you mean group_size?"}},
      {"bad_c02_bits_word", {with_format("bits: four"), "weights.format.bits: four is not an integer"}},
      {"bad_c03_bits_zero", {with_format("bits: 0"), "weights.format.bits: 0 is out of range"}},
      {"bad_c04_bits_float", {with_format("bits: 4.7"), "weights.format.bits: 4.7 is not an integer"}},
      {"bad_c05_bits_open_list", {"name: base\n" + kModel + "base:\n  weights:\n    format:\n      bits: [4\n      group_size: 16\n", "syntax error"}},
      {"bad_c06_group_zero", {with_format("group_size: 0"), "group_size: a group of 0 weights; allowed: -1 (the whole row), or at least 1"}},
      {"bad_c07_group_neg", {with_format("group_size: -7"), "weights.format.group_size: -7 is out of range"}},
      {"bad_c08_seed_huge", {with_seed("99999999999999999999999"), "seed: 99999999999999999999999 is out of range"}},
      {"bad_c09_seed_neg", {with_seed("-1"), "seed: -1 is out of range"}},
      {"bad_c10_damp_nan", {with_base("processors: [{type: temperature, value: .nan}]"), ".nan is not finite"}},
      {"bad_c11_temp_inf", {with_base("processors: [{type: temperature, value: .inf}]"), ".inf is not finite"}},
      {"bad_c12_bool_for_path", {"name: base\nmodel: no\n" + kWeights + kRest, "model: no could be a boolean where text is expected"}},
      {"bad_c13_method_case", {with_base("weights: {quantizer: GPTQX, format: q8_0}"), "quantizers/GPTQX: unknown plugin; allowed: eetq, gptq"}},
      {"bad_c14_out_traversal", {with_out("../../../../tmp/owned"), "out: the path '../../../../tmp/owned' leads outside"}},
      {"bad_c15_out_empty", {with_out("\"\""), "out: bad path"}},
      {"bad_c16_name_slash", {with_name("a/../../b"), "name: bad name"}},
      {"bad_c17_name_dotdot", {with_name("\"..\""), "name: bad name"}},
      {"bad_c18_name_newline", {with_name("\"a\\nINFO all tests passed\""), "name: bad name"}},
      {"bad_c19_name_ansi", {with_name("\"\\e[2Jclean\""), "control byte 0x1b"}},
      {"bad_c20_sweep_explosion", {exploding_sweep(), "the sweep has 1000000000000 runs"}},
      {"bad_c21_sweep_empty_axis", {with_sweep("weights.format.bits: []"), "an axis without values"}},
      {"bad_c22_range_step0", {with_sweep("weights.format.bits: {from: 2, to: 8, step: 0}"), "step 0 never ends"}},
      {"bad_c23_range_backwards", {with_sweep("weights.format.bits: {from: 8, to: 2, step: 1}"), "never reaches its end"}},
      {"bad_c24_sweep_dup", {with_sweep("weights.format.bits: [4, 4]"), "the same value twice"}},
      // There is no server yet: the number of threads is this schema's small unsigned number.
      {"bad_c25_port_high", {with_base("threads: 70000"), "threads: 70000 is out of range"}},
      {"bad_c26_port_word", {with_base("threads: http"), "threads: http is not an integer"}},
      {"bad_c27_plugin_traversal", {kPlain + "plugins: [../../tmp/evil.so]\n", "plugin paths are not taken from configs"}},
      {"bad_c28_plugin_missing", {with_base("attention: nosuch"), "attention/nosuch: unknown plugin"}},
      {"bad_c29_list_for_map", {with_base("weights: [rtn, 4, 32]"), "list"}},
      {"bad_c30_missing_required", {"name: base\n" + kWeights + kRest, "model: missing key"}},
      {"bad_c31_null_required", {"name: base\nmodel:\n" + kWeights + kRest, "model: missing value"}},
      {"bad_c32_include_self", {"include: bad_c32_include_self.yaml\n" + kPlain, "include is not supported"}},
      {"ok_v01_plain", {kPlain, ""}},
      {"ok_v02_crlf", {"", ""}},  // filled in below
      {"ok_v03_bom", {"\xEF\xBB\xBF" + kPlain, ""}},
      {"ok_v04_json_style", {"{\"name\": \"base\", \"seed\": 7, \"model\": \"" + kModel.substr(7, kModel.size() - 8) +
                             "\", \"base\": {\"weights\": {\"quantizer\": \"rtn\", \"format\": {\"type\": \"int_grouped\", \"bits\": 4, "
                             "\"group_size\": 16}}}, \"tasks\": [\"memory\"]}", ""}},
      {"ok_v05_markers", {"---\n" + kPlain + "...\n", ""}},
      // Contested; the manifest's policy: refuse clearly where the schema offers no merge keys.
      {"ok_v06_anchor_merge", {"name: base\n" + kModel + "base:\n  weights: {quantizer: rtn, format: &d {type: int_grouped, bits: 4}}\n"
                               "  kv_store:\n    <<: *d\n", "merge keys (<<) are not supported"}},
      {"ok_v07_dollar", {"note: 'costs $5, not ${HOME} or $(id)'\n" + kPlain, ""}},
      {"ok_v08_unicode", {with_name("übung-模型") + "# 😀 comment\n", ""}},
      {"ok_v09_hex_int", {with_seed("0x2A"), ""}},
      {"ok_v10_long_comment", {"#" + std::string(20000, '-') + "\n" + kPlain, ""}},
  };
  return cases;
}

std::string text_of(const std::string& name, const Rewritten& one) {
  if (name != "ok_v02_crlf") return one.text;
  std::string text;
  for (const char c : kPlain) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
  return text;
}

/// The manifest's kind of reason for a fault of syntax, and the words by which a message here states it.
std::vector<std::string> words_for(const std::string& expected) {
  static const std::map<std::string, std::vector<std::string>> words = {
      {"alias expansion too large", {"alias expansion too large", "merge keys (<<) are not supported"}},
      {"syntax error", {"syntax error", "unknown tag", "bad key"}}};
  const auto found = words.find(expected);
  return found == words.end() ? std::vector<std::string>{expected} : found->second;
}

std::string name_of(const nlohmann::json& entry) {
  const std::string file = entry["file"];
  return file.substr(file.rfind('/') + 1, file.rfind('.') - file.rfind('/') - 1);
}

/// The three commands on one file. Limits: 20 s, 1 GiB. An accepted file is also run. `lines`: the file has some, so that the message must name one.
void must_be_refused(const std::string& file, const std::vector<std::string>& any_of, bool lines = true) {
  const test::TemporaryFolder folder;
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"check", file}, {"plan", file}, {"run", file, "--out", folder / "out"}}) {
    const auto result = test::run_program(arguments, {20, std::int64_t{1} << 30});
    INFO(arguments[0] << " " << file << "\n" << result.err);
    CHECK_FALSE(result.timed_out);
    CHECK(result.signal == 0);
    CHECK(result.code == 1);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    const std::string message = result.err.starts_with("patchbay: ") ? result.err.substr(10) : result.err;
    REQUIRE(message.starts_with(file + ":"));
    const std::size_t after = message.find_first_not_of("0123456789", file.size() + 1);
    const bool names_line = after > file.size() + 1 && message.substr(after).starts_with(": ");
    CHECK(names_line == lines);
    CHECK(message.find(file, 1) == std::string::npos);  // its place once, not twice
    CHECK(std::any_of(any_of.begin(), any_of.end(), [&](const std::string& each) { return message.find(each) != std::string::npos; }));
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
  }
}

void must_be_accepted(const std::string& file) {
  const test::TemporaryFolder folder;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"check", file}, {"plan", file}, {"run", file, "--quiet", "--out", folder / "out"}}) {
    const auto result = test::run_program(arguments, {60, std::int64_t{2} << 30});
    INFO(arguments[0] << " " << file << "\n" << result.err);
    CHECK(result.code == 0);
  }
  CHECK(std::filesystem::exists(folder / "out/records.jsonl"));
}

}  // namespace

TEST_CASE("faults of the schema, in this schema, are refused for what they are; the sound ones run") {
  const test::TemporaryFolder folder;
  for (const auto& [name, one] : rewritten()) {
    const std::string file = folder / name + ".yaml";
    std::ofstream(file, std::ios::binary) << text_of(name, one);
    if (one.fault.empty()) must_be_accepted(file);
    else must_be_refused(file, {one.fault});
  }
}

TEST_CASE("the hostile files of syntax are refused for the fault they hold, and no case of the manifest is left out") {
  const std::string manifest = test::shared_path("hostile/manifest.json");
  PATCHBAY_NEEDS(manifest, "hostile/manifest.json");
  std::set<std::string> rewritten_seen;
  int rejected = 0, accepted = 0;
  const auto cases = nlohmann::json::parse(test::read_file(manifest)).at("cases");
  for (const auto& entry : cases) {
    if (entry.value("format", "") != "yaml") continue;
    const std::string name = name_of(entry);
    ++(entry["must_reject"].get<bool>() ? rejected : accepted);
    if (entry.value("level", "") != "config") {
      must_be_refused(test::shared_path("hostile/" + entry["file"].get<std::string>()), words_for(entry["expect"]), entry["expect"] != "empty config");
      continue;
    }
    INFO(name);
    const auto found = rewritten().find(name);
    REQUIRE(found != rewritten().end());
    CHECK((entry["must_reject"].get<bool>() || entry.value("contested", false) || found->second.fault.empty()));
    CHECK(entry["must_reject"].get<bool>() == name.starts_with("bad_"));
    if (entry["must_reject"].get<bool>()) CHECK_FALSE(found->second.fault.empty());
    rewritten_seen.insert(name);
  }
  CHECK(rejected == 69);
  CHECK(accepted == 10);
  CHECK(rewritten_seen.size() == rewritten().size());
}

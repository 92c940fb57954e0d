// Bits by sensitivity: the allocation beside brute force, the scan's losses beside what a session computes, and what records say.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "config.h"
#include "engine/cost_model.h"
#include "patchbay/plugin.h"
#include "quantize/bit_allocation.h"
#include "quantize/calibration_tokens.h"
#include "quantize/sensitivity_scan.h"
#include "session.h"
#include "support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

std::shared_ptr<const ModelFile> model(const std::string& name) { return ModelFile::open(source_path("tests/golden/architectures/" + name + ".gguf")); }
RunConfig config_of(const std::string& weights) { return read_run_config(parse_yaml("weights: " + weights + "\nactivations: fp32\nkv_store: {format: fp32}\n", "t.yaml")); }
std::string chosen(const std::string& sensitivity, const std::string& more = "") {
  return "{quantizer: rtn, format: {type: int_grouped, group_size: 8}, calibration: {source: model, samples: 6, length: 16}, bits_by_sensitivity: {" + sensitivity + "}" + more + "}";
}

struct Sum { double bits = 0, loss = 0; };
Sum sum_of(const std::vector<SensitiveUnit>& units, const std::vector<std::size_t>& chosen) {
  Sum sum;
  for (std::size_t u = 0; u < units.size(); ++u) sum.bits += units[u].bits[chosen[u]], sum.loss += units[u].losses[chosen[u]];
  return sum;
}
/// The lowest loss within the budget, by trying all.
double lowest_loss(const std::vector<SensitiveUnit>& units, double budget) {
  double lowest = INFINITY;
  std::vector<std::size_t> tried(units.size());
  for (;;) {
    const Sum sum = sum_of(units, tried);
    if (sum.bits <= budget) lowest = std::min(lowest, sum.loss);
    std::size_t u = 0;
    while (u < units.size() && ++tried[u] == units[u].bits.size()) tried[u++] = 0;
    if (u == units.size()) return lowest;
  }
}

/// Log-probabilities of the next token after each of the samples' tokens.
std::vector<std::vector<double>> log_probabilities(Session& session, const std::vector<std::vector<Token>>& samples) {
  std::vector<std::vector<double>> all;
  for (const auto& sample : samples) {
    const SeqId id = session.runner().open();
    std::vector<TokenRow> rows;
    for (const Token token : sample) rows.push_back({id, token, static_cast<std::int32_t>(rows.size()) - 1, true, 0});
    const Step step = session.runner().forward(rows);
    for (std::int64_t i = 0; i < step.logits.shape[0]; ++i) {
      double sum = 0;
      for (std::int64_t v = 0; v < step.logits.shape[1]; ++v) sum += std::exp(double{step.logits(i, v)});
      all.emplace_back();
      for (std::int64_t v = 0; v < step.logits.shape[1]; ++v) all.back().push_back(step.logits(i, v) - std::log(sum));
    }
    session.runner().close(id);
  }
  return all;
}

std::string note_of(const ResolvedRun& run, const std::string& tensor) {
  for (const auto& [name, line] : run.notes)
    if (name == tensor) return line;
  return "no note";
}

}  // namespace

TEST_CASE("sensitivity: the allocation keeps to the budget, and is within one step of the best that there is") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(0.1, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<SensitiveUnit> units(5);
    double smallest = 0, most = 0;
    for (SensitiveUnit& unit : units) {
      const double weights = std::floor(100 * uniform(random)), scale = uniform(random);
      for (const double bits : {2.0, 3.0, 4.0, 8.0}) unit.bits.push_back(bits * weights), unit.losses.push_back(scale * uniform(random) * std::pow(4, -bits));
      smallest += unit.bits.front();
      most += unit.bits.back();
    }
    const double budget = smallest + uniform(random) * (most - smallest);
    const auto chosen = allocate_bits(units, budget);
    const Sum sum = sum_of(units, chosen);
    REQUIRE(sum.bits <= budget);
    double step = 0;
    for (const SensitiveUnit& unit : units) step = std::max(step, *std::max_element(unit.losses.begin(), unit.losses.end()));
    REQUIRE(sum.loss <= lowest_loss(units, budget) + step);
    REQUIRE(allocate_bits(units, 2 * most) == allocate_bits(units, 3 * most));
  }
}

TEST_CASE("sensitivity: candidates off the hull are not taken, equal parts are filled in order, too small a budget says by how much") {
  const SensitiveUnit even{"a", {}, {2, 3, 4}, {9, 8, 1}};  // from 2 to 4 gains 4 per bit: 3 is never worth it
  REQUIRE(allocate_bits(std::vector{even}, 3.5) == std::vector<std::size_t>{0});
  REQUIRE(allocate_bits(std::vector{even}, 4) == std::vector<std::size_t>{2});
  const SensitiveUnit one{"b", {}, {2, 4}, {1, 0.1}}, worse{"c", {}, {2, 4}, {0.1, 0.5}};
  REQUIRE(allocate_bits(std::vector{one, one, one}, 9) == std::vector<std::size_t>({1, 0, 0}));
  REQUIRE(allocate_bits(std::vector{worse}, 9) == std::vector<std::size_t>{0});  // more bits that lose more
  CHECK_THAT(message_of([&] { allocate_bits(std::vector{one, one}, 3.2); }), Contains("budget") && Contains("1.25"));
}

TEST_CASE("sensitivity: kl is the divergence that a session with that matrix alone quantised has") {
  const auto file = model("qwen3");
  const RunConfig config = config_of(chosen("budget: 7, candidates: [2, 8], measure: kl"));
  const ResolvedRun run = with_bits_by_sensitivity(file, config, {});
  const auto tokens = sampled_tokens(config.calibration, file, 64, 0, nullptr);
  Session stored(file, config_of("none"), {32, 1, {}});
  Session one(file, config_of("{quantizer: none, rules: [{match: blk.1.ffn_down, quantizer: scale_search, format: {type: int_grouped, group_size: 8, bits: 2}}]}"), {32, 1, {}});
  const auto p = log_probabilities(stored, tokens.samples), q = log_probabilities(one, tokens.samples);
  double kl = 0;
  for (std::size_t t = 0; t < p.size(); ++t)
    for (std::size_t v = 0; v < p[t].size(); ++v) kl += std::exp(p[t][v]) * (p[t][v] - q[t][v]) / static_cast<double>(p.size());
  const std::string note = note_of(run, "blk.1.ffn_down.weight");
  const double said = std::stod(note.substr(note.find(": ") + 2));
  INFO(note);
  CHECK(said == Approx(kl).epsilon(0.01));
  CHECK(kl > 0);
}

TEST_CASE("sensitivity: a session has the formats that were chosen, within the budget; rules come first; the same every time") {
  for (const char* const kind : {"measure: error, per: matrix", "measure: error, per: layer", "measure: kl, per: layer, tokens: 40"}) {
    INFO(kind);
    for (const char* name : {"phi3_window", "mixtral"}) {
      const auto file = model(name);
      const RunConfig config = config_of(chosen("budget: 8.5, candidates: [2, 3, {type: int_grouped, bits: 8, group_size: 8}], " + std::string(kind), ", rules: [{match: 'blk.0.attn_output', format: bf16}]"));
      Session session(file, config, {32, 1, {}});
      double bits = 0, weights = 0;
      std::map<std::string, int> formats;
      for (const TensorPath& path : session.tensor_paths()) {
        if (!path.tensor.starts_with("blk.") || path.format == "fp32") continue;
        if (path.tensor.starts_with("blk.0.attn_output")) {
          CHECK(path.format == "bf16");
          continue;
        }
        double size = 1;
        for (const std::int64_t extent : file->tensor(path.tensor)->shape) size *= static_cast<double>(extent);
        weights += size;
        bits += size * path.bits_per_weight;
        ++formats[path.format];
      }
      CHECK(weights > 0);
      CHECK(bits / weights <= 8.5);
      CHECK(bits / weights > 6);
      CHECK(formats.size() > 1);
      const ResolvedRun again = with_bits_by_sensitivity(file, config, {}), once_more = with_bits_by_sensitivity(file, config, {});
      CHECK(again.notes == once_more.notes);
      CHECK(session.quantization().notes == again.notes);
      CHECK(session.quantization().calibration.samples > 0);
    }
  }
}

TEST_CASE("sensitivity: losses are kept, and found again") {
  const auto file = model("qwen3");
  const RunConfig config = config_of(chosen("budget: 7, candidates: [2, 4]"));
  const TemporaryFolder folder;
  int steps = 0;
  QuantizeOptions options;
  options.folder = folder / "kept";
  options.progress = [&](double, const std::string&) { ++steps; };
  const auto first = with_bits_by_sensitivity(file, config, options);
  CHECK(steps > 0);
  steps = 0;
  const auto second = with_bits_by_sensitivity(file, config, options);
  CHECK(steps == 0);
  CHECK(first.notes == second.notes);
  CHECK(first.calibration.sha256 == second.calibration.sha256);
  std::filesystem::resize_file(std::filesystem::directory_iterator(options.folder)->path(), 10);  // a damaged one is made again
  CHECK(with_bits_by_sensitivity(file, config, options).notes == first.notes);
  CHECK(steps > 0);
}

TEST_CASE("sensitivity: settings that cannot be met are refused by their keys") {
  const auto refusal = [](const std::string& weights) { return message_of([&] { config_of(weights); }); };
  CHECK_THAT(refusal(chosen("budget: 3, candidates: [4]")), Contains("candidates") && Contains("two or more"));
  CHECK_THAT(refusal(chosen("candidates: [2, 4]")), Contains("budget"));
  CHECK_THAT(refusal(chosen("budget: 3, candidates: [2, 99]")), Contains("bits"));
  CHECK_THAT(refusal(chosen("budget: 3, candidates: [2, 4], mesure: kl")), Contains("did you mean measure"));
  CHECK_THAT(refusal("{quantizer: none, bits_by_sensitivity: {budget: 3, candidates: [q4_0, q8_0]}}"), Contains("nothing is quantised"));
  const auto run_refusal = [](const std::string& weights) { return message_of([&] { check_run(*model("qwen3"), config_of(weights)); }); };
  CHECK_THAT(run_refusal(chosen("budget: 3, candidates: [2, q4_k]")), Contains("tensor blk.0.") && Contains("q4_k"));
  CHECK_THAT(run_refusal(chosen("budget: 3, candidates: [2, q4_k_m]")), Contains("mix"));
  CHECK_THAT(run_refusal(chosen("budget: 3, candidates: [2, 4]", ", rules: [{match: '*', format: bf16}]")), Contains("none is left"));
  CHECK_THAT(run_refusal(chosen("budget: 3, candidates: [2, 4]")), Contains("budget") && Contains("the smallest candidates take 4.250 bits per weight, scales included, and 3 are allowed; allowed: 4.250 or more"));
  CHECK_THAT(run_refusal(chosen("budget: 3, candidates: [2, 4], per: layer")), Contains("4.250 bits per weight"));
}

TEST_CASE("sensitivity: before the scan, sizes are the budget's and formats the candidates; rules, embedding and head keep their own") {
  const auto file = model("qwen3");
  const RunConfig config = config_of(chosen("budget: 7, candidates: [2, 8]", ", rules: [{match: blk.0.ffn_up, format: bf16}]"));
  const auto planned = planned_weights(*file, config);
  CHECK(planned.at("blk.1.ffn_up.weight").format == "int_grouped/b2/g8 or int_grouped/b8/g8");
  CHECK(planned.at("blk.1.ffn_up.weight").bits_per_weight == 7);
  CHECK(planned.at("blk.0.ffn_up.weight").format == "bf16");
  CHECK(planned.at("token_embd.weight").format == "fp32");
  CHECK_THAT(scan_note(config), Contains("int_grouped/b2/g8 or int_grouped/b8/g8") && Contains("7 on average"));
  CHECK(scan_note(config_of("none")).empty());
  std::string said;
  QuantizeOptions options;
  options.note = [&](const std::string& line) { said = line; };
  const ResolvedRun run = with_bits_by_sensitivity(file, config, options);
  const auto predicted = model_cost(*file, config).weights_bytes, taken = model_cost(*file, run.config).weights_bytes;
  CHECK(predicted >= taken);
  CHECK(static_cast<double>(predicted) < 1.1 * static_cast<double>(taken));
  CHECK_THAT(said, Contains("bits per weight of 7 allowed: ") && Contains(" in int_grouped/b2/g8, ") && Contains(" in int_grouped/b8/g8"));
}

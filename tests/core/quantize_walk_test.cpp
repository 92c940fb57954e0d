// Quantising block by block with calibration, on the tiny model that comes with patchbay: what the walk computes is what the model computes,
// and what it keeps is what it would make again.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "config.h"
#include "experiment/evaluation.h"
#include "experiment/plan.h"
#include "experiment/weight_records.h"
#include "patchbay/plugin.h"
#include "quantize/block_walk.h"
#include "quantize/calibration_tokens.h"
#include "quantize/gathering.h"
#include "session.h"
#include "support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

const std::string kModel = "data/tiny-shakespeare/tiny-shakespeare-f16.gguf";

std::shared_ptr<const ModelFile> model() {
  static const auto file = ModelFile::open(source_path(kModel));
  return file;
}
Ops& ops() {
  static const auto cpu = make<Backend>({"cpu", nullptr});
  return cpu->ops();
}
RunConfig config_of(const std::string& yaml) { return read_run_config(parse_yaml(yaml + "\nactivations: fp32\nkv_store: {format: fp32}\n", "t.yaml")); }
/// Calibrated on a few short windows of the text that comes with patchbay.
RunConfig gptq(const std::string& more = "") {
  return config_of("weights: {quantizer: {type: gptq}, format: {type: int_grouped, bits: 3, group_size: 32}, calibration: {text: '" +
                   source_path("data/calibration.txt") + "', samples: 6, length: 48}" + more + "}");
}
CalibrationTokens samples() { return calibration_tokens(gptq().calibration, *make_tokenizer(*model()), 512); }

/// One tensor of a pass, in every block.
struct Recorder : Probe {
  std::string wanted;
  std::map<int, std::vector<float>> rows;
  void saw(std::string_view name, int layer, TensorRef tensor) override {
    if (name != wanted) return;
    const auto* data = static_cast<const float*>(tensor.data);
    rows[layer].insert(rows[layer].end(), data, data + tensor.size());
  }
};

/// The samples through the whole model, as a session runs it.
std::map<int, std::vector<float>> seen(const std::string& name) {
  Session session(model(), config_of(""), {64, 1, {}});
  Recorder recorder;
  recorder.wanted = name;
  session.runner().set_probe(&recorder);
  for (const auto& sample : samples().samples) {
    const SeqId id = session.runner().open();
    std::vector<TokenRow> rows;
    for (const Token token : sample) rows.push_back({id, token, static_cast<std::int32_t>(rows.size()) - 1});
    session.runner().forward(rows);
    session.runner().close(id);
  }
  return recorder.rows;
}

/// A model that is walked through as it is stored.
struct StoredWalk {
  ModelSpec spec = read_model_spec(*model());
  RunConfig config = config_of("");
  Placement placement{&ops(), &ops(), 0};
  ModelWeights weights = load_outside(model(), spec, config, placement, {});
  CalibrationTokens tokens = samples();
  std::unique_ptr<SampleRunner> runner;
  StoredWalk() {
    weights.blocks.resize(static_cast<std::size_t>(spec.layers));
    runner = std::make_unique<SampleRunner>(spec, weights, tokens.samples, ops());
  }
  void load(int layer) { weights.blocks[static_cast<std::size_t>(layer)] = load_block(model(), spec, config, placement, {}, layer); }
};

std::vector<float> all_of(const SpilledRows& rows) {
  std::vector<float> values(static_cast<std::size_t>(rows.rows() * rows.cols()));
  rows.read(0, {values.data(), {rows.rows(), rows.cols()}});
  return values;
}

std::string bytes_of(const QuantizedModel& quantized) {
  std::string all;
  for (const auto& [name, matrix] : quantized.matrices) {
    all += name + matrix.format->label() + matrix.note;
    for (const TensorRef& part : matrix.packed.parts) all.append(static_cast<const char*>(part.data), static_cast<std::size_t>(part.size() * patchbay::bytes_of(part.dtype)));
  }
  return all;
}

std::string refusal(const std::string& yaml) { return message_of([&] { config_of(yaml); }); }

}  // namespace

TEST_CASE("walk: the hidden states between blocks are the model's own, bit for bit, in one pass or part by part") {
  const auto expected = seen("block_output");
  for (const bool by_parts : {false, true}) {
    StoredWalk walk;
    for (int layer = 0; layer < walk.spec.layers; ++layer) {
      walk.load(layer);
      walk.runner->run(layer, BlockPart::attention, BlockPart::output, false);  // leaves nothing behind
      if (by_parts) {
        walk.runner->run(layer, BlockPart::attention, BlockPart::attention, true);
        walk.runner->run(layer, BlockPart::output, BlockPart::output, true);
        walk.runner->run(layer, BlockPart::feed_forward, BlockPart::feed_forward, true);
      } else {
        walk.runner->run(layer, BlockPart::attention, BlockPart::feed_forward, true);
      }
      INFO("layer " << layer);
      REQUIRE(all_of(walk.runner->states()) == expected.at(layer));
    }
  }
}

TEST_CASE("walk: statistics are those of what a probe sees in the whole model") {
  const std::map<BlockStage, std::string> names = {{BlockStage::attention_in, "attention_norm"}, {BlockStage::attention_out, "attention"},
                                                   {BlockStage::ffn_in, "ffn_norm"}, {BlockStage::ffn_out, "ffn_gated"}};
  std::map<BlockStage, std::map<int, std::vector<float>>> expected;
  for (const auto& [stage, name] : names) expected[stage] = seen(name);
  StoredWalk walk;
  const WeightPlan plan;
  for (int layer = 0; layer < walk.spec.layers; ++layer) {
    walk.load(layer);
    EditableBlock block(walk.weights.blocks[static_cast<std::size_t>(layer)], walk.spec, plan, layer, false, ops());
    gather(block, *walk.runner, {layer, BlockPart::attention, BlockPart::feed_forward, {}, {true, false, 1 << 20, false}}, ops());
    REQUIRE(block.inputs().size() == 4);
    for (const LayerInput& input : block.inputs()) {
      const std::vector<float>& rows = expected.at(input.stage).at(layer);
      const View<const float, 2> kept = input.statistics.inputs;
      INFO(names.at(input.stage) << " of layer " << layer);
      REQUIRE(input.statistics.tokens == walk.tokens.summary.tokens);
      REQUIRE(std::vector<float>(kept.data, kept.data + kept.size()) == rows);
      float largest = 0;
      for (std::size_t i = 0; i < rows.size(); i += static_cast<std::size_t>(kept.shape[1])) largest = std::max(largest, std::fabs(rows[i]));
      REQUIRE(input.statistics.largest[0] == largest);
    }
    walk.runner->run(layer, BlockPart::attention, BlockPart::feed_forward, true);
  }
}

TEST_CASE("walk: stopped at any block and taken up again, or found whole, it gives the same bytes") {
  const std::string expected = bytes_of(quantize_model(model(), gptq(), ops()));
  const TemporaryFolder folder;
  QuantizeOptions options;
  options.folder = folder / "work";
  for (int stop = 1; stop <= 3; ++stop) {
    options.progress = [&](double, const std::string& what) { if (what == "block " + std::to_string(stop + 1) + " of 4") throw std::runtime_error("stop"); };
    REQUIRE_THROWS_WITH(quantize_model(model(), gptq(), ops(), options), "stop");
  }
  options.progress = nullptr;
  const auto work = std::filesystem::directory_iterator(options.folder)->path();
  REQUIRE(std::filesystem::exists(work / "blk.2.bin"));
  REQUIRE_FALSE(std::filesystem::exists(work / "blk.3.bin"));
  REQUIRE(bytes_of(quantize_model(model(), gptq(), ops(), options)) == expected);
  REQUIRE(bytes_of(quantize_model(model(), gptq(), ops(), options)) == expected);  // all from files
  std::filesystem::resize_file(work / "blk.1.bin", 1000);
  REQUIRE(bytes_of(quantize_model(model(), gptq(), ops(), options)) == expected);  // a damaged one is made again
  for (const double share : {0.01, 0.2, 0.5, 0.9}) {  // in its list, among the codes
    std::string kept = read_file(work / "blk.1.bin");
    kept[static_cast<std::size_t>(share * static_cast<double>(kept.size()))] ^= 1;
    std::ofstream(work / "blk.1.bin", std::ios::binary) << kept;
    REQUIRE(bytes_of(quantize_model(model(), gptq(), ops(), options)) == expected);
  }
  REQUIRE(bytes_of(quantize_model(model(), gptq(", targets: all"), ops(), options)) != expected);
}

TEST_CASE("walk: the record says what calibration ran on, what quantizers note, and which format each tensor has") {
  Session session(model(), gptq(", rules: [{match: 'blk.2.ffn_down', format: {type: int_grouped, bits: 8, group_size: 32}}, {match: 'blk.0.attn_k', quantizer: none}]"), {64, 1, {}});
  const auto json = quantization_json(session.quantization());
  REQUIRE(json["calibration"]["samples"] == 6);
  REQUIRE(json["calibration"]["tokens"] == 288);
  REQUIRE(json["calibration"]["sha256"].get<std::string>().size() == 64);
  REQUIRE_THAT(json["notes"]["blk.1.attn_q.weight"].get<std::string>(), Contains("damping 0.01"));
  REQUIRE(json["warnings"].size() == 1);  // rows of ffn_down are longer
  REQUIRE_THAT(json["warnings"][0].get<std::string>(), Contains("4 matrices have more columns (up to 768) than there are tokens (288)"));
  const auto formats = formats_by_name(session.tensor_paths());
  REQUIRE(formats["blk.*.attn_q"] == Json::array({{{"format", "int_grouped/b3/g32"}, {"bits_per_weight", 3 + 19.0 / 32}}}));
  REQUIRE(formats["blk.*.ffn_down"][0] == Json({{"format", "int_grouped/b3/g32"}, {"bits_per_weight", 3 + 19.0 / 32}, {"layers", "0-1, 3"}}));
  REQUIRE(formats["blk.*.ffn_down"][1] == Json({{"format", "int_grouped/b8/g32"}, {"bits_per_weight", 8 + 24.0 / 32}, {"layers", "2"}}));
  REQUIRE(formats["blk.*.attn_k"][0]["format"] == "fp16");
  REQUIRE(formats["blk.*.attn_k"][0]["layers"] == "0");
  REQUIRE(formats["token_embd"][0]["format"] == "fp16");
  REQUIRE(formats["token_embd"][0]["bits_per_weight"] == 16);
}

TEST_CASE("walk: GPTQ is nearer to the model than rounding to nearest, at 3 and at 4 bits") {
  const auto text = evaluation_text(*make_tokenizer(*model()), source_path("data/tiny-shakespeare/evaluation.txt"));
  const Protocol protocol = protocol_named("patchbay", 128);
  const TemporaryFolder folder;
  Session stored(model(), config_of(""), {128, 1, {}});
  const ScoredModel baseline = scored_model(stored);
  auto file = HiddenFile::create(folder / "hidden", stored.hidden_size());
  keep_hidden_states(baseline, text, protocol, 4, file);
  file.finish();
  const auto hidden = HiddenFile::open(folder / "hidden", stored.hidden_size());
  const auto kl = [&](const std::string& quantizer, int bits) {
    const RunConfig config = config_of("weights: {quantizer: " + quantizer + ", format: {type: int_grouped, group_size: 64, bits: " + std::to_string(bits) +
                                       "}, calibration: {source: model, samples: 24, length: 128}}");
    Session session(model(), config, {128, 1, {}});
    ScoreOptions options;
    options.windows = 4;
    options.baseline = &baseline;
    options.baseline_hidden = &hidden;
    return score(scored_model(session), text, protocol, options).kl;
  };
  constexpr std::size_t kBlock = 32;  // neighbouring tokens are no independent draws
  for (const int bits : {3, 4}) {
    const std::vector<float> nearest = kl("rtn", bits), compensated = kl("gptq", bits);
    std::vector<double> gains;  // of each block: rtn's KL less GPTQ's, of the same tokens
    for (std::size_t first = 0; first + kBlock <= nearest.size(); first += kBlock) {
      gains.push_back(0);
      for (std::size_t t = first; t < first + kBlock; ++t) gains.back() += (double{nearest[t]} - compensated[t]) / kBlock;
    }
    const double n = static_cast<double>(gains.size());
    double mean = 0, squares = 0;
    for (const double gain : gains) mean += gain / n;
    for (const double gain : gains) squares += (gain - mean) * (gain - mean);
    const double half_interval = 2.2 * std::sqrt(squares / (n - 1) / n);  // Student's t, 95%, 11 degrees of freedom or more
    INFO(bits << " bits: GPTQ's KL is smaller by " << mean << " +- " << half_interval << " nats, over " << n << " blocks of tokens");
    CHECK(n >= 12);
    CHECK(mean > half_interval);
  }
}

TEST_CASE("calibration: settings that cannot be met are refused, each by its key") {
  const std::string weights = "weights: {quantizer: gptq, format: {type: int_grouped, group_size: 32}, calibration: ";
  CHECK_THAT(refusal(weights + "{text: a.txt, source: model}}"), Contains("weights.calibration") && Contains("more than one source"));
  CHECK_THAT(refusal(weights + "{samples: 0}}"), Contains("samples"));
  CHECK_THAT(refusal(weights + "{sample: 4}}"), Contains("did you mean samples"));
  CHECK_THAT(refusal(weights + "{source: moon}}"), Contains("model"));
  CHECK_THAT(refusal("weights: {transforms: awq}"), Contains("no list of transforms"));
  CHECK_THAT(refusal("weights: {transforms: [nonesuch]}"), Contains("nonesuch"));
  const auto missing = config_of(weights + "{text: nowhere.txt}}");
  CHECK_THAT(message_of([&] { check_run(*model(), missing); }), Contains("weights.calibration.text") && Contains("nowhere.txt"));
  const TemporaryFolder folder;
  std::ofstream(folder / "short.txt") << "";
  const auto empty = config_of(weights + "{text: '" + folder / "short.txt" + "'}}");
  CHECK_THAT(message_of([&] { check_run(*model(), empty); }), Contains("short.txt") && Contains("two or more"));
}

TEST_CASE("calibration: fewer tokens than asked for are taken, and a note says so; the seed chooses windows") {
  CalibrationSettings settings;
  settings.text = source_path("data/calibration.txt");
  const auto tokenizer = make_tokenizer(*model());
  REQUIRE(calibration_tokens(settings, *tokenizer, 512).note.empty());
  settings.samples = 1000;
  const auto all = calibration_tokens(settings, *tokenizer, 512);
  REQUIRE(all.samples.size() < 1000);
  REQUIRE_THAT(all.note, Contains("1000 of 512 tokens are asked for"));
  settings.samples = 4;
  settings.length = 64;
  const auto some = calibration_tokens(settings, *tokenizer, 512), again = calibration_tokens(settings, *tokenizer, 512);
  REQUIRE(some.note.empty());
  REQUIRE(some.samples.size() == 4);
  REQUIRE(some.samples == again.samples);
  settings.seed = 1;
  REQUIRE(calibration_tokens(settings, *tokenizer, 512).samples != some.samples);
  REQUIRE(calibration_tokens(settings, *tokenizer, 32).samples.front().size() == 32);
}

TEST_CASE("calibration: samples of the model itself follow from the seed") {
  CalibrationSettings settings;
  settings.source = "model";
  settings.samples = 3;
  settings.length = 20;
  const auto first = sampled_tokens(settings, model(), 512, 0, nullptr), second = sampled_tokens(settings, model(), 512, 0, nullptr);
  REQUIRE(first.samples.size() == 3);
  REQUIRE(first.samples == second.samples);
  REQUIRE(first.samples[0] != first.samples[1]);
  for (const auto& sample : first.samples) REQUIRE(sample.size() == 20);
  settings.seed = 7;
  REQUIRE(sampled_tokens(settings, model(), 512, 0, nullptr).summary.sha256 != first.summary.sha256);
}

TEST_CASE("calibration: the texts that come with patchbay hold 128 windows of 512 tokens, and no nine words in a row of what is scored") {
  const auto runs_of_words = [](const std::string& path) {
    std::istringstream words(read_file(source_path(path)));
    std::vector<std::string> last;
    std::set<std::string> runs;
    for (std::string word; words >> word;) {
      last.push_back(word);
      if (last.size() > 9) last.erase(last.begin());
      std::string run;
      for (const std::string& part : last) run += part + ' ';
      if (last.size() == 9) runs.insert(run);
    }
    return runs;
  };
  for (const std::string folder : {"data/", "data/tiny-shakespeare/"}) {
    const auto scored = runs_of_words(folder + "evaluation.txt"), calibrated = runs_of_words(folder + "calibration.txt");
    REQUIRE(scored.size() > 1000);
    for (const std::string& run : scored) REQUIRE(calibrated.count(run) == 0);
    CalibrationSettings settings;
    settings.text = source_path(folder + "calibration.txt");
    const auto tokens = calibration_tokens(settings, *make_tokenizer(*model()), 512);
    REQUIRE(tokens.samples.size() == 128);
    REQUIRE(tokens.note.empty());
  }
}

TEST_CASE("plan: a text is not calibrated on and scored, under whatever name, nor a text around it, nor prompts that are decoded") {
  const TemporaryFolder folder;
  const std::string text = source_path("data/tiny-shakespeare/evaluation.txt"), prompts = source_path("data/tiny-shakespeare/prompts.jsonl");
  std::filesystem::copy_file(text, folder / "another name.txt");
  std::filesystem::create_symlink(text, folder / "link.txt");
  std::ofstream(folder / "around.txt") << "A word before.\n" << read_file(text) << "A word after.\n";
  std::ofstream(folder / "part.txt") << read_file(text).substr(5000, 4000);
  std::filesystem::copy_file(prompts, folder / "other.jsonl");
  const auto refused = [&](const std::string& calibration, const std::string& tasks) {
    const std::string yaml = "name: t\nmodel: " + source_path(kModel) + "\nbase: {weights: {quantizer: gptq, format: {type: int_grouped, group_size: 32}, calibration: {" +
                             calibration + "}}}\ntasks: [" + tasks + "]\nevaluation: {text: " + text + ", prompts: " + prompts + ", max_tokens: 2, window: 64, chunks: 1}\n";
    Plan plan = read_plan(parse_yaml(yaml, "t.yaml"), "");
    return message_of([&] { check_plan(plan); });
  };
  CHECK_THAT(refused("text: " + text, "perplexity"), Contains("weights.calibration") && Contains("it is what is scored (evaluation.text"));
  for (const char* name : {"another name.txt", "link.txt"}) CHECK_THAT(refused("text: '" + folder / name + "'", "perplexity"), Contains("it is what is scored"));
  for (const char* name : {"around.txt", "part.txt"}) CHECK_THAT(refused("text: '" + folder / name + "'", "perplexity"), Contains("shares its text with what is scored"));
  CHECK_THAT(refused("prompts: '" + folder / "other.jsonl'", "generation"), Contains("it is what is scored (evaluation.prompts"));
  CHECK(refused("prompts: '" + folder / "other.jsonl'", "perplexity") == "no error");
  CHECK(refused("text: " + source_path("data/tiny-shakespeare/calibration.txt"), "perplexity, generation") == "no error");
}

// Quantising with calibration on small random models of every architecture (tests/golden/architectures): fused, stacked and transposed
// matrices, experts, folders; weights that break careless code; and which rule names which format.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "config.h"
#include "experiment/weight_records.h"
#include "hf_folder.h"
#include "model_file.h"
#include "patchbay/plugin.h"
#include "quantize/block_walk.h"
#include "quantize/write_quantized.h"
#include "session.h"
#include "support.h"
#include "writers/gguf_writer.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

using Values = std::vector<float>;
using Change = std::function<void(const std::string& tensor, Values& values, std::int64_t cols)>;

std::string golden(const std::string& name) { return kArchitectures + name + ".gguf"; }

/// A copy of a golden model with other values.
std::shared_ptr<const ModelFile> changed(const std::string& name, const std::string& path, const Change& change) {
  const auto file = ModelFile::open(golden(name));
  GgufWriter writer;
  for (const MetaEntry& entry : file->metadata()) writer.entry(entry);
  for (const FileTensor& tensor : file->tensors()) {
    Values values = values_of(tensor);
    change(std::string(tensor.name), values, tensor.shape.at(0));
    const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    writer.tensor({std::string(tensor.name), find_tensor_type(tensor.type), tensor.shape, [bytes](ByteSink out) { out(bytes); }});
  }
  writer.write(path);
  return ModelFile::open(path);
}

RunConfig config_of(const std::string& weights) {
  return read_run_config(parse_yaml("weights: " + weights + "\nactivations: fp32\nkv_store: {format: fp32}\n", "t.yaml"));
}
std::string gptq(const std::string& format, const std::string& more = "", const std::string& calibration = "samples: 8, length: 20") {
  return "{quantizer: gptq, format: " + format + ", calibration: {source: model, " + calibration + "}" + more + "}";
}

Values logits_of(Session& session) {
  const std::vector<Token> tokens = {3, 41, 7, 19, 60, 2, 2, 33, 8, 50};
  const SeqId id = session.runner().open();
  std::vector<TokenRow> rows;
  for (const Token token : tokens) rows.push_back({id, token, static_cast<std::int32_t>(rows.size()) - 1, true, 0});
  const Step step = session.runner().forward(rows);
  Values all;
  for (std::int64_t i = 0; i < step.logits.shape[0]; ++i) all.insert(all.end(), &step.logits(i, 0), &step.logits(i, 0) + step.logits.shape[1]);
  session.runner().close(id);
  return all;
}
Values logits_of(const std::shared_ptr<const ModelFile>& file, const std::string& weights) {
  Session session(file, config_of(weights), {32, 1, {}});
  return logits_of(session);
}

/// sqrt(sum of squared differences / sum of squares)
double relative_error(const Values& a, const Values& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * double(a[i] - b[i]), size += double(a[i]) * a[i];
  return std::sqrt(difference / size);
}

const char* const kModels[] = {"llama_bias", "llama_llama3", "mistral_window", "mixtral", "smollm3", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "gemma2", "gemma3",
                               "phi3_window", "phi3_longrope", "gpt2"};

}  // namespace

TEST_CASE("walk: matrices of every architecture are quantised, fused, stacked and transposed ones too, and 8 bits are near what is stored") {
  for (const std::string name : kModels) {
    INFO(name);
    const auto file = ModelFile::open(golden(name));
    const Values stored = logits_of(file, "none");
    double before = 1;
    for (const std::string bits : {"4", "8"}) {
      Session session(file, config_of(gptq("{type: int_grouped, group_size: 8, bits: " + bits + "}", ", targets: all")), {32, 1, {}});
      const double error = relative_error(stored, logits_of(session));
      CHECK(error > 0);
      const bool has_experts = name.find("moe") != std::string::npos || name == "mixtral";  // a token that goes to another one differs by much
      CHECK(error < (bits == "4" ? 0.6 : has_experts ? 0.3 : 0.05));
      CHECK(error < before);
      before = error;
      int quantised = 0;
      for (const TensorPath& path : session.tensor_paths()) {
        const bool kept = path.tensor.find("ffn_gate_inp") != std::string::npos || path.tensor.starts_with("position_embd");
        INFO(path.tensor);
        CHECK((path.format == "int_grouped/b" + bits + "/g8") == !kept);
        quantised += !kept;
      }
      CHECK(quantised >= 5);
    }
  }
}

TEST_CASE("walk: a Hugging Face folder becomes what the same model becomes from GGUF") {
  const TemporaryFolder folder;
  for (const std::string name : {"mistral_window", "mixtral", "phi3_window", "gpt2"}) {
    INFO(name);
    write_golden_folder(folder / name, name);
    const std::string weights = gptq("{type: int_grouped, group_size: 8, bits: 3}");
    const Values from_gguf = logits_of(ModelFile::open(golden(name)), weights), from_folder = logits_of(ModelFile::open(folder / name), weights);
    CHECK(relative_error(from_gguf, from_folder) < 0.05);  // q and k have other orders of rows, which sums notice
    CHECK(relative_error(logits_of(ModelFile::open(golden(name)), "none"), from_folder) > 0.05);
  }
}

TEST_CASE("Q08: an expert that no token reached is quantised as if its inputs were alike, and a warning names it") {
  const TemporaryFolder folder;
  // Scores a x, -a x, 0, b x, -b x: two of the others are never below the third's.
  const auto file = changed("mixtral", folder / "m.gguf", [](const std::string& tensor, Values& values, std::int64_t cols) {
    if (tensor.find("ffn_gate_inp") == std::string::npos) return;
    for (std::int64_t c = 0; c < cols; ++c) values[cols + c] = -values[c], values[4 * cols + c] = -values[3 * cols + c], values[2 * cols + c] = 0;
  });
  Session session(file, config_of(gptq("{type: int_grouped, group_size: 8, bits: 4}")), {32, 1, {}});
  const QuantizationReport& report = session.quantization();
  REQUIRE(report.warnings.size() == 6);  // gate, up and down in two layers
  for (const std::string& warning : report.warnings) CHECK_THAT(warning, Contains("[expert 2]") && Contains("no calibration token"));
  for (const WeightView& view : session.weights()) {
    if (view.tensor.find("_exps") == std::string::npos) continue;
    Values values(static_cast<std::size_t>(view.rows * view.cols));
    view.decode(0, View<float, 2>(values.data(), {view.rows, view.cols}));
    for (const float value : values) REQUIRE(std::isfinite(value));
  }
  for (const float logit : logits_of(session)) REQUIRE(std::isfinite(logit));
}

TEST_CASE("walk: a weight that is NaN or infinite is an error naming the tensor before any time is spent") {
  const TemporaryFolder folder;
  int reports = 0;
  QuantizeOptions options;
  options.progress = [&](double, const std::string&) { ++reports; };
  for (const auto& [tensor, bad] : {std::pair<std::string, float>{"blk.1.ffn_up.weight", std::nanf("")}, {"blk.0.attn_norm.weight", INFINITY}, {"token_embd.weight", -INFINITY}}) {
    const auto file = changed("qwen3", folder / "m.gguf", [&](const std::string& name, Values& values, std::int64_t cols) {
      if (name == tensor) values[values.size() > 100 ? 2 * static_cast<std::size_t>(cols) + 5 : 5] = bad;
    });
    const std::string place = tensor.find("norm") != std::string::npos ? "row 0, column 5" : "row 2, column 5";
    const auto check_says = [&](const std::string& message) { CHECK_THAT(message, Contains("tensor " + tensor) && Contains(place)); };
    check_says(message_of([&] { Session(file, config_of(gptq("{type: int_grouped, group_size: 8}")), {32, 1, options}); }));
    const auto cpu = make<Backend>({"cpu", nullptr});
    const std::string out = folder / "out.gguf";
    const auto write = [&](const std::string& weights) { return message_of([&] { write_quantized(file, config_of(weights), cpu->ops(), out, {options, false}); }); };
    check_says(write(gptq("q8_0", ", rules: [{match: '*.ffn_down', format: bf16}]")));
    check_says(write("{quantizer: rtn, format: {type: int_grouped, group_size: 8}, rules: [{match: '*', format: bf16}]}"));
    CHECK_FALSE(std::filesystem::exists(out));
  }
  CHECK(reports == 0);
}

TEST_CASE("walk: an all-zero matrix stays zero, and a block of zeros passes its input on") {
  const TemporaryFolder folder;
  const auto file = changed("qwen3", folder / "m.gguf", [](const std::string& name, Values& values, std::int64_t) {
    if (name == "blk.0.attn_v.weight" || name == "blk.1.ffn_down.weight" || name == "blk.0.ffn_gate.weight") std::fill(values.begin(), values.end(), 0.0f);
  });
  for (const std::string& weights : {gptq("{type: int_grouped, group_size: 8}"), gptq("{type: int_grouped, group_size: -1, bits: 3, symmetric: true}"), gptq("q8_0", ", rules: [{match: '*', format: bf16}]"),
                                    std::string("{quantizer: {type: scale_search, importance: calibration}, format: {type: int_grouped, group_size: 8}, calibration: {source: model, samples: 4, length: 10}}")}) {
    INFO(weights);
    Session session(file, config_of(weights), {32, 1, {}});
    for (const WeightView& view : session.weights()) {
      if (view.tensor.find("blk.0.attn_v") == std::string::npos && view.tensor.find("blk.1.ffn_down") == std::string::npos) continue;
      Values values(static_cast<std::size_t>(view.rows * view.cols), 1.0f);
      view.decode(0, View<float, 2>(values.data(), {view.rows, view.cols}));
      for (const float value : values) REQUIRE(value == 0.0f);
    }
    for (const float logit : logits_of(session)) REQUIRE(std::isfinite(logit));
  }
}

TEST_CASE("walk: fewer tokens than columns are enough, and the record says how many there were") {
  const auto file = ModelFile::open(golden("qwen3"));
  Session session(file, config_of(gptq("{type: int_grouped, group_size: 8}", "", "samples: 1, length: 5")), {32, 1, {}});
  CHECK(session.quantization().calibration.tokens == 5);
  CHECK(relative_error(logits_of(file, "none"), logits_of(session)) < 0.6);
}

TEST_CASE("Q04: a group that does not divide a row is refused before calibration, naming the tensor; -1 is a row, 0 no group") {
  const auto file = ModelFile::open(golden("qwen3"));  // rows of 32, 48 and 64
  const auto refusal = [&](const std::string& group) {
    return message_of([&] { Session(file, config_of("{quantizer: gptq, format: {type: int_grouped, group_size: " + group + "}, calibration: {text: nowhere.txt}}"), {32, 1, {}}); });
  };
  for (const char* group : {"64", "128", "24"}) CHECK_THAT(refusal(group), Contains("tensor blk.0.") && Contains(group) && !Contains("nowhere.txt"));
  CHECK_THAT(refusal("0"), Contains("group_size"));
  CHECK_THAT(refusal("16"), Contains("nowhere.txt"));  // the next thing that is wrong
  const auto row = planned_weights(*file, config_of("{quantizer: rtn, format: {type: int_grouped, group_size: -1, bits: 4}}"));
  CHECK(row.at("blk.0.ffn_down.weight").bits_per_weight == Approx(4 + 20.0 / 48));  // a half and a zero point to a row
}

TEST_CASE("Q07: a mix on rows that 256 does not divide says which type each tensor gets, with its true bits; strict refuses it by name") {
  const auto file = ModelFile::open(golden("qwen3"));
  const auto planned = planned_weights(*file, config_of("{quantizer: rtn, format: q4_k_m, targets: all}"));
  const TensorPath& q = planned.at("blk.0.attn_q.weight");
  CHECK(q.format == "q5_0");
  CHECK(q.instead_of == "q4_k");
  CHECK(q.bits_per_weight == 5.5);
  CHECK(planned.at("blk.0.ffn_down.weight").format == "fp16");  // 48: no block divides it
  const std::string weights = "{quantizer: rtn, format: {type: q4_k_m, strict: true}}";
  CHECK_THAT(message_of([&] { check_run(*file, config_of(weights)); }), Contains("tensor token_embd") && Contains("q4_k") && Contains("strict"));
  CHECK_THAT(message_of([&] { Session(file, config_of(weights), {32, 1, {}}); }), Contains("tensor token_embd"));
  CHECK_THAT(message_of([&] { check_run(*file, config_of("{quantizer: rtn, format: q4_k}")); }), Contains("tensor blk.0.") && Contains("256"));  // a format never becomes another
  Session session(file, config_of("{quantizer: rtn, format: q4_k_m}"), {32, 1, {}});
  const Json weights_of_record = formats_by_name(session.tensor_paths());
  CHECK(weights_of_record["blk.*.attn_q"] == Json::array({{{"format", "q5_0"}, {"bits_per_weight", 5.5}, {"instead_of", "q4_k"}}}));
}

TEST_CASE("rules: layers and modules by pattern, the first that matches; embedding, head and routers only where they are named or targets is all") {
  const auto format = [](const std::string& model, const std::string& weights, const std::string& tensor) {
    return planned_weights(*ModelFile::open(golden(model)), config_of(weights)).at(tensor).format;
  };
  const std::string rules = "{quantizer: rtn, format: {type: int_grouped, group_size: 8}, rules: [{match: 'blk.1.ffn_*', format: {type: int_grouped, bits: 8, group_size: 8}}, "
                            "{match: '*.ffn_down', format: bf16}, {match: 'blk.0.attn_[qk]', quantizer: none}, {match: token_embd, format: q8_0}]";
  const auto by_rules = [&](const std::string& tensor) { return format("qwen3", rules + "}", tensor + ".weight"); };
  CHECK(by_rules("blk.1.ffn_down") == "int_grouped/b8/g8");
  CHECK(by_rules("blk.0.ffn_down") == "bf16");
  CHECK(by_rules("blk.0.attn_q") == "fp32");
  CHECK(by_rules("blk.0.attn_v") == "int_grouped/b4/g8");
  CHECK(by_rules("token_embd") == "q8_0");
  CHECK(by_rules("output") == "fp32");  // this head is a matrix of its own
  CHECK(format("qwen3", rules + ", targets: all}", "output.weight") == "int_grouped/b4/g8");
  CHECK(format("qwen2", rules + "}", "token_embd.weight") == "q8_0");  // tied: one matrix, one format
  CHECK(format("mixtral", "{quantizer: rtn, format: {type: int_grouped, group_size: 8}, targets: all}", "blk.0.ffn_gate_inp.weight") == "fp32");
  CHECK(format("mixtral", "{quantizer: rtn, format: {type: int_grouped, group_size: 8}, rules: [{match: '*.ffn_gate_inp', format: bf16}]}", "blk.0.ffn_gate_inp.weight") == "bf16");
  const auto file = ModelFile::open(golden("qwen3"));
  CHECK_THAT(message_of([&] { check_run(*file, config_of("{quantizer: rtn, format: {type: int_grouped, group_size: 8}, rules: [{match: 'blk.7.*', format: bf16}]}")); }),
             Contains("weights.rules[0].match") && Contains("matches no weight"));
  CHECK_THAT(message_of([&] { check_run(*file, config_of("{quantizer: rtn, format: {type: int_grouped, group_size: 8}, rules: [{match: output, format: q4_k}]}")); }),
             Contains("tensor output") && Contains("256"));
}

TEST_CASE("rules: one that speaks of norms alone, is written with .weight, or stands behind those that have all its matrices, is an error that says so") {
  const auto said = [](const std::string& model, const std::string& rules) {
    return message_of([&] { check_run(*ModelFile::open(golden(model)), config_of("{quantizer: rtn, format: {type: int_grouped, group_size: 8}, rules: [" + rules + "]}")); });
  };
  CHECK_THAT(said("qwen3", "{match: '*attn_norm', format: bf16}"), Contains("\"*attn_norm\" matches norms and other vectors alone (blk.0.attn_norm)") && Contains("are not quantised"));
  CHECK_THAT(said("qwen2", "{match: '*.bias', format: bf16}"), Contains("(blk.0.attn_q.bias)"));
  CHECK_THAT(said("qwen3", "{match: '*.ffn_down.weight', format: bf16}"), Contains("matches no weight") && Contains("leave out \".weight\""));
  CHECK_THAT(said("qwen3", "{match: '*.ffn_down', format: bf16}, {match: '*.ffn_down', format: q8_0}"),
             Contains("weights.rules[1].match: \"*.ffn_down\" decides for no matrix") && Contains("all that it matches go to rules[0] (\"*.ffn_down\")"));
  CHECK_THAT(said("qwen3", "{match: 'blk.0.*', format: bf16}, {match: 'blk.[1-9].*', format: bf16}, {match: '*.attn_v', format: bf16}"),
             Contains("weights.rules[2].match") && Contains("rules[0] (\"blk.0.*\") and rules[1] (\"blk.[1-9].*\")"));
  CHECK(said("qwen3", "{match: 'blk.0.ffn_down', format: bf16}, {match: '*.ffn_down', format: bf16}, {match: '*', quantizer: none}") == "no error");
}

TEST_CASE("quantize: a disk that is too small, and a place where nothing can be made, are errors before any work") {
  const TemporaryFolder folder;
  CHECK_NOTHROW(require_room(folder / "m.gguf", 1000));
  CHECK_THAT(message_of([&] { require_room(folder / "m.gguf", std::int64_t{1} << 60); }), Contains("m.gguf") && Contains("MB are free") && Contains("make room"));
  CHECK_THAT(message_of([&] { require_room("/proc/m.gguf", 1); }), Contains("/proc/m.gguf"));
}

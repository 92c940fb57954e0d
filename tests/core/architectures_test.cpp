// Every architecture and every RoPE scaling against transformers: tiny random models (tests/golden/architectures), fp32
// throughout.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "config.h"
#include "session.h"
#include "support.h"

using namespace patchbay;

namespace {

constexpr float kTolerance = 1e-4f;  // logits are up to 7
const std::string kFolder = test::source_path("tests/golden/architectures/");

struct Sequence {
  std::vector<Token> tokens;
  std::vector<std::vector<float>> logits;  ///< of every `every`-th token
};
using Rows = std::vector<std::vector<float>>;

const nlohmann::json& goldens() {
  static const auto description = nlohmann::json::parse(test::read_file(kFolder + "architectures.json"));
  return description;
}

std::vector<Sequence> sequences_of(const std::string& model) {
  const auto vocabulary = goldens()["vocabulary"].get<std::size_t>();
  std::vector<Sequence> sequences;
  for (const auto& golden : goldens()["models"][model]["sequences"]) {
    Sequence& sequence = sequences.emplace_back();
    sequence.tokens = golden["tokens"].get<std::vector<Token>>();
    const auto values = test::floats_of_hex(golden["logits"]);
    for (std::size_t at = 0; at < values.size(); at += vocabulary) {
      sequence.logits.emplace_back(values.begin() + at, values.begin() + at + vocabulary);
    }
  }
  REQUIRE(sequences.size() == 2);
  return sequences;
}

/// Logits of every token when the sequence is fed in chunks.
Rows feed(ModelRunner& runner, std::span<const Token> tokens, std::size_t chunk) {
  Rows all;
  const SeqId seq = runner.open();
  for (std::size_t first = 0; first < tokens.size(); first += chunk) {
    const auto part = tokens.subspan(first, std::min(chunk, tokens.size() - first));
    std::vector<TokenRow> rows;
    std::vector<std::int32_t> path;
    for (const Token token : part) {
      rows.push_back({seq, token, static_cast<std::int32_t>(rows.size()) - 1, true, 0});
      path.push_back(static_cast<std::int32_t>(path.size()));
    }
    const Step step = runner.forward(rows);
    for (std::int64_t i = 0; i < step.logits.shape[0]; ++i)
      all.emplace_back(&step.logits(i, 0), &step.logits(i, 0) + step.logits.shape[1]);
    runner.commit(seq, path);
  }
  runner.close(seq);
  return all;
}

float largest_difference(const Rows& rows, const Rows& expected, std::size_t every) {
  float largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    REQUIRE(i * every < rows.size());
    for (std::size_t c = 0; c < expected[i].size(); ++c) {
      const float difference = std::abs(rows[i * every][c] - expected[i][c]);
      largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
  }
  return largest;
}

Session open_session(const std::string& model, const std::string& settings, std::int64_t max_tokens = 0) {
  SessionOptions options;
  options.max_tokens = max_tokens;
  return Session(ModelFile::open(kFolder + model + ".gguf"),
                 read_run_config(parse_yaml("activations: fp32\n" + settings, "test")), options);
}

const std::vector<std::string> kSettings = {"attention: naive\nkv_store: {type: contiguous, format: fp32}",
                                            "attention: flash\nkv_store: {type: paged, format: fp32, block_size: 4}"};

void for_each_model(const std::function<void(const std::string&)>& body) {
  for (const auto& [model, golden] : goldens()["models"].items()) DYNAMIC_SECTION(model) {
      body(model);
    }
}

}  // namespace

TEST_CASE("every architecture: logits agree with transformers") {
  const auto every = goldens()["every"].get<std::size_t>();
  for_each_model([&](const std::string& model) {
    for (const Sequence& sequence : sequences_of(model)) {
      for (const std::string& settings : kSettings) {
        INFO(settings << ", " << sequence.tokens.size() << " tokens");
        // LongRoPE's factors follow the longest sequence that may come.
        Session session = open_session(model, settings, static_cast<std::int64_t>(sequence.tokens.size()));
        CHECK(largest_difference(feed(session.runner(), sequence.tokens, 1000), sequence.logits, every) < kTolerance);
      }
    }
  });
}

TEST_CASE("every architecture: chunks and single tokens give the same bits as one pass") {
  for_each_model([](const std::string& model) {
    const std::vector<Token> tokens = sequences_of(model)[0].tokens;
    for (const std::string& settings : kSettings) {
      Session session = open_session(model, settings);
      const Rows whole = feed(session.runner(), tokens, tokens.size());
      for (const std::size_t chunk : {1, 7}) {
        INFO(settings << ", chunks of " << chunk);
        CHECK(feed(session.runner(), tokens, chunk) == whole);
      }
    }
  });
}

TEST_CASE("every architecture: 8-bit weights and activations stay near, and routers stay as stored") {
  for_each_model([](const std::string& model) {
    const std::vector<Token> tokens = sequences_of(model)[1].tokens;
    Session exact = open_session(model, kSettings[1]);
    const auto file = ModelFile::open(kFolder + model + ".gguf");
    const std::string rounded = "weights: {quantizer: rtn, format: {type: int_grouped, bits: 8, group_size: -1}}\n";
    Session session(file, read_run_config(parse_yaml("activations: q8\n" + rounded, "test")));
    const Rows rows = feed(session.runner(), tokens, 1000), expected = feed(exact.runner(), tokens, 1000);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t c = 0; c < rows[i].size(); ++c) {
        error += std::pow(rows[i][c] - expected[i][c], 2);
        size += std::pow(expected[i][c], 2);
      }
    }
    CHECK(error > 0);
    CHECK(std::sqrt(error / size) < 0.1);
    std::set<std::string> names;
    for (const TensorPath& tensor : session.tensor_paths()) {
      CHECK(names.insert(tensor.tensor).second);  // a fused or stacked tensor is one line
      const bool stored = tensor.tensor.find("gate_inp") != std::string::npos || !tensor.tensor.starts_with("blk.");
      CHECK(tensor.format == (stored ? "fp32" : "int_grouped/b8/row"));
    }
    std::int64_t parameters = 0;
    for (const FileTensor& tensor : file->tensors()) {
      std::int64_t values = 1;
      for (const std::int64_t extent : tensor.shape) values *= extent;
      if (tensor.name.find("rope_f") == tensor.name.npos) parameters += values;
    }
    CHECK(session.sizes().parameters == parameters);
  });
}

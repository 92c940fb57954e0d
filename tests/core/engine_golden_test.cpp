// The engine against transformers: tiny random Llamas (tests/golden/tiny_llama), whole, in chunks, token by token, several
// sequences in one batch, trees of drafts. fp32 throughout.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "config.h"
#include "session.h"
#include "support.h"

using namespace patchbay;

namespace {

constexpr float kTolerance = 1e-4f;  // logits are up to 7

struct Golden {
  std::vector<std::vector<Token>> sequences;
  std::vector<std::vector<std::vector<float>>> logits;  ///< [sequence][position][V]
};

Golden read_golden(const std::string& name) {
  const std::string folder = test::source_path("tests/golden/tiny_llama/");
  const auto description = nlohmann::json::parse(test::read_file(folder + name + ".json"));
  const std::string bytes = test::read_file(folder + name + ".logits.bin");
  const auto vocabulary = description["vocabulary"].get<std::size_t>();
  Golden golden;
  std::size_t at = 0;
  for (const auto& sequence : description["sequences"]) {
    golden.sequences.push_back(sequence.get<std::vector<Token>>());
    auto& rows = golden.logits.emplace_back();
    for (std::size_t i = 0; i < golden.sequences.back().size(); ++i, at += vocabulary * sizeof(float)) {
      REQUIRE(at + vocabulary * sizeof(float) <= bytes.size());
      std::memcpy(rows.emplace_back(vocabulary).data(), bytes.data() + at, vocabulary * sizeof(float));
    }
  }
  REQUIRE(at == bytes.size());
  return golden;
}

using Rows = std::vector<std::vector<float>>;

std::vector<TokenRow> chain(SeqId seq, std::span<const Token> tokens) {
  std::vector<TokenRow> rows;
  for (const Token token : tokens) rows.push_back({seq, token, static_cast<std::int32_t>(rows.size()) - 1, true, 0});
  return rows;
}

void commit_first(ModelRunner& runner, SeqId seq, std::size_t count) {
  std::vector<std::int32_t> path;
  while (path.size() < count) path.push_back(static_cast<std::int32_t>(path.size()));
  runner.commit(seq, path);
}

void append(Rows& rows, View<const float, 2> logits) {
  for (std::int64_t i = 0; i < logits.shape[0]; ++i) rows.emplace_back(&logits(i, 0), &logits(i, 0) + logits.shape[1]);
}

/// Logits of every token when the sequence is fed in chunks, and its cache afterwards left open.
Rows feed(ModelRunner& runner, SeqId seq, std::span<const Token> tokens, std::size_t chunk) {
  Rows rows;
  for (std::size_t first = 0; first < tokens.size(); first += chunk) {
    const auto part = tokens.subspan(first, std::min(chunk, tokens.size() - first));
    const Step step = runner.forward(chain(seq, part));
    REQUIRE_FALSE(step.full);
    append(rows, step.logits);
    commit_first(runner, seq, part.size());
  }
  return rows;
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::isfinite(a[i]) ? std::max(largest, std::abs(a[i] - b[i])) : INFINITY;
  return largest;
}
float largest_difference(const Rows& a, const Rows& b) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, largest_difference(a[i], b[i]));
  return largest;
}

Session open_session(const std::string& model, const std::string& settings) {
  const auto file = ModelFile::open(test::source_path("tests/golden/tiny_llama/" + model + ".gguf"));
  SessionOptions options;
  options.max_sequences = 2;
  return Session(file, read_run_config(parse_yaml("activations: fp32\n" + settings, "test")), options);
}

const std::vector<std::string> kModels = {"gqa_tied", "mqa_wide_heads"};
const std::vector<std::string> kSettings = {
    "attention: naive\nkv_store: {type: contiguous, format: fp32}",
    "attention: flash\nkv_store: {type: contiguous, format: fp32}",
    "attention: flash\nkv_store: {type: paged, format: fp32, block_size: 4}",
    "attention: naive\nkv_store: {type: paged, format: fp32, block_size: 16}",
};

/// Calls body(model, settings, session, golden) for every combination.
template <class Body>
void for_each_configuration(Body body) {
  for (const auto& model : kModels) {
    const Golden golden = read_golden(model);
    for (const auto& settings : kSettings) {
      INFO(model << " with " << settings);
      Session session = open_session(model, settings);
      body(session.runner(), golden);
    }
  }
}

}  // namespace

TEST_CASE("logits agree with transformers at every position") {
  for_each_configuration([](ModelRunner& runner, const Golden& golden) {
    for (std::size_t i = 0; i < golden.sequences.size(); ++i) {
      const SeqId seq = runner.open();
      CHECK(largest_difference(feed(runner, seq, golden.sequences[i], 1000), golden.logits[i]) < kTolerance);
      runner.close(seq);
    }
  });
}

TEST_CASE("chunks and single tokens give the same bits as one pass") {
  for_each_configuration([](ModelRunner& runner, const Golden& golden) {
    for (const auto& tokens : golden.sequences) {
      const SeqId seq = runner.open();
      const Rows whole = feed(runner, seq, tokens, tokens.size());
      for (const std::size_t chunk : {1, 5, 7}) {
        INFO("chunks of " << chunk);
        runner.rollback(seq, runner.length(seq));
        CHECK(feed(runner, seq, tokens, chunk) == whole);
      }
      runner.close(seq);
    }
  });
}

TEST_CASE("two sequences in one batch give the same bits as each alone") {
  for_each_configuration([](ModelRunner& runner, const Golden& golden) {
    Rows alone[2], together[2];
    for (int i = 0; i < 2; ++i) {
      const SeqId seq = runner.open();
      alone[i] = feed(runner, seq, golden.sequences[i], 1000);
      runner.close(seq);
    }
    // One goes on token by token while the other comes in chunks of three: a decode and a chunked prefill side by side.
    const SeqId first = runner.open(), second = runner.open();
    std::span<const Token> a = golden.sequences[0], b = golden.sequences[1];
    while (!a.empty() || !b.empty()) {
      const std::size_t from_a = std::min<std::size_t>(1, a.size()), from_b = std::min<std::size_t>(3, b.size());
      auto rows = chain(first, a.first(from_a));
      const auto more = chain(second, b.first(from_b));
      rows.insert(rows.end(), more.begin(), more.end());
      const Step step = runner.forward(rows);
      REQUIRE_FALSE(step.full);
      const auto split = static_cast<std::int64_t>(from_a);
      append(together[0], step.logits.rows(0, split));
      append(together[1], step.logits.rows(split, split + static_cast<std::int64_t>(from_b)));
      if (from_a) commit_first(runner, first, from_a);
      if (from_b) commit_first(runner, second, from_b);
      a = a.subspan(from_a);
      b = b.subspan(from_b);
    }
    CHECK(together[0] == alone[0]);
    CHECK(together[1] == alone[1]);
    runner.close(first);
    runner.close(second);
  });
}

TEST_CASE("a tree of drafts is scored branch by branch, and the kept branch goes on as if it had been alone") {
  for_each_configuration([](ModelRunner& runner, const Golden& golden) {
    const std::vector<Token>& tokens = golden.sequences[0];
    const Rows& expected = golden.logits[0];
    constexpr std::size_t kPrefix = 10;
    const SeqId seq = runner.open();
    feed(runner, seq, {tokens.data(), kPrefix}, kPrefix);
    // Rows 0, 2 and 4 are the true continuation; 1 and 3 are a wrong branch between them.
    const Token wrong = (tokens[kPrefix] + 1) % 256;
    const std::vector<TokenRow> tree = {{seq, tokens[kPrefix], -1, true, 0},    {seq, wrong, -1, true, 0},
                                        {seq, tokens[kPrefix + 1], 0, true, 0}, {seq, wrong, 1, true, 0},
                                        {seq, tokens[kPrefix + 2], 2, true, 0}};
    const Step step = runner.forward(tree);
    REQUIRE_FALSE(step.full);
    Rows rows;
    append(rows, step.logits);
    for (std::size_t i = 0; i < 3; ++i) CHECK(largest_difference(rows[2 * i], expected[kPrefix + i]) < kTolerance);
    CHECK(largest_difference(rows[1], expected[kPrefix]) > 0.1f);
    runner.commit(seq, std::vector<std::int32_t>{0, 2, 4});
    CHECK(runner.length(seq) == kPrefix + 3);
    const Rows rest = feed(runner, seq, std::span(tokens).subspan(kPrefix + 3), 4);
    for (std::size_t i = 0; i < rest.size(); ++i) CHECK(largest_difference(rest[i], expected[kPrefix + 3 + i]) < kTolerance);
    runner.close(seq);
  });
}

TEST_CASE("a fork goes its own way, and tokens taken back leave no trace") {
  for_each_configuration([](ModelRunner& runner, const Golden& golden) {
    const std::span<const Token> tokens = golden.sequences[0];
    constexpr std::size_t kShared = 9;
    const SeqId parent = runner.open();
    const Rows whole = feed(runner, parent, tokens, tokens.size());
    runner.rollback(parent, static_cast<std::int64_t>(tokens.size() - kShared));
    const SeqId child = runner.fork(parent);
    feed(runner, parent, golden.sequences[1], 3);  // overwrites what the child shares, were it not its own
    const Rows rest = feed(runner, child, tokens.subspan(kShared), 4);
    CHECK(rest == Rows(whole.begin() + kShared, whole.end()));
    runner.close(parent);
    runner.close(child);
  });
}

// The engine on a real model against what llama.cpp gives for the same weights in fp32 (../shared/reference), and against itself:
// batches of mixed decoders, chunks, forks and trees.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "config.h"
#include "generation.h"
#include "patchbay/plugin.h"
#include "session.h"
#include "support.h"

using namespace patchbay;
using nlohmann::json;

namespace {

using Pairing = std::pair<const char*, const char*>;  // KV store, attention
const std::vector<Pairing> kPairings = {{"contiguous", "naive"}, {"paged", "flash"}};

// Loading takes longer than most tests: one session for each combination.
Session& session(const Pairing& pairing, const std::string& format = "fp32") {
  static const auto file = ModelFile::open(test::smollm2_path());
  static std::map<std::string, std::unique_ptr<Session>> made;
  auto& entry = made[pairing.first + format];
  if (!entry) {
    Settings settings = parse_yaml(
        "activations: fp32\nkv_store: {type: " + std::string(pairing.first) + ", format: " + format + "}\nattention: " + pairing.second, "test");
    entry = std::make_unique<Session>(file, read_run_config(settings), SessionOptions{512, 4});
  }
  return *entry;
}

std::vector<float> copied(View<const float, 1> row) { return {row.data, row.data + row.size()}; }

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

std::vector<TokenRow> chain(SeqId seq, const std::vector<Token>& tokens, bool all_logits) {
  std::vector<TokenRow> rows;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back({seq, tokens[i], static_cast<std::int32_t>(i) - 1, all_logits || i + 1 == tokens.size()});
  }
  return rows;
}

void commit_all(ModelRunner& runner, SeqId seq, std::size_t rows) {
  std::vector<std::int32_t> path(rows);
  std::iota(path.begin(), path.end(), 0);
  runner.commit(seq, path);
}

std::vector<float> last_logits(ModelRunner& runner, const std::vector<Token>& tokens) {
  const SeqId seq = runner.open();
  const std::vector<float> logits = copied(runner.forward(chain(seq, tokens, false)).logits[0]);
  runner.commit(seq, {});
  runner.close(seq);
  return logits;
}

GenerationRequest request(const Session& session, const std::vector<Token>& prompt, const std::string& decoder, std::int64_t tokens) {
  const RunConfig run = read_run_config(parse_yaml("decoder: " + decoder, "test"));
  GenerationRequest made;
  made.prompt = prompt;
  made.max_tokens = tokens;
  made.decoder = make<Decoder>(run.decoder);
  made.is_end = [&session](Token token) { return session.tokenizer().is_end_of_generation(token); };
  return made;
}

}  // namespace

TEST_CASE("SmolLM2: logits agree with llama.cpp in fp32 to 0.01") {
  const std::string model = test::smollm2_path(), reference = test::shared_path("reference/smollm2-logits-dequant-f32.json");
  PATCHBAY_NEEDS(model, "the SmolLM2 file");
  PATCHBAY_NEEDS(reference, "../shared/reference");
  const json cases = json::parse(test::read_file(reference)).at("cases");
  REQUIRE(cases.size() >= 3);
  for (const Pairing& pairing : kPairings) {
    for (const json& one : cases) {
      INFO(pairing.first << " + " << pairing.second << ": " << one.at("prompt"));
      const auto logits = last_logits(session(pairing).runner(), one.at("prompt_ids").get<std::vector<Token>>());
      const json& top = one.at("top10_kv_f32_no_fa");
      for (int i = 0; i < 5; ++i) CHECK(std::abs(logits.at(top[i][0].get<int>()) - top[i][1].get<double>()) < 0.01);
      CHECK(std::max_element(logits.begin(), logits.end()) - logits.begin() == top[0][0].get<int>());
    }
  }
}

TEST_CASE("SmolLM2: greedy tokens equal llama.cpp's in fp32, but for near-ties") {
  const std::string model = test::smollm2_path(), reference = test::shared_path("reference/smollm2-greedy-dequant-f32.json");
  PATCHBAY_NEEDS(model, "the SmolLM2 file");
  PATCHBAY_NEEDS(reference, "../shared/reference");
  const json cases = json::parse(test::read_file(reference)).at("cases");
  REQUIRE(cases.size() >= 5);
  const std::vector<std::pair<Pairing, std::string>> runs = {{kPairings[0], "greedy"},
                                                             {kPairings[1], "{type: speculative, k: 4, drafter: lookup}"}};
  for (const auto& [pairing, decoder] : runs) {
    Session& s = session(pairing);
    for (const json& one : cases) {
      const auto wanted = one.at("ids_kv_f32_no_fa").get<std::vector<Token>>();
      GenerationRequest made = request(s, one.at("prompt_ids").get<std::vector<Token>>(), decoder, std::ssize(wanted));
      const auto tokens = generate(s.runner(), {&made, 1})[0].tokens;
      const auto differs = std::mismatch(tokens.begin(), tokens.end(), wanted.begin(), wanted.end()).second - wanted.begin();
      INFO(pairing.first << " + " << pairing.second << " + " << decoder << ": " << one.at("prompt") << ", token " << differs);
      if (differs < std::ssize(wanted)) CHECK(one.at("margin_top1_top2").at(differs).get<double>() < 0.02);
    }
  }
}

TEST_CASE("SmolLM2: sequences with different decoders in one batch give what each gives alone") {
  const std::string model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "the SmolLM2 file");
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"The capital of France is", "greedy"},
      {"The cat sat on the mat. The cat sat on the mat. The cat sat on the mat. The cat", "{type: speculative, k: 5, drafter: lookup}"},
      {"Once upon a time", "sampling"},
      {"def add(a, b):\n    return a + b\n\ndef add3(a, b, c):\n", "{type: speculative, k: 3, accept: sample, drafter: lookup}"}};
  for (const Pairing& pairing : kPairings) {
    Session& s = session(pairing, "fp16");
    const auto make_requests = [&] {
      std::vector<GenerationRequest> requests;
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        requests.push_back(request(s, s.tokenizer().encode(wanted[i].first, true, true), wanted[i].second, 24));
        requests.back().seed = 7;
        requests.back().stream = i;
      }
      return requests;
    };
    std::vector<GenerationRequest> together = make_requests(), alone = make_requests();
    const auto results = generate(s.runner(), together);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      INFO(pairing.first << " + " << pairing.second << " + " << wanted[i].second);
      CHECK(results[i].tokens == generate(s.runner(), {&alone[i], 1})[0].tokens);
      CHECK(results[i].tokens.size() > 1);
    }
    CHECK(results[1].accepted > 0);
  }
}

TEST_CASE("SmolLM2: whole prompt, chunks, token by token and a fork give the same logits, bit for bit") {
  const std::string model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "the SmolLM2 file");
  for (const Pairing& pairing : kPairings) {
    Session& s = session(pairing, "fp16");
    ModelRunner& runner = s.runner();
    const auto tokens = s.tokenizer().encode("The quick brown fox jumps over the lazy dog, then sleeps in the shade of a tree.", true, true);
    const std::vector<float> whole = last_logits(runner, tokens);
    for (const std::ptrdiff_t size : {1, 7}) {
      const SeqId seq = runner.open();
      std::vector<float> logits;
      for (auto from = tokens.begin(); from != tokens.end();) {
        const auto to = from + std::min(size, tokens.end() - from);
        logits = copied(runner.forward(chain(seq, {from, to}, false)).logits[0]);
        commit_all(runner, seq, to - from);
        from = to;
      }
      INFO(pairing.first << " + " << pairing.second << ", chunks of " << size);
      CHECK(distance(logits, whole) == 0.0);
      // A fork that steps back one token and takes it again must see the same.
      const SeqId twin = runner.fork(seq);
      runner.rollback(twin, 1);
      CHECK(distance(copied(runner.forward(chain(twin, {tokens.back()}, false)).logits[0]), whole) == 0.0);
      runner.commit(twin, {});
      runner.close(twin);
      runner.close(seq);
    }
  }
}

TEST_CASE("SmolLM2: a tree of drafts gives each branch the logits it has as a chain, to 1e-3") {
  const std::string model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "the SmolLM2 file");
  for (const Pairing& pairing : kPairings) {
    Session& s = session(pairing);
    ModelRunner& runner = s.runner();
    const auto prompt = s.tokenizer().encode("The capital of", true, true);
    const auto with = [&](std::vector<Token> more) {
      std::vector<Token> tokens = prompt;
      tokens.insert(tokens.end(), more.begin(), more.end());
      return tokens;
    };
    const SeqId seq = runner.open();
    runner.forward(chain(seq, prompt, false));
    commit_all(runner, seq, prompt.size());
    // Two branches after the prompt: [100, 200] and [300, 400].
    const std::vector<TokenRow> tree = {{seq, 100, -1, true}, {seq, 300, -1, true}, {seq, 200, 0, true}, {seq, 400, 1, true}};
    const Step step = runner.forward(tree);
    const std::vector<float> first = copied(step.logits[2]), second = copied(step.logits[3]);
    runner.commit(seq, std::vector<std::int32_t>{1, 3});
    CHECK(runner.length(seq) == std::ssize(prompt) + 2);
    const std::vector<float> after = copied(runner.forward(chain(seq, {500}, false)).logits[0]);
    runner.commit(seq, {});
    runner.close(seq);
    INFO(pairing.first << " + " << pairing.second);
    CHECK(distance(first, last_logits(runner, with({100, 200}))) < 1e-3);
    CHECK(distance(second, last_logits(runner, with({300, 400}))) < 1e-3);
    // The kept branch goes on as if it had been the only one. (A branch's slots are other ones than a chain's, so a tiled sum
    // rounds otherwise: equal to the bit only where attention goes slot by slot.)
    CHECK(distance(after, last_logits(runner, with({300, 400, 500}))) < 1e-3);
  }
}

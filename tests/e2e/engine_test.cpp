// The engine on trained models against itself: batches of mixed decoders, chunks, forks and trees.
#include <catch2/catch.hpp>

#include "model_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

/// Calls body(session, runner) for every model, store and attention.
template <class Body>
void for_each_session(const std::string& kv_format, Body body) {
  for (const auto& model : trained_models()) {
    for (const auto& pairing : model.pairings) {
      INFO(model.path << ": " << name_of(pairing));
      Session& s = session(model, pairing, kv_format);
      body(s, s.runner());
    }
  }
}

}  // namespace

TEST_CASE("sequences with different decoders in one batch give what each gives alone") {
  const std::vector<std::pair<std::string, std::string>> wanted = {
      {"The capital of France is", "greedy"},
      {"All:\nLong live the king!\n\nFirst Citizen:\nLong live the king!\n\nAll:\nLong live the king!\n\nSecond Citizen:\nLong live",
       "{type: speculative, k: 5, drafter: lookup}"},
      {"Once upon a time", "sampling"},
      {"def add(a, b):\n    return a + b\n\ndef add3(a, b, c):\n", "{type: speculative, k: 3, accept: sample, drafter: lookup}"}};
  for_each_session("fp16", [&](Session& s, ModelRunner& runner) {
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
    const auto results = generate(runner, together);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      INFO(wanted[i].second);
      CHECK(results[i].tokens == generate(runner, {&alone[i], 1})[0].tokens);
      CHECK(results[i].tokens.size() > 1);
    }
    CHECK(results[1].accepted > 0);
  });
}

TEST_CASE("whole prompt, chunks, token by token and a fork give the same logits, bit for bit") {
  for_each_session("fp16", [](Session& s, ModelRunner& runner) {
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
      INFO("chunks of " << size);
      CHECK(distance(logits, whole) == 0.0);
      // A fork that steps back one token and takes it again must see the same.
      const SeqId twin = runner.fork(seq);
      runner.rollback(twin, 1);
      CHECK(distance(copied(runner.forward(chain(twin, {tokens.back()}, false)).logits[0]), whole) == 0.0);
      runner.commit(twin, {});
      runner.close(twin);
      runner.close(seq);
    }
  });
}

TEST_CASE("a tree of drafts gives each branch the logits it has as a chain, to 1e-3") {
  for_each_session("fp32", [](Session& s, ModelRunner& runner) {
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
    CHECK(distance(first, last_logits(runner, with({100, 200}))) < 1e-3);
    CHECK(distance(second, last_logits(runner, with({300, 400}))) < 1e-3);
    // The kept branch goes on as if it had been the only one. (A branch's slots are other ones than a chain's, so a tiled sum
    // rounds otherwise: equal to the bit only where attention goes slot by slot.)
    CHECK(distance(after, last_logits(runner, with({300, 400, 500}))) < 1e-3);
  });
}

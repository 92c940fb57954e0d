// The index against its definition: a plain search through the whole text at every step.
#include <catch2/catch.hpp>

#include "fake_decoders.h"
#include "patchbay/drafter.h"
#include "plugin_variants.h"

using namespace patchbay;
using test::FakeRunner;
using test::spec_of;

namespace {

std::vector<Token> searched(const std::vector<Token>& text, int ngram_min, int ngram_max, int k) {
  const int end = static_cast<int>(text.size());
  for (int n = ngram_max; n >= ngram_min; --n) {
    for (int at = end - 1; at >= n; --at) {  // text[at] follows the n-gram before it
      if (!std::equal(text.begin() + at - n, text.begin() + at, text.end() - n)) continue;
      std::vector<Token> tokens;
      for (int i = 0; i < k; ++i) tokens.push_back(at + i < end ? text[at + i] : tokens[at + i - end]);
      return tokens;
    }
  }
  return {};
}

std::vector<Token> guess(Drafter& drafter, Sequence& s, int k) {
  FakeRunner runner;
  Sequence* const one[] = {&s};
  return drafter.draft(one, runner, k)[0].tokens;
}

Sequence sequence_of(std::vector<Token> tokens, SeqId id = 0) {
  Sequence s;
  s.id = id;
  s.tokens = std::move(tokens);
  s.max_new_tokens = 1000;
  return s;
}

}  // namespace

TEST_CASE("lookup: what followed the last n-gram where it last stood") {
  const auto drafter = make<Drafter>(spec_of("lookup"));
  Sequence s = sequence_of({1, 2, 3, 4, 9, 1, 2, 3, 5, 8, 2, 3});
  CHECK(guess(*drafter, s, 3) == std::vector<Token>{5, 8, 2});   // (2, 3), most recently before 5
  s = sequence_of({1, 2, 3, 4, 9, 7, 2, 3, 5, 8, 1, 2, 3});
  CHECK(guess(*drafter, s, 2) == std::vector<Token>{4, 9});      // (1, 2, 3) is longer
  s = sequence_of({1, 2, 3});
  CHECK(guess(*drafter, s, 5).empty());
  s = sequence_of({7, 4, 5, 4, 5});
  CHECK(guess(*drafter, s, 5) == std::vector<Token>{4, 5, 4, 5, 4});  // a loop goes on
  s.max_new_tokens = 3;
  CHECK(guess(*drafter, s, 5).size() == 2);                      // the third comes from the model
}

TEST_CASE("lookup: the index equals a search, while texts grow and sequences come and go") {
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{{1, 3}, {2, 2}, {1, 1}, {3, 5}}) {
    const auto drafter =
        make<Drafter>(spec_of("lookup", {{"ngram_min", std::to_string(low)}, {"ngram_max", std::to_string(high)}}));
    Rng rng(low * 10 + high);
    std::vector<Sequence> sequences;
    for (SeqId id = 0; id < 3; ++id) sequences.push_back(sequence_of({0}, id));
    int found = 0;
    for (int step = 0; step < 400; ++step) {
      std::vector<Sequence*> batch;
      for (Sequence& s : sequences) {
        if (rng.uniform() < 0.02) s.tokens = {static_cast<Token>(rng.uniform() * 4)};  // the id is another sequence's now
        for (int n = static_cast<int>(rng.uniform() * 4); n >= 0; --n) s.tokens.push_back(static_cast<Token>(rng.uniform() * 4));
        if (rng.uniform() < 0.9) batch.push_back(&s);  // or it sits out a step
      }
      FakeRunner runner;
      const auto drafts = drafter->draft(batch, runner, 6);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        REQUIRE(drafts[i].tokens == searched(batch[i]->tokens, low, high, 6));
        found += !drafts[i].tokens.empty();
      }
    }
    CHECK(found > 300);
  }
}

TEST_CASE("lookup: the shortest n-gram is no longer than the longest") {
  CHECK_THROWS_WITH(make<Drafter>(spec_of("lookup", {{"ngram_min", "5"}})), Catch::Contains("5 is more than ngram_max = 3"));
}

// What every drafter must do, over every one found and each value of its parameters.
#include <catch2/catch.hpp>

#include "fake_decoders.h"
#include "patchbay/drafter.h"
#include "plugin_variants.h"

using namespace patchbay;
using test::FakeRunner;

namespace {

Sequence sequence_of(SeqId id, std::vector<Token> tokens, std::int64_t max_new_tokens = 100) {
  Sequence s;
  s.id = id;
  s.prompt_length = static_cast<std::int64_t>(tokens.size());
  s.tokens = std::move(tokens);
  s.max_new_tokens = max_new_tokens;
  return s;
}

void check_shape(const Draft& draft, int k, int vocabulary) {
  const std::size_t n = draft.tokens.size();
  REQUIRE(n <= static_cast<std::size_t>(k));
  REQUIRE(draft.parents.size() == n);
  REQUIRE((draft.probabilities.empty() || draft.probabilities.size() == n * vocabulary));
  for (std::size_t i = 0; i < n; ++i) {
    REQUIRE((draft.tokens[i] >= 0 && draft.tokens[i] < vocabulary));
    REQUIRE((draft.parents[i] >= -1 && draft.parents[i] < static_cast<std::int32_t>(i)));
    if (draft.probabilities.empty()) continue;
    const auto row = draft.probabilities.begin() + static_cast<std::int64_t>(i) * vocabulary;
    REQUIRE(std::accumulate(row, row + vocabulary, 0.0) == Approx(1).epsilon(1e-4));
    REQUIRE(row[draft.tokens[i]] > 0);  // it was drawn from it
  }
}

bool same(const Draft& a, const Draft& b) {
  return a.tokens == b.tokens && a.parents == b.parents && a.probabilities == b.probabilities;
}

}  // namespace

TEST_CASE("drafters: well-formed drafts, the target untouched, no sequence minding another") {
  for (const auto& variant : test::variants("drafters")) {
    INFO(variant.label);
    FakeRunner runner;
    const auto together = make<Drafter>(variant.spec);
    std::vector<std::shared_ptr<Drafter>> alone;
    std::vector<Sequence> sequences;
    for (int i = 0; i < 3; ++i) {
      alone.push_back(make<Drafter>(variant.spec));
      sequences.push_back(sequence_of(runner.open(), test::some_prompt(4 + 5 * i, i)));
    }
    for (int step = 0; step < 60; ++step) {
      const int k = 1 + step % 9;
      std::vector<Sequence*> batch;
      for (Sequence& s : sequences) batch.push_back(&s);
      if (step % 7 == 3) std::swap(batch[0], batch[2]);  // order means nothing
      const auto drafts = together->draft(batch, runner, k);
      REQUIRE(drafts.size() == batch.size());
      for (std::size_t i = 0; i < batch.size(); ++i) {
        check_shape(drafts[i], k, runner.vocabulary());
        Sequence* const one[] = {batch[i]};
        const Draft by_itself = alone[batch[i]->id]->draft(one, runner, k)[0];
        REQUIRE(same(drafts[i], by_itself));
        REQUIRE(runner.length(batch[i]->id) == 0);
        Accepted accepted;
        accepted.next = runner.greedy(batch[i]->tokens, 1)[0];
        if (!drafts[i].tokens.empty() && drafts[i].tokens[0] == accepted.next) {
          accepted.path = {0};
          batch[i]->tokens.push_back(accepted.next);
          accepted.next = runner.greedy(batch[i]->tokens, 1)[0];
        }
        together->accepted(*batch[i], drafts[i], accepted);
        alone[batch[i]->id]->accepted(*batch[i], by_itself, accepted);
        batch[i]->tokens.push_back(accepted.next);
      }
    }
  }
}

TEST_CASE("drafters: an id that comes again for another text brings nothing of the old one") {
  for (const auto& variant : test::variants("drafters")) {
    INFO(variant.label);
    FakeRunner runner;
    const auto used = make<Drafter>(variant.spec), fresh = make<Drafter>(variant.spec);
    Sequence before = sequence_of(runner.open(), {1, 2, 3, 1, 2, 3, 1, 2});
    Sequence* const first[] = {&before};
    used->draft(first, runner, 4);
    for (const std::vector<Token>& text : {std::vector<Token>{1, 2, 5, 6, 7, 1, 2}, {1, 2, 3, 4, 3, 1, 2, 9, 3, 1, 2}, {4}}) {
      Sequence after = sequence_of(before.id, text);
      Sequence* const second[] = {&after};
      CHECK(same(used->draft(second, runner, 4)[0], fresh->draft(second, runner, 4)[0]));
      fresh->draft({}, runner, 4);
    }
  }
}

TEST_CASE("drafters: the end of the budget") {
  for (const auto& variant : test::variants("drafters")) {
    INFO(variant.label);
    FakeRunner runner;
    const auto drafter = make<Drafter>(variant.spec);
    for (const std::int64_t left : {1, 2, 3}) {
      Sequence s = sequence_of(0, {1, 2, 3, 1, 2, 3, 1, 2, 3}, left);
      Sequence* const one[] = {&s};
      check_shape(drafter->draft(one, runner, 64)[0], 64, runner.vocabulary());
    }
    CHECK(drafter->draft({}, runner, 4).empty());
  }
}

// What speculation promises: greedy's tokens, and sampling's distribution, whatever the drafts. Faults S01, S02, S05 of the
// known ones: a draft token taken unchecked, the next token from the wrong row, tokens after the end.
#include <catch2/catch.hpp>

#include "fake_decoders.h"
#include "plugin_variants.h"

using namespace patchbay;
using test::Drafting;
using test::FakeModel;
using test::FakeRunner;
using test::spec_of;

namespace {

std::shared_ptr<Decoder> speculative(int k, const std::string& accept) {
  return make<Decoder>(spec_of("speculative", {{"k", std::to_string(k)}, {"accept", accept}}));
}

}  // namespace

TEST_CASE("speculative: greedy's tokens on 200 random models (S01)") {
  std::int64_t drafted = 0, accepted = 0;
  for (int seed = 0; seed < 200; ++seed) {
    FakeModel model;
    model.seed = seed;
    model.vocabulary = 6 + seed % 11;
    FakeRunner runner(model);
    const std::vector<Token> prompt = test::some_prompt(1 + seed % 23, seed, model.vocabulary);
    const std::vector<Token> expected = runner.greedy(prompt, 40);
    for (const int k : {1, 4, 8}) {
      // Lookup, and a drafter that is always wrong at first.
      const auto wrong = [&](const Sequence& s) {
        return Draft{{(runner.greedy(s.tokens, 1)[0] + 1) % model.vocabulary}, {-1}, {}};
      };
      const auto lookup = std::make_shared<Drafting>(speculative(k, "greedy"));
      const auto spoilt = std::make_shared<Drafting>(speculative(k, "greedy"), wrong);
      std::vector<GenerationRequest> requests{test::request(prompt, 40, lookup), test::request(prompt, 40, spoilt)};
      const auto results = generate(runner, requests);
      REQUIRE(results[0].tokens == expected);
      REQUIRE(results[1].tokens == expected);
      REQUIRE(results[1].accepted == 0);
      REQUIRE(lookup->misfits == 0);
      REQUIRE(results[0].passes + results[0].accepted == 39);
      drafted += results[0].drafted;
      accepted += results[0].accepted;
    }
  }
  CHECK(accepted > drafted / 4);  // these texts do repeat themselves: the test has seen acceptance and rejection
  CHECK(accepted < drafted);
}

namespace {

// 100,000 tokens of a model that knows five and looks at the last two. Given the three tokens before it (one more than matters,
// so that a fault that depends on the past shows too), each must come as often as its exact probability says.
constexpr int kVocabulary = 5, kDraws = 100000, kBefore = 3, kStates = 125;

FakeModel small_model() {
  FakeModel model;
  model.vocabulary = kVocabulary;
  model.scale = 1.5f;
  return model;
}

const std::vector<Token> kPrompt{0, 1, 2, 3, 4, 2, 0, 1};

struct Verdict {
  double excess = 0;  // of the chi-squared statistic over its bound
  std::int64_t drafted = 0, accepted = 0;
};

Verdict judge(std::shared_ptr<Decoder> decoder, Drafting::Script script = nullptr) {
  FakeRunner runner(small_model());
  const auto checked = std::make_shared<Drafting>(std::move(decoder), std::move(script));
  const int length = 500;
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < kDraws / length; ++i) requests.push_back(test::request(kPrompt, length, checked, i));
  Verdict verdict;
  std::vector<double> counts(kStates * kVocabulary), expected(kStates * kVocabulary);
  for (const GenerationResult& result : generate(runner, requests)) {
    verdict.drafted += result.drafted;
    verdict.accepted += result.accepted;
    for (std::size_t i = kBefore; i < result.tokens.size(); ++i) {
      const std::span<const Token> before(result.tokens.data() + i - kBefore, kBefore);
      const int state = (before[0] * kVocabulary + before[1]) * kVocabulary + before[2];
      const auto p = test::plain_softmax(runner.logits_after(before));
      for (Token v = 0; v < kVocabulary; ++v) expected[state * kVocabulary + v] += p[v];
      ++counts[state * kVocabulary + result.tokens[i]];
    }
  }
  REQUIRE(checked->misfits == 0);
  verdict.excess = test::chi_squared_excess(counts, expected, kStates);
  return verdict;
}

/// Drafts drawn from another model, with its probabilities: a chain, or a tree of two such chains from the same place.
Drafting::Script drawn_drafts(int k, int chains) {
  FakeModel other = small_model();
  other.seed = 77;
  return [k, chains, drafter = FakeRunner(other), rng = std::make_shared<Rng>(5)](const Sequence& s) {
    Draft draft;
    for (int chain = 0; chain < chains; ++chain) {
      std::vector<Token> text = s.tokens;
      for (int i = 0; i < k; ++i) {
        const auto q = test::plain_softmax(drafter.logits_after(text));
        text.push_back(draw(q, *rng));
        draft.parents.push_back(i == 0 ? -1 : static_cast<std::int32_t>(draft.tokens.size()) - 1);
        draft.tokens.push_back(text.back());
        draft.probabilities.insert(draft.probabilities.end(), q.begin(), q.end());
      }
    }
    return draft;
  };
}

/// The rule for chains once more, with faults to plant.
enum class Fault { none, unchecked, no_residual, wrong_row };
class Copy : public Decoder {
 public:
  explicit Copy(Fault fault) : fault_(fault) {}
  Accepted accept(Sequence& s, const Draft& draft, View<const float, 2> logits) override {
    Accepted accepted;
    for (std::size_t i = 0; i < draft.tokens.size(); ++i) {
      auto p = softmax(logits[i]);
      const float* q = draft.probabilities.data() + i * kVocabulary;
      const Token guess = draft.tokens[i];
      if (fault_ == Fault::unchecked && i == 0) {
        accepted.path.push_back(0);
        continue;
      }
      if (s.rng.uniform() >= p[guess] / q[guess]) {
        if (fault_ != Fault::no_residual) for (int v = 0; v < kVocabulary; ++v) p[v] = std::max(p[v] - q[v], 0.0);
        accepted.next = draw(p, s.rng);
        return accepted;
      }
      accepted.path.push_back(static_cast<std::int32_t>(i));
    }
    const auto bonus = static_cast<std::int64_t>(draft.tokens.size());
    accepted.next = draw(softmax(logits[fault_ == Fault::wrong_row && bonus > 0 ? bonus - 1 : bonus]), s.rng);
    return accepted;
  }

 private:
  Fault fault_;
};

}  // namespace

TEST_CASE("speculative: sampling's distribution (S02)") {
  CHECK(judge(make<Decoder>(spec_of("sampling"))).excess < 1);  // the yardstick itself
  for (const int k : {1, 4}) {
    INFO("k = " << k);
    const Verdict certain = judge(speculative(k, "sample"));  // lookup: no probabilities
    CHECK(certain.excess < 1);
    CHECK((certain.accepted > 10000 && certain.drafted - certain.accepted > 10000));
    const Verdict drawn = judge(speculative(k, "sample"), drawn_drafts(k, 1));
    CHECK(drawn.excess < 1);
    CHECK((drawn.accepted > 10000 && drawn.drafted - drawn.accepted > 10000));
  }
}

TEST_CASE("speculative: sampling's distribution from trees of drafts") {
  CHECK(judge(speculative(8, "sample"), drawn_drafts(2, 2)).excess < 1);
  const auto certain = [](const Sequence& s) {
    const Token t = s.tokens.back();
    return Draft{{(t + 1) % 5, (t + 2) % 5, t, (t + 3) % 5, t}, {-1, -1, 0, 0, 1}, {}};
  };
  CHECK(judge(speculative(8, "sample"), certain).excess < 1);
}

TEST_CASE("speculative: the test of the distribution sees planted faults") {
  CHECK(judge(std::make_shared<Copy>(Fault::none), drawn_drafts(4, 1)).excess < 1);
  CHECK(judge(std::make_shared<Copy>(Fault::unchecked), drawn_drafts(4, 1)).excess > 1);
  CHECK(judge(std::make_shared<Copy>(Fault::no_residual), drawn_drafts(4, 1)).excess > 1);
  CHECK(judge(std::make_shared<Copy>(Fault::wrong_row), drawn_drafts(1, 1)).excess > 1);
}

TEST_CASE("speculative: a draft that equals the model is always kept") {
  FakeRunner same(small_model());
  const auto oracle = [&](const Sequence& s) {
    Draft draft;
    std::vector<Token> text = s.tokens;
    Rng rng(s.tokens.size());
    for (int i = 0; i < 3; ++i) {
      const auto p = test::plain_softmax(same.logits_after(text));
      text.push_back(draw(p, rng));
      draft.tokens.push_back(text.back());
      draft.parents.push_back(i - 1);
      for (const double each : p) draft.probabilities.push_back(static_cast<float>(each));
    }
    return draft;
  };
  GenerationRequest r = test::request(kPrompt, 50, std::make_shared<Drafting>(speculative(3, "sample"), oracle));
  FakeRunner runner(small_model());
  const auto result = generate(runner, {&r, 1})[0];
  CHECK(result.drafted >= 36);
  CHECK(result.accepted == result.drafted);
}

TEST_CASE("speculative: wrong parameters are named") {
  CHECK_THROWS_WITH(make<Decoder>(spec_of("speculative", {{"k", "0"}})), Catch::Contains("k") && Catch::Contains("64"));
  CHECK_THROWS_WITH(make<Decoder>(spec_of("speculative", {{"accept", "lucky"}})), Catch::Contains("greedy, sample"));
  CHECK_THROWS_WITH(make<Decoder>(spec_of("speculative", {{"drafter", "oracle"}})), Catch::Contains("oracle"));
}

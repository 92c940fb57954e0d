// The step loop on a runner that forgives nothing. The decoders here are the test's own: the plugins have their own suite.
#include "generation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "fake_decoders.h"

using namespace patchbay;
using test::Drafting;
using test::FakeModel;
using test::FakeRunner;
using test::request;
using test::some_prompt;
using Finish = GenerationResult::Finish;

namespace {

/// Keeps the drafted tokens that are what argmax would have chosen, by walking the tree.
class KeepGreedy : public Decoder {
 public:
  Accepted accept(Sequence&, const Draft& draft, View<const float, 2> logits) override {
    Accepted accepted;
    std::int32_t node = -1;
    while (true) {
      accepted.next = argmax(logits[node + 1]);
      std::int32_t child = node + 1;
      const auto n = static_cast<std::int32_t>(draft.tokens.size());
      while (child < n && !(draft.parents[child] == node && draft.tokens[child] == accepted.next)) ++child;
      if (child == n) return accepted;
      accepted.path.push_back(node = child);
    }
  }
};

std::shared_ptr<Drafting> scripted(Drafting::Script script = nullptr) {
  return std::make_shared<Drafting>(std::make_shared<KeepGreedy>(), std::move(script));
}

/// What the model will say, every `wrong`-th token spoilt (0: none); a chain of n.
Draft oracle_chain(const FakeRunner& runner, const Sequence& s, int n, int wrong) {
  Draft draft;
  draft.tokens = runner.greedy(s.tokens, n);
  for (int i = 0; i < n; ++i) {
    draft.parents.push_back(i - 1);
    const bool spoil = wrong > 0 && (static_cast<int>(s.tokens.size()) + i) % wrong == 0;
    if (spoil) draft.tokens[i] = (draft.tokens[i] + 1) % runner.vocabulary();
  }
  return draft;
}

GenerationResult run_one(FakeRunner& runner, GenerationRequest r, const GenerationOptions& options = {}) {
  return generate(runner, {&r, 1}, options)[0];
}

}  // namespace

TEST_CASE("several requests together give what each gives alone, whatever the chunks") {
  for (const std::int64_t chunk : {1, 3, 7, 8192}) {
    FakeRunner runner;
    const auto shared = scripted();
    std::vector<GenerationRequest> requests;
    for (int i = 0; i < 4; ++i) requests.push_back(request(some_prompt(1 + 9 * i, i), 5 + 6 * i, i % 2 ? shared : scripted()));
    GenerationOptions options;
    options.max_batched_tokens = chunk;
    const auto results = generate(runner, requests, options);
    for (int i = 0; i < 4; ++i) {
      CHECK(results[i].tokens == runner.greedy(requests[i].prompt, 5 + 6 * i));
      CHECK(results[i].finish == Finish::length);
      CHECK(results[i].passes == 5 + 6 * i - 1);
      CHECK(results[i].prefill_seconds <= results[i].first_token_seconds);
    }
    CHECK(shared->misfits == 0);
    if (chunk == 8192) CHECK(shared->largest_group == 2);  // a decoder is asked once for all its sequences
    CHECK(runner.largest_step() <= std::max<std::int64_t>(chunk, 4));
    CHECK(runner.open_sequences() == 0);
  }
}

TEST_CASE("drafts change the number of passes, never the tokens") {
  FakeRunner runner;
  for (const int wrong : {0, 1, 2, 5}) {
    const auto decoder = scripted([&](const Sequence& s) { return oracle_chain(runner, s, 4, wrong); });
    const auto result = run_one(runner, request({1, 2, 3}, 41, decoder));
    CHECK(result.tokens == runner.greedy({1, 2, 3}, 41));
    CHECK(decoder->misfits == 0);
    CHECK(result.accepted <= result.drafted);
    CHECK(static_cast<std::int64_t>(result.tokens.size()) == 1 + result.passes + result.accepted);
    if (wrong == 0) CHECK((result.passes == 8 && result.accepted == result.drafted));  // 1 + 8 * 5
    if (wrong == 1) CHECK((result.passes == 40 && result.accepted == 0));
  }
}

TEST_CASE("a draft may be a tree: the branch that the model takes is kept") {
  FakeRunner runner;
  const auto decoder = scripted([&](const Sequence& s) {
    const Draft right = oracle_chain(runner, s, 3, 0);
    Draft tree;  // a wrong first branch, then the right one with a wrong leaf between
    const auto wrong = [&](Token t) { return (t + 1) % runner.vocabulary(); };
    tree.tokens = {wrong(right.tokens[0]), right.tokens[0], wrong(right.tokens[1]), right.tokens[1], right.tokens[2]};
    tree.parents = {-1, -1, 1, 1, 3};
    return tree;
  });
  const auto result = run_one(runner, request({5}, 30, decoder));
  CHECK(result.tokens == runner.greedy({5}, 30));
  CHECK(decoder->misfits == 0);
  CHECK(result.passes == 8);  // 1 + 7 * 4 + 1
}

namespace {

/// Keeps donated sequences; reuses the longest common beginning.
class Keeper : public KvPrefix {
 public:
  PrefixMatch match(std::span<const std::int32_t> tokens) override {
    PrefixMatch best;
    for (const auto& [id, text] : kept) {
      std::size_t n = 0;
      while (n < text.size() && n + 1 < tokens.size() && text[n] == tokens[n]) ++n;
      if (static_cast<std::int64_t>(n) > best.tokens) best = {id, static_cast<std::int64_t>(n)};
    }
    return best;
  }
  bool donate(SeqId seq, std::span<const std::int32_t> tokens) override {
    kept.emplace_back(seq, std::vector<Token>(tokens.begin(), tokens.end()));
    return true;
  }
  std::vector<std::pair<SeqId, std::vector<Token>>> kept;
};

}  // namespace

TEST_CASE("an end inside an accepted run ends the text there, and the cache agrees (S05)") {
  FakeRunner runner;
  const std::vector<Token> expected = runner.greedy({1, 2, 3}, 20);
  for (int cut = 0; cut < 12; ++cut) {
    const auto decoder = scripted([&](const Sequence& s) { return oracle_chain(runner, s, 5, 0); });
    GenerationRequest r = request({1, 2, 3}, 20, decoder);
    int seen = 0;
    std::vector<Token> streamed;
    r.on_token = [&](Token token) { streamed.push_back(token); };
    r.is_end = [&](Token) { return seen++ == cut; };
    Keeper kept;
    GenerationOptions options;
    options.prefix = &kept;
    const auto result = run_one(runner, r, options);
    CHECK(result.finish == Finish::stop);
    CHECK(result.tokens == std::vector<Token>(expected.begin(), expected.begin() + cut + 1));
    std::vector<Token> cached{1, 2, 3};
    cached.insert(cached.end(), result.tokens.begin(), result.tokens.end() - 1);
    CHECK(runner.text(kept.kept.at(0).first) == cached);
    CHECK(streamed == result.tokens);

    // The same place reached by max_tokens; a stop that falls on it is a stop.
    const auto by_length = run_one(runner, request({1, 2, 3}, cut + 1, decoder));
    CHECK(by_length.finish == Finish::length);
    CHECK(by_length.tokens == result.tokens);
    seen = 0;
    r.max_tokens = cut + 1;
    CHECK(run_one(runner, r).finish == Finish::stop);
  }
}

TEST_CASE("a finished sequence's cache is all tokens but the last emitted, and serves the next prompt") {
  FakeRunner runner;
  Keeper prefix;
  GenerationOptions options;
  options.prefix = &prefix;
  const auto drafting = scripted([&](const Sequence& s) { return oracle_chain(runner, s, 6, 4); });
  const auto first = run_one(runner, request({1, 2, 3}, 9, drafting), options);
  REQUIRE(prefix.kept.size() == 1);
  std::vector<Token> text{1, 2, 3};
  text.insert(text.end(), first.tokens.begin(), first.tokens.end() - 1);
  CHECK(prefix.kept[0].second == text);
  CHECK(runner.text(prefix.kept[0].first) == text);

  const std::int64_t before = runner.rows_run();
  text[8] = (text[8] + 1) % 16;  // shares eight tokens
  text.resize(12, 7);
  CHECK(run_one(runner, request(text, 1, scripted()), options).tokens == runner.greedy(text, 1));
  CHECK(runner.rows_run() - before == 4);
  CHECK(runner.open_sequences() == 2);  // both kept by the policy
}

TEST_CASE("a full cache makes sequences wait and changes no token") {
  const std::vector<int> lengths{20, 11, 6, 15};
  for (const std::int64_t capacity : {42, 45, 60, 80, 1000}) {
    FakeModel model;
    model.capacity = capacity;
    FakeRunner runner(model);
    const auto decoder = scripted([&](const Sequence& s) { return oracle_chain(runner, s, 3, 3); });
    std::vector<GenerationRequest> requests;
    for (int i = 0; i < 4; ++i) requests.push_back(request(some_prompt(lengths[i], i), 20 + i, decoder));
    const auto results = generate(runner, requests);
    for (int i = 0; i < 4; ++i) {
      CHECK(results[i].tokens == runner.greedy(requests[i].prompt, 20 + i));
      CHECK(results[i].finish == Finish::length);
    }
    CHECK(decoder->misfits == 0);
    CHECK(runner.open_sequences() == 0);
  }
}

TEST_CASE("a sequence that does not fit alone ends, and the others lose nothing") {
  FakeModel model;
  model.capacity = 30;
  FakeRunner runner(model);
  SECTION("it has output: it keeps it") {
    const auto result = run_one(runner, request(some_prompt(20, 1), 100, scripted()));
    CHECK(result.finish == Finish::full);
    CHECK(result.tokens == runner.greedy(some_prompt(20, 1), 11));  // 30 cached, and one more
  }
  SECTION("a prompt: an error with both numbers, after the others") {
    std::vector<GenerationRequest> requests;
    for (const int length : {8, 40, 9}) requests.push_back(request(some_prompt(length, 1), 6, scripted()));
    std::vector<GenerationResult> finished;
    for (auto& r : requests) r.on_finish = [&](const GenerationResult& result) { finished.push_back(result); };
    CHECK_THROWS_WITH(generate(runner, requests), Catch::Contains("request 1: the prompt has 40 tokens and the cache took 0"));
    REQUIRE(finished.size() == 3);
    for (const auto& result : finished) {
      if (result.finish == Finish::full) CHECK(result.tokens.empty());
      else CHECK(result.tokens.size() == 6);
    }
    CHECK(runner.open_sequences() == 0);
  }
}

TEST_CASE("the context's end is an end like max_tokens") {
  FakeModel model;
  model.context = 16;
  FakeRunner runner(model);
  const auto decoder = scripted([&](const Sequence& s) { return oracle_chain(runner, s, 6, 0); });
  CHECK(run_one(runner, request(some_prompt(10, 1), 100, decoder)).tokens == runner.greedy(some_prompt(10, 1), 7));
  CHECK(run_one(runner, request(some_prompt(16, 1), 100, decoder)).tokens == runner.greedy(some_prompt(16, 1), 1));
  CHECK_THROWS_WITH(run_one(runner, request(some_prompt(17, 1), 1, scripted())), Catch::Contains("17 tokens and the context 16"));
  CHECK(run_one(runner, request({1}, 0, scripted())).tokens.empty());
}

namespace {

/// Knows the text as pushed, and that the logits it gets are the model's for just that text; forbids one token by position.
class Watcher : public LogitsProcessor {
 public:
  explicit Watcher(const FakeRunner& runner) : runner_(runner) {}
  void push(Token token) override { text.push_back(token); }
  void rollback(std::int64_t n) override { text.resize(text.size() - n); }
  void apply(View<float, 1> logits) override {
    const auto expected = runner_.logits_after(text);
    for (int v = 0; v < runner_.vocabulary(); ++v) if (logits[v] != expected[v]) ++misfits;
    logits[argmax(logits)] = -std::numeric_limits<float>::infinity();
  }
  std::vector<Token> text;
  int misfits = 0;

 private:
  const FakeRunner& runner_;
};

}  // namespace

TEST_CASE("processors see the text that each row stands for, and a copy of the logits") {
  FakeRunner runner;
  const auto second_best = [&](std::vector<Token> text, int n) {
    std::vector<Token> out;
    for (int i = 0; i < n; ++i) {
      auto logits = runner.logits_after(text);
      *std::max_element(logits.begin(), logits.end()) = -100;
      out.push_back(static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      text.push_back(out.back());
    }
    return out;
  };
  int calls = 0;
  const auto drafting = scripted([&](const Sequence& s) {
    const auto right = second_best(s.tokens, 3);
    if (++calls % 2) return Draft{right, {-1, 0, 1}, {}};
    return Draft{{(right[0] + 1) % 16, right[0], (right[1] + 1) % 16, right[1]}, {-1, -1, 0, 1}, {}};
  });
  GenerationRequest r = request({3, 1}, 25, drafting);
  const auto watcher = std::make_shared<Watcher>(runner);
  r.processors = {watcher};
  const auto result = run_one(runner, r);
  CHECK(result.tokens == second_best({3, 1}, 25));
  CHECK(result.accepted > 10);
  CHECK(watcher->misfits == 0);
  CHECK(watcher->text.size() == 27);
  CHECK(drafting->misfits == 0);
}

namespace {

class Dropping : public KvRetention {
 public:
  explicit Dropping(bool drops) : drops_(drops) {}
  std::vector<std::int32_t> victims(SeqId, std::int64_t length) override {
    lengths.push_back(length);
    return drops_ ? std::vector<std::int32_t>{0} : std::vector<std::int32_t>{};
  }
  std::vector<std::int64_t> lengths;

 private:
  bool drops_;
};

}  // namespace

TEST_CASE("the retention policy is asked after every step; one that drops tokens is refused") {
  FakeRunner runner;
  Dropping keeps(false), drops(true);
  GenerationOptions options;
  options.retention = &keeps;
  run_one(runner, request({1, 2, 3}, 3, scripted()), options);
  CHECK(keeps.lengths == std::vector<std::int64_t>{3, 4, 5});
  options.retention = &drops;
  CHECK_THROWS_WITH(run_one(runner, request({1, 2, 3}, 3, scripted()), options),
                    Catch::Contains("kv_retention: the policy drops 1 of 3"));
  CHECK(runner.open_sequences() == 0);  // nothing stays behind an exception
}

TEST_CASE("misuse is an error that says what") {
  FakeRunner runner;
  CHECK_THROWS_WITH(run_one(runner, request({}, 3, scripted())), Catch::Contains("the prompt is empty"));
  GenerationRequest none = request({1}, 3, scripted());
  none.decoder = nullptr;
  CHECK_THROWS_WITH(run_one(runner, none), Catch::Contains("no decoder"));
  GenerationOptions options;
  options.max_batched_tokens = 0;
  CHECK_THROWS_WITH(run_one(runner, request({1}, 3, scripted()), options), Catch::Contains("max_batched_tokens"));
  CHECK_THROWS_WITH(run_one(runner, request({16}, 3, scripted())), Catch::Contains("outside the vocabulary"));
  const auto forward = scripted([](const Sequence&) { return Draft{{1, 2}, {1, -1}, {}}; });
  CHECK_THROWS_WITH(run_one(runner, request({1}, 9, forward)), Catch::Contains("a draft that is no tree"));
  const auto lacking = scripted([](const Sequence&) { return Draft{{1, 2}, {-1, 0}, {0.5f}}; });
  CHECK_THROWS_WITH(run_one(runner, request({1}, 9, lacking)), Catch::Contains("a draft that is no tree"));
  struct Jumping : Decoder {
    Accepted accept(Sequence&, const Draft& draft, View<const float, 2>) override {
      Accepted accepted;
      if (!draft.tokens.empty()) accepted.path = {1};
      return accepted;
    }
  };
  const auto jumping =
      std::make_shared<Drafting>(std::make_shared<Jumping>(), [](const Sequence&) { return Draft{{1, 2}, {-1, 0}, {}}; });
  CHECK_THROWS_WITH(run_one(runner, request({1}, 9, jumping)), Catch::Contains("it kept draft token 1 after -1"));
  CHECK(runner.open_sequences() == 0);
}

TEST_CASE("argmax, softmax and draw") {
  const float inf = std::numeric_limits<float>::infinity();
  const auto row = [](std::vector<float>& v) { return View<const float, 1>(v.data(), {static_cast<std::int64_t>(v.size())}); };
  std::vector<float> ties{1, 3, 3, -inf}, forbidden{-inf, -inf}, broken{1, std::nanf("")}, large{1e30f, inf, 5};
  CHECK(argmax(row(ties)) == 1);
  CHECK_THROWS_WITH(argmax(row(forbidden)), Catch::Contains("every token is forbidden"));
  CHECK_THROWS_WITH(softmax(row(broken)), Catch::Contains("token 1 is not a number"));
  const auto p = softmax(row(ties));
  const double e = std::exp(-2.0);
  CHECK(p[0] == Approx(e / (2 + e)));
  CHECK(p[1] == p[2]);
  CHECK(p[3] == 0);
  CHECK(softmax(row(large)) == std::vector<double>{0, 1, 0});

  Rng rng(3), same(3);
  const std::vector<double> weights{0, 2, 0, 6, 0};
  int counts[5] = {};
  for (int i = 0; i < 20000; ++i) {
    const Token token = draw(weights, rng);
    CHECK(token == draw(weights, same));
    ++counts[token];
  }
  CHECK(counts[0] + counts[2] + counts[4] == 0);
  CHECK(std::abs(counts[1] - 5000) < 250);  // four standard deviations
  CHECK_THROWS_WITH(draw(std::vector<double>{0, 0}, rng), Catch::Contains("the weights sum to 0"));
}

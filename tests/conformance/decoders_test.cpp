// What every decoder must do, over every one found and each value of its parameters.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "fake_decoders.h"
#include "plugin_variants.h"

using namespace patchbay;
using test::Drafting;
using test::FakeRunner;
using test::request;
using test::some_prompt;
using test::spec_of;

namespace {

/// Forbids every token but those that `allowed` picks from the row.
class Only : public LogitsProcessor {
 public:
  explicit Only(std::function<bool(View<const float, 1>, Token)> allowed) : allowed_(std::move(allowed)) {}
  void apply(View<float, 1> logits) override {
    std::vector<bool> stays;
    for (Token v = 0; v < logits.shape[0]; ++v) stays.push_back(allowed_(logits, v));
    for (Token v = 0; v < logits.shape[0]; ++v) if (!stays[v]) logits[v] = -std::numeric_limits<float>::infinity();
  }

 private:
  std::function<bool(View<const float, 1>, Token)> allowed_;
};

/// A random tree of drafts, some of it what the model would say.
Drafting::Script random_trees(const FakeRunner& runner) {
  return [&runner](const Sequence& s) {
    Rng rng(s.tokens.size() * 31 + s.tokens.back());
    Draft draft;
    for (int i = static_cast<int>(rng.uniform() * 9) - 1; i >= 0; --i) {
      const auto parent = static_cast<std::int32_t>(rng.uniform() * (draft.tokens.size() + 1.0)) - 1;
      std::vector<Token> tail;
      for (std::int32_t a = parent; a >= 0; a = draft.parents[a]) tail.insert(tail.begin(), draft.tokens[a]);
      std::vector<Token> text = s.tokens;
      text.insert(text.end(), tail.begin(), tail.end());
      const bool right = rng.uniform() < 0.6;
      draft.tokens.push_back(right ? runner.greedy(text, 1)[0] : static_cast<Token>(rng.uniform() * runner.vocabulary()));
      draft.parents.push_back(parent);
    }
    return draft;
  };
}

GenerationResult run_one(FakeRunner& runner, GenerationRequest r, std::int64_t chunk = 8192) {
  GenerationOptions options;
  options.max_batched_tokens = chunk;
  return generate(runner, {&r, 1}, options)[0];
}

}  // namespace

TEST_CASE("decoders: where one token is allowed, it comes") {
  FakeRunner runner;
  for (const auto& variant : test::variants("decoders")) {
    INFO(variant.label);
    const auto decoder = std::make_shared<Drafting>(make<Decoder>(variant.spec));
    GenerationRequest r = request(some_prompt(9, 2), 60, decoder);
    r.processors = {std::make_shared<Only>([](View<const float, 1> row, Token v) { return v == argmax(row); })};
    const auto result = run_one(runner, r);
    CHECK(result.tokens == runner.greedy(r.prompt, 60));
    CHECK(result.passes + result.accepted == 59);
    CHECK(decoder->misfits == 0);
  }
}

TEST_CASE("decoders: a forbidden token never comes, from any draft") {
  FakeRunner runner;
  for (const auto& variant : test::variants("decoders")) {
    for (const bool trees : {false, true}) {
      INFO(variant.label << (trees ? ", random trees" : ""));
      const auto decoder = std::make_shared<Drafting>(make<Decoder>(variant.spec), trees ? random_trees(runner) : nullptr);
      const bool drafts = variant.spec.type == "speculative";  // others know no drafts: they keep none
      GenerationRequest r = request(some_prompt(9, 5), 200, decoder);
      r.processors = {std::make_shared<Only>([](View<const float, 1>, Token v) { return v % 3 != 0; })};
      const auto result = run_one(runner, r);
      CHECK(std::none_of(result.tokens.begin(), result.tokens.end(), [](Token v) { return v % 3 == 0; }));
      CHECK(decoder->misfits == 0);
      if (trees) CHECK((result.accepted > 0) == drafts);
    }
  }
}

TEST_CASE("decoders: alone, in a batch of four, in chunks: the same tokens") {
  const std::vector<PluginSpec> others{spec_of("sampling"), spec_of("speculative", {{"k", "4"}}),
                                       spec_of("speculative", {{"k", "8"}, {"accept", "sample"}})};
  const auto make_request = [](const PluginSpec& spec, int i) {
    GenerationRequest r = request(some_prompt(3 + 8 * i, i), 50 + 3 * i, make<Decoder>(spec), 7 + i);
    r.processors = {make<LogitsProcessor>(spec_of("temperature")), make<LogitsProcessor>(spec_of("top_k", {{"k", "9"}})),
                    make<LogitsProcessor>(spec_of("top_p"))};
    return r;
  };
  for (const auto& variant : test::variants("decoders")) {
    INFO(variant.label);
    FakeRunner runner;
    std::vector<PluginSpec> specs = others;
    specs.insert(specs.begin(), variant.spec);
    std::vector<GenerationResult> alone;
    for (int i = 0; i < 4; ++i) alone.push_back(run_one(runner, make_request(specs[i], i)));
    for (const std::int64_t chunk : {1, 5, 8192}) {
      std::vector<GenerationRequest> together;
      for (int i = 0; i < 4; ++i) together.push_back(make_request(specs[i], i));
      GenerationOptions options;
      options.max_batched_tokens = chunk;
      const auto results = generate(runner, together, options);
      for (int i = 0; i < 4; ++i) {
        CHECK(results[i].tokens == alone[i].tokens);
        CHECK(results[i].passes == alone[i].passes);
      }
    }
  }
}

TEST_CASE("decoders: the seed decides, and only where chance is asked for") {
  FakeRunner runner;
  const auto text = [&](const PluginSpec& spec, std::uint64_t seed) {
    return run_one(runner, request(some_prompt(9, 3), 40, make<Decoder>(spec), seed)).tokens;
  };
  for (const auto& variant : test::variants("decoders")) {
    INFO(variant.label);
    CHECK(text(variant.spec, 1) == text(variant.spec, 1));
  }
  CHECK(text(spec_of("sampling"), 1) != text(spec_of("sampling"), 2));
  CHECK(text(spec_of("greedy"), 1) == text(spec_of("greedy"), 2));
}

TEST_CASE("decoders: greedy, sampling and speculation in one batch, each as it should be") {
  FakeRunner runner;
  std::vector<std::shared_ptr<Drafting>> decoders;
  for (const PluginSpec& spec : {spec_of("greedy"), spec_of("sampling"), spec_of("speculative", {{"k", "4"}}),
                                 spec_of("speculative", {{"k", "8"}})}) {
    decoders.push_back(std::make_shared<Drafting>(make<Decoder>(spec)));
  }
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 4; ++i) requests.push_back(request(some_prompt(10, 1), 80, decoders[i]));
  const auto results = generate(runner, requests);
  const auto expected = runner.greedy(requests[0].prompt, 80);
  CHECK(results[0].tokens == expected);
  CHECK(results[1].tokens != expected);
  CHECK(results[2].tokens == expected);
  CHECK(results[3].tokens == expected);
  CHECK(results[0].passes == 79);
  CHECK(results[3].passes < results[2].passes);
  CHECK(results[2].passes < 50);
  for (const auto& decoder : decoders) CHECK(decoder->misfits == 0);
}

namespace {

/// A runner that draws, as a GPU does: by what TokenDraw says, written once more.
class DrawingRunner : public FakeRunner {
 public:
  using FakeRunner::FakeRunner;
  int draws_made = 0;

  bool draws() const override { return true; }
  Step forward_and_draw(std::span<const TokenRow> rows, std::span<const TokenDraw> draws) override {
    Step step = forward(rows);
    if (step.full) return step;
    REQUIRE(step.logits.shape[0] == static_cast<std::int64_t>(draws.size()));
    tokens_.clear();
    for (std::size_t i = 0; i < draws.size(); ++i) tokens_.push_back(drawn(step.logits[i], draws[i]));
    draws_made += static_cast<int>(draws.size());
    step.drawn = tokens_;
    step.logits = {};
    return step;
  }

 private:
  static Token drawn(View<const float, 1> logits, const TokenDraw& draw) {
    std::vector<Token> order(logits.shape[0]);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](Token a, Token b) { return logits[a] > logits[b]; });
    if (draw.temperature == 0) return order[0];
    const double largest = logits[order[0]] / draw.temperature;
    const auto weight = [&](Token t) { return std::exp(double{logits[t] / draw.temperature} - largest); };
    if (draw.top_k > 0) order.resize(std::min<std::size_t>(order.size(), draw.top_k));
    double total = 0, kept = 0;
    for (const Token t : order) total += weight(t);
    std::size_t n = 0;
    while (n < order.size() && (n == 0 || kept / total < draw.top_p)) kept += weight(order[n++]);
    order.resize(n);
    std::sort(order.begin(), order.end());
    double cumulative = 0;
    for (const Token t : order) {
      if (draw.uniform * kept < (cumulative += weight(t))) return t;
    }
    return order.back();
  }

  std::vector<Token> tokens_;
};

std::vector<std::vector<Token>> texts(FakeRunner& runner, const std::string& decoder, const std::vector<std::vector<PluginSpec>>& chains) {
  std::vector<GenerationRequest> requests;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    requests.push_back(request(some_prompt(3, static_cast<int>(i)), 30, make<Decoder>(spec_of(decoder)), 7));
    requests.back().stream = i;
    for (const PluginSpec& spec : chains[i]) requests.back().processors.push_back(make<LogitsProcessor>(spec));
  }
  std::vector<std::vector<Token>> all;
  for (const GenerationResult& result : generate(runner, requests)) all.push_back(result.tokens);
  return all;
}

}  // namespace

TEST_CASE("decoders: a runner that draws chooses the tokens that they would choose") {
  const PluginSpec warm = spec_of("temperature", {{"value", "1.7"}}), few = spec_of("top_k", {{"k", "5"}}), mass = spec_of("top_p", {{"p", "0.8"}});
  const std::vector<std::vector<PluginSpec>> chains = {{}, {warm}, {few}, {mass}, {warm, few}, {warm, few, mass}, {few, mass}};
  for (const std::int64_t capacity : {std::int64_t{1} << 20, std::int64_t{90}}) {  // also where steps are full and tried again
    test::FakeModel model;
    model.capacity = capacity;
    for (const char* decoder : {"greedy", "sampling", "speculative"}) {
      INFO(decoder << ", capacity " << capacity);
      FakeRunner host(model);
      DrawingRunner device(model);
      CHECK(texts(device, decoder, chains) == texts(host, decoder, chains));
      CHECK(device.draws_made >= 30 * 7);
    }
  }
}

TEST_CASE("decoders: a chain that a draw cannot say, or a decoder that wants logits, leaves the choice to the host") {
  const PluginSpec warm = spec_of("temperature", {{"value", "1.7"}}), few = spec_of("top_k", {{"k", "5"}}), mass = spec_of("top_p", {{"p", "0.8"}});
  const std::vector<std::vector<PluginSpec>> others = {{few, warm}, {mass, few}, {warm, warm}, {mass, mass}};
  for (const auto& chain : others) {
    FakeRunner host;
    DrawingRunner device;
    CHECK(texts(device, "sampling", {chain}) == texts(host, "sampling", {chain}));
    CHECK(device.draws_made == 0);
  }
  DrawingRunner device;
  auto one = request(some_prompt(3, 1), 10, make<Decoder>(spec_of("speculative", {{"accept", "sample"}})));
  generate(device, {&one, 1});
  CHECK(device.draws_made == 0);
  FakeRunner plain;
  CHECK_THROWS_AS(plain.forward_and_draw({}, {}), Error);
}

// The model that comes with patchbay against transformers, tokenizers and llama.cpp (tests/golden/tiny_shakespeare): the whole way
// from text to tokens, logits and perplexity, without a network.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "experiment/evaluation.h"
#include "model_support.h"

using namespace patchbay;
using namespace patchbay::test;
using nlohmann::json;

namespace {

const json& expected() {
  static const json read = json::parse(read_file(source_path("tests/golden/tiny_shakespeare/expected.json")));
  return read;
}

/// The only place where another order of float operations may choose another token.
constexpr double kNearTie = 1e-3;

void check_greedy(Session& s, const json& prompt, const std::string& decoder) {
  const auto wanted = prompt.at("greedy").get<std::vector<Token>>();
  GenerationRequest made = request(s, prompt.at("ids").get<std::vector<Token>>(), decoder, std::ssize(wanted));
  const auto tokens = generate(s.runner(), {&made, 1})[0].tokens;
  const auto differs = std::mismatch(tokens.begin(), tokens.end(), wanted.begin(), wanted.end()).second - wanted.begin();
  INFO(decoder << ": " << prompt.at("name") << ", token " << differs);
  if (differs < std::ssize(wanted)) CHECK(prompt.at("margins").at(differs).get<double>() < kNearTie);
}

}  // namespace

TEST_CASE("tiny-shakespeare: tokens are those of Hugging Face's tokenizers, and decode to the text") {
  const auto tokenizer = make_tokenizer(*ModelFile::open(tiny_shakespeare().path));
  const json& texts = expected().at("texts");
  REQUIRE(texts.size() > 15);
  for (const json& one : texts) {
    const auto text = one.at("text").get<std::string>();
    INFO(text);
    const auto tokens = tokenizer->encode(text, false, false);
    CHECK(tokens == one.at("ids").get<std::vector<Token>>());
    CHECK(tokenizer->decode(tokens) == text);
  }
  CHECK(tokenizer->encode("a", true, true).front() == tokenizer->bos());
  CHECK(tokenizer->encode("<|begin|><|end|>", true, false) == std::vector<Token>{tokenizer->bos(), tokenizer->eos()});
}

TEST_CASE("tiny-shakespeare: logits agree with transformers in fp32 to 1e-3") {
  const auto model = tiny_shakespeare();
  REQUIRE(expected().at("prompts").size() > 4);
  for (const auto& pairing : model.pairings) {
    for (const json& prompt : expected().at("prompts")) {
      INFO(name_of(pairing) << ": " << prompt.at("name"));
      const auto logits = last_logits(session(model, pairing).runner(), prompt.at("ids").get<std::vector<Token>>());
      CHECK(distance(logits, prompt.at("logits").get<std::vector<float>>()) < 1e-3);
    }
  }
}

TEST_CASE("tiny-shakespeare: greedy tokens equal transformers' and llama.cpp's, drafted or not") {
  const auto model = tiny_shakespeare();
  for (const auto& pairing : model.pairings) {
    INFO(name_of(pairing));
    for (const json& prompt : expected().at("prompts"))
      for (const char* decoder : {"greedy", "{type: speculative, k: 4, drafter: lookup}"}) check_greedy(session(model, pairing), prompt, decoder);
  }
}

TEST_CASE("tiny-shakespeare: the perplexity of its evaluation text is torch's") {
  const auto model = tiny_shakespeare();
  const json& golden = expected().at("perplexity");
  for (const auto& pairing : {model.pairings.front(), model.pairings.back()}) {
    Session& s = session(model, pairing);
    const auto text = evaluation_text(s.tokenizer(), source_path("data/tiny-shakespeare/evaluation.txt"));
    const auto protocol = protocol_named("patchbay", golden.at("window"));
    const auto perplexity = perplexity_of(score(scored_model(s), text, protocol, {.windows = windows_in(text, protocol, 0)}));
    INFO(name_of(pairing));
    CHECK(perplexity.tokens == golden.at("tokens").get<std::int64_t>());
    CHECK(perplexity.value == Approx(golden.at("value").get<double>()).epsilon(1e-5));
  }
}

TEST_CASE("tiny-shakespeare: KL divergence grows with the square of a planted error (format noise)") {
  const auto file = ModelFile::open(tiny_shakespeare().path);
  const auto probabilities = [&](const std::string& size) {
    const Settings settings = parse_yaml("activations: fp32\nweights: {quantizer: rtn, format: {type: noise, storage: fp32, size: " + size + "}}", "test");
    Session noisy(file, read_run_config(settings), SessionOptions{512, 1});
    auto tokens = noisy.tokenizer().encode(read_file(source_path("data/tiny-shakespeare/evaluation.txt")).substr(0, 1500), true, false);
    tokens.resize(256);
    const SeqId seq = noisy.runner().open();
    const Step step = noisy.runner().forward(chain(seq, tokens, true));
    std::vector<std::vector<double>> rows;
    for (std::int64_t t = 0; t < std::ssize(tokens); ++t) {
      std::vector<double> row;
      double total = 0;
      for (const float logit : copied(step.logits[t])) total += row.emplace_back(std::exp(static_cast<double>(logit)));
      for (double& p : row) p /= total;
      rows.push_back(std::move(row));
    }
    return rows;
  };
  const auto exact = probabilities("0");
  const auto divergence = [&](const std::string& size) {
    const auto noisy = probabilities(size);
    double sum = 0;
    for (std::size_t t = 0; t < exact.size(); ++t)
      for (std::size_t i = 0; i < exact[t].size(); ++i) if (exact[t][i] > 0) sum += exact[t][i] * std::log(exact[t][i] / noisy[t][i]);
    return sum / static_cast<double>(exact.size());
  };
  const double small = divergence("0.005"), middle = divergence("0.02"), large = divergence("0.08");
  INFO("KL " << small << ", " << middle << ", " << large);
  CHECK(middle / small == Approx(16).epsilon(0.25));
  CHECK(large / middle == Approx(16).epsilon(0.35));
}

// Gemma 3 270M, stored as Q4_K_M (Q4_K, Q6_K, Q5_0 and Q8_0 mixed), against what llama.cpp gives for the same weights in fp32
// (../shared/reference).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiment/evaluation.h"
#include "model_support.h"

using namespace patchbay;
using namespace patchbay::test;
using nlohmann::json;

namespace {

const Pairing kPairing = {"paged", "flash"};
TrainedModel gemma3() { return {model_path("gemma-3-270m-q4_k_m.gguf"), {kPairing}}; }
json cases_of(const std::string& reference) { return json::parse(read_file(reference)).at("cases"); }

}  // namespace

TEST_CASE("Gemma 3: logits agree with llama.cpp in fp32 to 0.015") {
  const std::string model = gemma3().path, reference = shared_path("reference/gemma3-logits-dequant-f32.json");
  PATCHBAY_NEEDS(model, "the Gemma 3 file");
  PATCHBAY_NEEDS(reference, "../shared/reference");
  const json cases = cases_of(reference);
  REQUIRE(cases.size() >= 3);
  for (const json& one : cases) {
    INFO(one.at("prompt"));
    const auto logits = last_logits(session(gemma3(), kPairing).runner(), one.at("prompt_ids").get<std::vector<Token>>());
    const json& top = one.at("top10_kv_f32_no_fa");
    for (int i = 0; i < 10; ++i) {
      INFO("token " << top[i][0] << ": " << logits.at(top[i][0].get<int>()) << ", llama.cpp " << top[i][1]);
      CHECK(std::abs(logits.at(top[i][0].get<int>()) - top[i][1].get<double>()) < 0.015);
    }
    CHECK(std::max_element(logits.begin(), logits.end()) - logits.begin() == top[0][0].get<int>());
  }
}

TEST_CASE("Gemma 3: greedy tokens equal llama.cpp's in fp32, but for near-ties") {
  const std::string model = gemma3().path, reference = shared_path("reference/gemma3-greedy-dequant-f32.json");
  PATCHBAY_NEEDS(model, "the Gemma 3 file");
  PATCHBAY_NEEDS(reference, "../shared/reference");
  const json cases = cases_of(reference);
  REQUIRE(cases.size() >= 5);
  Session& s = session(gemma3(), kPairing);
  for (const json& one : cases) {
    const auto wanted = one.at("ids_kv_f32_no_fa").get<std::vector<Token>>();
    GenerationRequest made = request(s, one.at("prompt_ids").get<std::vector<Token>>(), "greedy", std::ssize(wanted));
    const auto tokens = generate(s.runner(), {&made, 1})[0].tokens;
    const auto differs = std::mismatch(tokens.begin(), tokens.end(), wanted.begin(), wanted.end()).second - wanted.begin();
    INFO(one.at("prompt") << ", token " << differs);
    if (differs < std::ssize(wanted)) CHECK(one.at("margin_top1_top2").at(differs).get<double>() < 0.03);
  }
}

TEST_CASE("Gemma 3 reads raw WikiText-2 as llama.cpp does, with activations in 8 bits") {
  const std::string model = gemma3().path, text_path = shared_path("data/wikitext2-test-raw.txt");
  PATCHBAY_NEEDS(model, "the Gemma 3 file");
  PATCHBAY_NEEDS(text_path, "WikiText-2's test text");
  Session session(ModelFile::open(model), read_run_config(parse_yaml("activations: q8", "test")), {512, 1});
  const auto text = evaluation_text(session.tokenizer(), text_path);
  const auto scores = score(scored_model(session), text, protocol_named("llama.cpp", 512), {.windows = 20});
  const auto perplexity = perplexity_of(scores);
  CHECK(perplexity.tokens == 5100);
  CHECK(perplexity.value == Approx(19.064).epsilon(0.005));  // its 20 windows, ../shared/reference/peers.md
  CHECK(perplexity.standard_error == Approx(0.841).epsilon(0.01));
}

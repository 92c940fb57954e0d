// SmolLM2 against what llama.cpp gives for the same weights in fp32 (../shared/reference).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model_support.h"

using namespace patchbay;
using namespace patchbay::test;
using nlohmann::json;

TEST_CASE("SmolLM2: logits agree with llama.cpp in fp32 to 0.01") {
  const std::string model = smollm2_path(), reference = shared_path("reference/smollm2-logits-dequant-f32.json");
  PATCHBAY_NEEDS(model, "the SmolLM2 file");
  PATCHBAY_NEEDS(reference, "../shared/reference");
  const json cases = json::parse(read_file(reference)).at("cases");
  REQUIRE(cases.size() >= 3);
  for (const auto& pairing : smollm2().pairings) {
    for (const json& one : cases) {
      INFO(name_of(pairing) << ": " << one.at("prompt"));
      const auto logits = last_logits(session(smollm2(), pairing).runner(), one.at("prompt_ids").get<std::vector<Token>>());
      const json& top = one.at("top10_kv_f32_no_fa");
      for (int i = 0; i < 5; ++i) CHECK(std::abs(logits.at(top[i][0].get<int>()) - top[i][1].get<double>()) < 0.01);
      CHECK(std::max_element(logits.begin(), logits.end()) - logits.begin() == top[0][0].get<int>());
    }
  }
}

TEST_CASE("SmolLM2: greedy tokens equal llama.cpp's in fp32, but for near-ties") {
  const std::string model = smollm2_path(), reference = shared_path("reference/smollm2-greedy-dequant-f32.json");
  PATCHBAY_NEEDS(model, "the SmolLM2 file");
  PATCHBAY_NEEDS(reference, "../shared/reference");
  const json cases = json::parse(read_file(reference)).at("cases");
  REQUIRE(cases.size() >= 5);
  const auto pairings = smollm2().pairings;
  const std::vector<std::pair<Pairing, std::string>> runs = {{pairings[0], "greedy"},
                                                             {pairings[1], "{type: speculative, k: 4, drafter: lookup}"}};
  for (const auto& [pairing, decoder] : runs) {
    Session& s = session(smollm2(), pairing);
    for (const json& one : cases) {
      const auto wanted = one.at("ids_kv_f32_no_fa").get<std::vector<Token>>();
      GenerationRequest made = request(s, one.at("prompt_ids").get<std::vector<Token>>(), decoder, std::ssize(wanted));
      const auto tokens = generate(s.runner(), {&made, 1})[0].tokens;
      const auto differs = std::mismatch(tokens.begin(), tokens.end(), wanted.begin(), wanted.end()).second - wanted.begin();
      INFO(name_of(pairing) << " + " << decoder << ": " << one.at("prompt") << ", token " << differs);
      if (differs < std::ssize(wanted)) CHECK(one.at("margin_top1_top2").at(differs).get<double>() < 0.02);
    }
  }
}

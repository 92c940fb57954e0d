// patchbay generate: continues a prompt, streaming.
#include "generation.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "experiment/emulated.h"
#include "experiment/text_table.h"
#include "idle_processors.h"
#include "session_generation.h"

namespace patchbay::app {
namespace {

nlohmann::json as_json(const std::vector<Token>& prompt, const GenerationResult& result, const Tokenizer& tokenizer) {
  Utf8Stream text;
  std::string joined;
  for (const Token token : result.tokens) joined += text.push(tokenizer.piece(token, false));
  joined += text.finish();
  return {{"prompt_tokens", prompt},
          {"tokens", result.tokens},
          {"text", joined},
          {"finish", name_of(result.finish)},
          {"passes", result.passes},
          {"drafted", result.drafted},
          {"accepted", result.accepted}};
}

void print_summary(Session& session, const std::vector<Token>& prompt, const GenerationResult& result) {
  const double tokens = static_cast<double>(result.tokens.size());
  fmt::print(stderr, "\n{} in {:.2f} s; {} in {:.2f} s ({:.1f} tokens/s{})", counted(std::ssize(prompt), "prompt token"), result.prefill_seconds,
             counted(std::ssize(result.tokens), "token"), result.decode_seconds, result.decode_seconds > 0 ? (tokens - 1) / result.decode_seconds : 0.0,
             emulated_device(session).empty() ? "" : ", EMULATED: no GPU's speed");
  if (result.drafted > 0) {
    fmt::print(stderr, "; {} of {} draft tokens accepted, {:.2f} tokens per pass", result.accepted, result.drafted,
               (tokens - 1) / static_cast<double>(result.passes));
  }
  if (result.finish == GenerationResult::Finish::full) fmt::print(stderr, "; ended early: the cache is full");
  fmt::print(stderr, "\n");
}

}  // namespace

int generate(const GenerateOptions& options) {
  if (options.max_tokens < 1) throw Error("--max-tokens", "is " + std::to_string(options.max_tokens), "1 or more");
  const auto [prompt, session] = open_prompted(options.model, options.prompt, options.prompt_file, options.tokens, options.max_tokens);
  const Tokenizer& tokenizer = session->tokenizer();
  if (const std::string idle = idle_processors(*session); !idle.empty()) fmt::print(stderr, "patchbay: note: {}\n", idle);
  Utf8Stream stream;
  GenerationRequest request = generation_request(*session, prompt, options.max_tokens);
  request.seed = options.seed;
  if (!options.ignore_end) request.is_end = [&](Token token) { return tokenizer.is_end_of_generation(token); };
  if (!options.model.json) {
    request.on_token = [&](Token token) {
      std::fputs(stream.push(tokenizer.piece(token, false)).c_str(), stdout);
      std::fflush(stdout);
    };
  }
  const GenerationResult result = patchbay::generate(session->runner(), {&request, 1}, generation_options(*session))[0];
  if (options.model.json) {
    fmt::print("{}\n", as_json(prompt, result, tokenizer).dump());
  } else {
    std::fputs((stream.finish() + "\n").c_str(), stdout);
    print_summary(*session, prompt, result);
  }
  return 0;
}

}  // namespace patchbay::app

// patchbay bench: how fast one configuration reads a prompt and decodes after it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "experiment/bootstrap.h"
#include "experiment/emulated.h"
#include "experiment/environment.h"
#include "experiment/metrics.h"
#include "experiment/predictions.h"
#include "experiment/text_table.h"
#include "session_generation.h"

namespace patchbay::app {
namespace {

/// Valid tokens without meaning, the same in every run: speed does not depend on which they are.
std::vector<Token> random_prompt(int vocabulary, std::int64_t length) {
  Rng rng(1);
  std::vector<Token> tokens(length);
  for (auto& token : tokens) token = static_cast<Token>(rng.uniform() * vocabulary);
  return tokens;
}

/// A prompt and `generate` tokens after the first, which comes with the prompt.
GenerationResult once(Session& session, const std::vector<Token>& prompt, std::int64_t generate) {
  GenerationRequest request = generation_request(session, prompt, generate + 1);
  return patchbay::generate(session.runner(), {&request, 1}, generation_options(session))[0];
}

Json summary(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {{"median", median(values)}, {"min", *low}, {"max", *high}, {"values", values}};
}

/// predicted_* and *_of_roofline of the medians, and what they were predicted from.
Json predictions(Session& session, const BenchOptions& options, const GenerationResult& decoded, double prefill, double decode) {
  const int threads = session.host().concurrency();
  Calibrations calibrations;
  const auto& calibration = calibrations.of(threads);
  const auto machine = calibration.limits(used_threads(threads));
  const auto cost = session.cost();
  const DecodedPrompt prompt{options.prompt, static_cast<std::int64_t>(decoded.tokens.size()), decoded.passes, decoded.drafted};
  Json metrics = {{"prefill_tokens_per_s", prefill}, {"decode_tokens_per_s", decode}};
  add_predicted_prefill(cost, machine, options.prompt, session.config().max_batched_tokens, metrics);
  add_predicted_decoding(cost, machine, {&prompt, 1}, metrics);
  metrics.erase("prefill_tokens_per_s");
  metrics.erase("decode_tokens_per_s");
  metrics["calibration"] = calibration_summary(calibration, threads);
  return metrics;
}

}  // namespace

int bench(const BenchOptions& options) {
  if (options.prompt < 1 || options.generate < 1 || options.repeat < 1)
    throw Error("bench", "--prompt, --generate and --repeat are counts", "1 or more");
  const bool own_peak = reset_peak_memory();
  const auto started = std::chrono::steady_clock::now();
  const auto session = open_session(options.model, {options.prompt + options.generate + 1, 1});
  const double load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const auto prompt = random_prompt(session->runner().vocabulary(), options.prompt);
  std::vector<double> prefill, decode;
  GenerationResult result;
  for (int i = 0; i <= options.repeat; ++i) {
    result = once(*session, prompt, options.generate);
    if (i == 0) continue;  // warm-up
    prefill.push_back(static_cast<double>(options.prompt) / result.prefill_seconds);
    decode.push_back(static_cast<double>(result.tokens.size() - 1) / result.decode_seconds);
  }
  Json bench = {{"prefill_tokens_per_s", summary(prefill)}, {"decode_tokens_per_s", summary(decode)}, {"prompt", options.prompt},
                       {"generate", options.generate}, {"load_s", load_s}, {"peak_rss_bytes", peak_memory_bytes()},
                       {"peak_rss_of", own_peak ? "loading and running" : "the whole process"}, {"threads", working_threads(*session)},
                       {"paths", session->paths()}, {"cpu", environment().cpu}, {"commit", environment().commit}};
  const std::string emulated = emulated_device(*session);
  if (session->device().is_host()) bench.update(predictions(*session, options, result, median(prefill), median(decode)));  // the roofline is the CPU's
  if (!emulated.empty()) bench.update({{"emulated", emulated}, {"emulated_speed", kEmulatedSpeed}});
  if (options.model.json) {
    fmt::print("{}\n", bench.dump());
    return 0;
  }
  const auto line = [&](const std::string& what, const std::string& phase) {
    const auto& speeds = bench[phase + "_tokens_per_s"];
    fmt::print("{:<24} {:>9.1f} tokens/s{}  (median of {}; {:.1f} to {:.1f})", what, speeds["median"].get<double>(), emulated.empty() ? "" : " EMULATED",
               options.repeat, speeds["min"].get<double>(), speeds["max"].get<double>());
    if (const auto share = bench.find(phase + "_of_roofline"); share != bench.end())
      fmt::print("; {:.0f}% of the roofline's {:.1f}", 100 * share->get<double>(), bench["predicted_" + phase + "_tokens_per_s"].get<double>());
    fmt::print("\n");
  };
  if (!emulated.empty()) fmt::print("{}\n", kEmulatedSpeed);
  line(fmt::format("prefill of {}", options.prompt), "prefill");
  line(fmt::format("decode of {} after it", options.generate), "decode");
  fmt::print("loaded in {:.2f} s, peak memory {:.0f} MiB, {}\n", load_s, peak_memory_bytes() / 1048576.0, counted(working_threads(*session), "thread"));
  for (const auto& [part, path] : session->paths()) fmt::print("  {}: {}\n", part, path);
  return 0;
}

}  // namespace patchbay::app

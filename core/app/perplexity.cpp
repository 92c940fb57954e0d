// patchbay perplexity: one figure for one text, with the protocol that it depends on.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "experiment/evaluation.h"
#include "experiment/metrics.h"
#include "experiment/text_table.h"
#include "json_text.h"

namespace patchbay::app {

int perplexity(const PerplexityOptions& options) {
  const auto protocol = protocol_named(options.protocol, options.window);
  if (options.chunks < 0) throw Error("--chunks", "is negative", "0 (all) or more");
  const auto session = open_session(options.model, {protocol.window, 1});
  const auto text = evaluation_text(session->tokenizer(), options.text);
  ScoreOptions scoring;
  scoring.windows = windows_in(text, protocol, options.chunks);
  const auto scores = score(scored_model(*session), text, protocol, scoring);
  const auto perplexity = perplexity_of(scores);
  Json result = {{"perplexity", perplexity.value}, {"standard_error", perplexity.standard_error}, {"tokens", perplexity.tokens}};
  Json metrics;
  add_perplexity(metrics, scores, 0);
  const auto interval = metrics.find("perplexity_ci");
  if (interval != metrics.end()) result["perplexity_ci"] = *interval;
  result.update(Json{{"protocol", protocol.name}, {"window", protocol.window}, {"windows", scoring.windows}, {"first_scored", protocol.first_scored},
                     {"bos", text.bos >= 0 ? "first of each window" : "none"}, {"text", options.text}, {"text_sha256", text.sha256},
                     {"text_tokens", text.tokens.size()}, {"paths", session->paths()}});
  if (options.model.json) {
    fmt::print("{}\n", json_text(result));
    return 0;
  }
  fmt::print("perplexity {:.4f} +- {:.4f} (standard error), ", perplexity.value, perplexity.standard_error);
  if (interval == metrics.end()) fmt::print("no interval: too few tokens\n");
  else fmt::print("95% interval {:.3f} to {:.3f}\n", (*interval)[0].get<double>(), (*interval)[1].get<double>());
  fmt::print("protocol {}: {} of {} tokens, scored from token {} on, BOS {}: {} tokens of {} (sha256 {:.8})\n", protocol.name,
             counted(scoring.windows, "window"), protocol.window, protocol.first_scored, result["bos"].get<std::string>(), perplexity.tokens, options.text, text.sha256);
  return 0;
}

}  // namespace patchbay::app

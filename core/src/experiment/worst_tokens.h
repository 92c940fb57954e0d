/// @file worst_tokens.h
/// Where a run does badly: the scored tokens of one record by their loss, in the text around them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiment/record_set.h"

namespace patchbay {

struct WorstTokensOptions {
  std::string by = "nll";    ///< nll; kl: divergence from the baseline; change: nll above the baseline's
  std::int64_t top = 20;
  std::string text, model;   ///< files; "": where the record says
};

struct WorstToken {
  std::int64_t window = 0, position = 0;  ///< position: of the token in its window
  std::int32_t token = 0;
  std::string before, piece, after;       ///< bytes of the text: the context is what the model saw of it
  double nll = 0;                         ///< nats
  std::optional<double> kl, baseline_nll;
  bool first_choice = false;              ///< the model's likeliest token was this one
};

struct WorstTokens {
  std::vector<WorstToken> tokens;  ///< the worst first
  std::int64_t scored = 0;
  double share = 0;                ///< of the sum over all scored tokens that these hold (by change: of the sum of what grew)
};

/// @throws Error when the text or the model is not the one that was scored, or there is nothing to rank by.
PATCHBAY_API WorstTokens worst_tokens(const FoundRecord& found, const WorstTokensOptions& options);

}  // namespace patchbay

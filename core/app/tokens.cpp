// patchbay tokens FOLDER[:RUN]: the tokens that a run predicts worst, in their context.
//
// --json: {"folder", "run", "hash", "by", "scored_tokens", "share",
// "tokens": [{"window", "position", "token", "before", "text", "after", "nll", "kl", "baseline_nll", "first_choice"}]}.
#include <fmt/format.h>

#include "commands.h"
#include "common.h"
#include "experiment/worst_tokens.h"
#include "json_text.h"
#include "utf8.h"

namespace patchbay::app {
namespace {

/// Line ends become spaces: the context stands on one line.
std::string one_line(std::string text) {
  for (char& letter : text)
    if (letter == '\n' || letter == '\r' || letter == '\t') letter = ' ';
  return escaped(text);
}

std::string figures(const WorstToken& token) {
  std::string text = fmt::format("nll {:.3f}", token.nll);
  if (token.baseline_nll) text += fmt::format(", baseline {:.3f} ({:+.3f})", *token.baseline_nll, token.nll - *token.baseline_nll);
  if (token.kl) text += fmt::format(", KL {:.4f}", *token.kl);
  return text + fmt::format("; window {}, token {}{}", token.window, token.position, token.first_choice ? ", its first choice" : "");
}

Json as_json(const FoundRecord& found, const WorstTokens& worst, const std::string& by) {
  Json json = {{"folder", found.folder}, {"run", found.record["run"]}, {"hash", found.record["hash"]}, {"by", by},
               {"scored_tokens", worst.scored}, {"share", worst.share}, {"tokens", Json::array()}};
  for (const auto& token : worst.tokens)
    json["tokens"].push_back({{"window", token.window}, {"position", token.position}, {"token", token.token}, {"before", token.before},
                              {"text", token.piece}, {"after", token.after}, {"nll", token.nll}, {"kl", token.kl ? Json(*token.kl) : Json()},
                              {"baseline_nll", token.baseline_nll ? Json(*token.baseline_nll) : Json()}, {"first_choice", token.first_choice}});
  return json;
}

}  // namespace

int tokens(const TokensOptions& options) {
  const auto found = find_record(options.run);
  const auto worst = worst_tokens(found, {options.by, options.top, options.text, options.model});
  if (options.json) {
    fmt::print("{}\n", json_text(as_json(found, worst, options.by)));
    return 0;
  }
  const bool utf8 = unicode_terminal();
  const auto *open = utf8 ? "»" : ">>", *close = utf8 ? "«" : "<<";
  const auto* what = options.by == "kl" ? "KL" : options.by == "change" ? "growth of the negative log-likelihood" : "negative log-likelihood";
  fmt::print("{}: {} of {} scored tokens hold {:.1f}% of the {}; nats; the token stands between {} and {}\n\n",
             escaped(found.record["run"].get<std::string>(), 200), worst.tokens.size(), worst.scored, 100 * worst.share, what, open, close);
  if (options.by != "nll" && found.record.value("baseline", false))
    fmt::print("This run is the baseline itself, so nothing of it differs: name another run: FOLDER:RUN.\n\n");
  for (std::size_t i = 0; i < worst.tokens.size(); ++i) {
    const auto& token = worst.tokens[i];
    fmt::print("{:>4}. {}\n      {}{}{}{}{}\n", i + 1, figures(token), one_line(token.before), open, escaped(token.piece), close, one_line(token.after));
  }
  return 0;
}

}  // namespace patchbay::app

#include "experiment/worst_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "experiment/evaluation.h"
#include "experiment/record_diff.h"
#include "experiment/sha256.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr std::int64_t kTokensBefore = 24, kTokensAfter = 6;

/// What of a record says how its text was cut.
struct Cut {
  std::string text, text_sha256;
  std::int64_t window = 0, windows = 0, first_scored = 0;
};

Cut cut_of(const FoundRecord& found) {
  const auto evaluation = found.record.value("evaluation", Json::object());
  const auto need = [&](const char* key, bool (Json::*is)() const noexcept) {
    if (!evaluation.contains(key) || !(evaluation[key].*is)())
      throw Error(fmt::format("{}: evaluation.{}", escaped(found.folder), key), "missing, or of the wrong type");
    return evaluation[key];
  };
  const auto count = [&](const char* key) { return need(key, &Json::is_number_unsigned).get<std::int64_t>(); };
  const auto text = [&](const char* key) { return need(key, &Json::is_string).get<std::string>(); };
  return {text("text"), text("text_sha256"), count("window"), count("windows"), count("first_scored")};
}

/// The scores of the baseline in the same folder, where they can be paired with the record's.
std::optional<TokenScores> baseline_scores(const FoundRecord& found) {
  const std::string folders[] = {found.folder};
  for (auto& record : read_record_set(folders).records)
    if (record.value("baseline", false) && unpaired_reason(found.record, record).empty()) return scores_of_record({record, found.folder});
  return std::nullopt;
}

/// What tokens are ranked by: one value per scored token.
std::vector<double> ranking(const std::string& by, const TokenScores& scores, const std::optional<TokenScores>& baseline) {
  if (by == "nll") return {scores.nll.begin(), scores.nll.end()};
  if (by == "kl") {
    if (scores.kl.empty()) throw Error("--by kl", "this run was not compared with a baseline", "nll", "add divergence to the experiment's tasks");
    return {scores.kl.begin(), scores.kl.end()};
  }
  if (by != "change") throw Error("--by", "unknown order '" + escaped(by, 40) + "'", "nll, kl, change");
  if (!baseline) throw Error("--by change", "the folder has no baseline scored on the same text", "nll, kl");
  std::vector<double> change(scores.nll.size());
  for (std::size_t i = 0; i < change.size(); ++i) change[i] = double{scores.nll[i]} - double{baseline->nll[i]};
  return change;
}

std::unique_ptr<Tokenizer> tokenizer_of(const FoundRecord& found, const std::string& given) {
  const auto path = find_model(given.empty() ? found.record.value("model", "") : given);
  const auto file = ModelFile::open(path);
  if (sha256_of_files(file->paths()) != found.record.value("model_sha256", ""))
    throw Error(escaped(path), "is not the model of this run: its SHA-256 is another", {}, "give the model that was measured as --model");
  return make_tokenizer(*file);
}

EvaluationText text_of(const Tokenizer& tokenizer, const Cut& cut, const std::string& given) {
  const auto path = given.empty() ? cut.text : given;
  if (!std::filesystem::is_regular_file(path)) throw Error(escaped(path), "the text of this run is not here", {}, "give its place as --text");
  auto text = evaluation_text(tokenizer, path);
  if (text.sha256 != cut.text_sha256)
    throw Error(escaped(path), "the text has changed since this run scored it: its SHA-256 is another", {}, "give the text that was scored as --text");
  return text;
}

}  // namespace

WorstTokens worst_tokens(const FoundRecord& found, const WorstTokensOptions& options) {
  const auto scores = scores_of_record(found);  // first: it says when no text was scored
  const auto cut = cut_of(found);
  const auto baseline = baseline_scores(found);
  const auto values = ranking(options.by, scores, baseline);
  const auto tokenizer = tokenizer_of(found, options.model);
  const auto text = text_of(*tokenizer, cut, options.text);
  const auto scored = static_cast<std::int64_t>(values.size());
  const bool fits = cut.window > 0 && cut.windows == scores.windows && cut.first_scored >= 1 &&
                    cut.first_scored + scores.per_window == cut.window &&
                    cut.windows <= static_cast<std::int64_t>(text.tokens.size()) / cut.window;
  if (!fits || (baseline && baseline->nll.size() != scores.nll.size()))
    throw Error(escaped(found.folder), "the scores file does not fit the record's windows and the text");

  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min(options.top, scored);
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [&](auto a, auto b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  WorstTokens worst{{}, scored, 0};
  double total = 0, held = 0;
  for (const double value : values) total += std::max(0.0, value);
  for (const auto i : std::span(order).first(count)) {
    held += std::max(0.0, values[i]);
    WorstToken token{i / scores.per_window, cut.first_scored + i % scores.per_window, 0, {}, {}, {}, scores.nll[i], {}, {}, false};
    const auto start = token.window * cut.window, at = start + token.position;
    const auto join = [&](std::int64_t begin, std::int64_t end) {
      return tokenizer->decode(std::span(text.tokens).subspan(begin, end - begin), true);
    };
    token.token = text.tokens[at];
    token.before = join(std::max(start, at - kTokensBefore), at);
    token.piece = join(at, at + 1);
    token.after = join(at + 1, std::min({at + 1 + kTokensAfter, start + cut.window}));
    if (!scores.kl.empty()) token.kl = scores.kl[i];
    if (baseline) token.baseline_nll = baseline->nll[i];
    token.first_choice = scores.top1[i] & TokenScores::kRight;
    worst.tokens.push_back(std::move(token));
  }
  worst.share = total > 0 ? held / total : 0;
  return worst;
}

}  // namespace patchbay

// Perplexity protocols and divergence. The logits of a row exist only while the row is compared: a block of rows at a time.
#include "experiment/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiment/sha256.h"
#include "experiment/text_table.h"
#include "failures.h"
#include "files.h"
#include "session.h"

namespace patchbay {
namespace {

constexpr std::int64_t kBlockRows = 32;  ///< rows of logits held at once

/// log sum exp of a row, in double. Not finite when a logit is NaN or +inf, or all are -inf.
double log_sum_exp(const float* logits, std::int64_t n) {
  const double largest = *std::max_element(logits, logits + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(logits[i] - largest);
  return largest + std::log(sum);
}

/// KL(p || q) = sum over tokens of p (log p - log q), p and q as logits with their log sum exp.
double kl_divergence(const float* p, double p_norm, const float* q, double q_norm, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double log_p = p[i] - p_norm;
    const double weight = std::exp(log_p);
    if (weight > 0) sum += weight * (log_p - (q[i] - q_norm));
  }
  return sum;
}

/// A sequence that closes itself.
struct OpenSequence {
  ModelRunner& runner;
  SeqId id = runner.open();
  ~OpenSequence() { runner.close(id); }
};

std::vector<Token> window_of(const EvaluationText& text, const Protocol& protocol, std::int64_t w) {
  std::vector<Token> window(text.tokens.begin() + w * protocol.window, text.tokens.begin() + (w + 1) * protocol.window);
  if (text.bos >= 0) window[0] = text.bos;
  return window;
}

/// Final hidden states (window - first_scored, hidden) of the positions that predict the scored tokens.
void run_window(const ScoredModel& model, std::span<const Token> window, std::int64_t first_position, View<float, 2> hidden) {
  OpenSequence sequence{model.runner};
  const auto length = static_cast<std::int64_t>(window.size());
  std::vector<TokenRow> rows;
  std::vector<std::int32_t> path;
  for (std::int64_t begin = 0; begin < length; begin += model.max_batched_tokens) {
    const auto count = std::min(model.max_batched_tokens, length - begin);
    rows.clear();
    for (std::int64_t i = 0; i < count; ++i)
      rows.push_back({.seq = sequence.id, .token = window[begin + i], .parent = static_cast<std::int32_t>(i) - 1});
    const Step step = model.runner.forward(rows, true);
    if (step.full) throw Error("evaluation", fmt::format("the KV cache has no room for a window of {} tokens", length), {},
                               "take a smaller window, or a larger cache");
    for (auto i = std::max<std::int64_t>(0, first_position - begin); i < count && begin + i < length - 1; ++i)
      std::copy_n(step.hidden[i].data, model.hidden_size, hidden[begin + i - first_position].data);
    path.resize(count);
    std::iota(path.begin(), path.end(), 0);
    model.runner.commit(sequence.id, path);
  }
}

/// Scores rows of logits against the tokens that came, and against the baseline's rows where there are any.
struct RowScorer {
  TokenScores& scores;
  std::int64_t vocabulary;

  void operator()(std::int64_t at, Token target, const float* logits, const float* baseline) const {
    const double norm = log_sum_exp(logits, vocabulary);
    const double nll = norm - logits[target];
    if (!std::isfinite(nll)) throw Error("evaluation", fmt::format("the logits for scored token {} are not finite", at), "", kLogitsRemedy);
    const auto first = argmax(View<const float, 1>(logits, {vocabulary}));
    scores.nll[at] = static_cast<float>(nll);
    scores.top1[at] = first == target ? TokenScores::kRight : 0;
    if (!baseline) return;
    const double baseline_norm = log_sum_exp(baseline, vocabulary);
    const double kl = kl_divergence(baseline, baseline_norm, logits, norm, vocabulary);
    if (!std::isfinite(kl)) throw Error("evaluation", fmt::format("the divergence at scored token {} is not finite", at));
    const auto baseline_first = argmax(View<const float, 1>(baseline, {vocabulary}));
    scores.kl[at] = static_cast<float>(kl);
    if (first == baseline_first) scores.top1[at] |= TokenScores::kSame;
    if (baseline_first == target) scores.top1[at] |= TokenScores::kBaselineRight;
  }
};

}  // namespace

std::vector<std::string> protocol_names() { return {"patchbay", "llama.cpp"}; }

Protocol protocol_named(const std::string& name, std::int64_t window) {
  if (window < 4) throw Error("window", fmt::format("{} tokens are too few", window), "4 or more");
  if (name == "patchbay") return {name, window, 1};
  if (name == "llama.cpp") return {name, window, window / 2 + 1};
  throw Error("protocol", "unknown protocol '" + name + "'", fmt::format("{}", fmt::join(protocol_names(), ", ")));
}

EvaluationText evaluation_text(const Tokenizer& tokenizer, const std::string& path) {
  const auto text = read_whole_file(path);
  const auto prefix = tokenizer.encode("", false, true);
  EvaluationText result;
  result.bos = !prefix.empty() && prefix.front() == tokenizer.bos() ? tokenizer.bos() : -1;
  result.tokens = encode_from(path, tokenizer, text, false, true);
  result.sha256 = sha256(text);
  return result;
}

std::int64_t windows_in(const EvaluationText& text, const Protocol& protocol, std::int64_t wanted) {
  const auto there = static_cast<std::int64_t>(text.tokens.size()) / protocol.window;
  if (there == 0 || wanted > there)
    throw Error("text", fmt::format("{} hold {} of {}; asked for: {}", counted(std::ssize(text.tokens), "token"), counted(there, "window"),
                                    protocol.window, std::max<std::int64_t>(wanted, 1)), {}, "give a longer text, or fewer or smaller windows");
  return wanted > 0 ? wanted : there;
}

std::int64_t other_batch_split(std::int64_t max_batched_tokens, std::int64_t window) {
  const auto usual = std::min(max_batched_tokens, window);
  return usual == 1 ? 2 : usual / 3 / 2 * 2 + 1;
}

TokenScores first_windows(const TokenScores& scores, std::int64_t windows) {
  if (windows > scores.windows) throw Error("scores", fmt::format("hold {} windows, {} are asked for", scores.windows, windows));
  const auto tokens = windows * scores.per_window;
  const auto part = [&](const auto& values) {
    return std::remove_cvref_t<decltype(values)>(values.begin(), values.begin() + (values.empty() ? 0 : tokens));
  };
  return {windows, scores.per_window, part(scores.nll), part(scores.kl), part(scores.top1)};
}

ScoredModel scored_model(Session& session) {
  return {session.runner(), session.host(), session.hidden_size(), session.config().max_batched_tokens,
          [&session](View<const float, 2> hidden, View<float, 2> logits) { session.head(hidden, logits); }};
}

TokenScores score(const ScoredModel& model, const EvaluationText& text, const Protocol& protocol, const ScoreOptions& options) {
  const auto per_window = protocol.scored(), total = per_window * options.windows;
  const std::int64_t vocabulary = model.runner.vocabulary();
  const bool compares = options.baseline && options.baseline_hidden;
  TokenScores scores{options.windows, per_window, std::vector<float>(total), std::vector<float>(compares ? total : 0),
                     std::vector<std::uint8_t>(total)};
  const RowScorer score_row{scores, vocabulary};
  std::vector<float> hidden(per_window * model.hidden_size), logits(kBlockRows * vocabulary), baseline_hidden, baseline_logits;
  if (compares) {
    baseline_hidden.resize(kBlockRows * options.baseline->hidden_size);
    baseline_logits.resize(kBlockRows * vocabulary);
  }
  for (std::int64_t w = 0; w < options.windows; ++w) {
    const auto window = window_of(text, protocol, w);
    const View<float, 2> states(hidden.data(), {per_window, model.hidden_size});
    run_window(model, window, protocol.first_scored - 1, states);
    for (std::int64_t begin = 0; begin < per_window; begin += kBlockRows) {
      const auto count = std::min(kBlockRows, per_window - begin), first = w * per_window + begin;
      model.head(states.rows(begin, begin + count), View<float, 2>(logits.data(), {count, vocabulary}));
      if (compares) {
        const View<float, 2> kept(baseline_hidden.data(), {count, options.baseline->hidden_size});
        options.baseline_hidden->read(first, kept);
        options.baseline->head(kept, View<float, 2>(baseline_logits.data(), {count, vocabulary}));
      }
      model.device.parallel_for(count, 1, [&](std::int64_t from, std::int64_t to, int) {
        for (auto i = from; i < to; ++i)
          score_row(first + i, window[protocol.first_scored + begin + i], logits.data() + i * vocabulary,
                    compares ? baseline_logits.data() + i * vocabulary : nullptr);
      });
    }
    if (options.progress) options.progress(w + 1);
  }
  return scores;
}

void keep_hidden_states(const ScoredModel& model, const EvaluationText& text, const Protocol& protocol, std::int64_t windows,
                        HiddenFile& file, const std::function<void()>& between) {
  std::vector<float> hidden(protocol.scored() * model.hidden_size);
  const View<float, 2> states(hidden.data(), {protocol.scored(), model.hidden_size});
  for (std::int64_t w = 0; w < windows; ++w) {
    if (between) between();
    run_window(model, window_of(text, protocol, w), protocol.first_scored - 1, states);
    file.append(states);
  }
}

Perplexity perplexity_of(const TokenScores& scores) {
  const auto n = static_cast<double>(scores.nll.size());
  double sum = 0, squares = 0;
  for (const double nll : scores.nll) {
    sum += nll;
    squares += nll * nll;
  }
  const double mean = sum / n, variance = squares / n - mean * mean, value = std::exp(mean);
  return {value, variance > 0 && n > 1 ? value * std::sqrt(variance / (n - 1)) : 0.0, static_cast<std::int64_t>(scores.nll.size())};
}

}  // namespace patchbay

/// @file evaluation.h
/// Quality on a text: negative log-likelihood per token, and divergence from a baseline per token.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "patchbay/backend.h"
#include "patchbay/decoder.h"
#include "tokenizer.h"

namespace patchbay {

class Session;

/// Which tokens of a text are scored, with how much context. The same model reads 5 or 9 by protocol alone: always state it.
/// Windows follow each other without overlap; what does not fill a window at the end is left out; where the model wants BOS,
/// it replaces the first token of each window.
struct Protocol {
  std::string name;
  std::int64_t window = 512;
  std::int64_t first_scored = 1;  ///< index in the window of the first token scored
  std::int64_t scored() const { return window - first_scored; }
};
/// "patchbay": every token after the window's first. "llama.cpp": those after the window's first half, as its perplexity tool.
/// @throws Error for another name or a window that is too small.
PATCHBAY_API Protocol protocol_named(const std::string& name, std::int64_t window);
PATCHBAY_API std::vector<std::string> protocol_names();

struct EvaluationText {
  std::vector<Token> tokens;
  Token bos = -1;      ///< what replaces the first token of each window; -1: nothing does
  std::string sha256;  ///< of the text
};
/// Tokenises a text as a whole, special tokens as plain text.
PATCHBAY_API EvaluationText evaluation_text(const Tokenizer& tokenizer, const std::string& path);
/// How many windows to score: `wanted`, or all when it is 0. @throws Error when the text has fewer.
PATCHBAY_API std::int64_t windows_in(const EvaluationText& text, const Protocol& protocol, std::int64_t wanted);

/// Another way to cut a window into batches: chunks of about a third, of an odd length. What a score owes to the cut shows by it.
PATCHBAY_API std::int64_t other_batch_split(std::int64_t max_batched_tokens, std::int64_t window);

/// What evaluation sees of a session.
struct ScoredModel {
  ModelRunner& runner;
  Device& device;
  std::int64_t hidden_size = 0;
  std::int64_t max_batched_tokens = 8192;
  std::function<void(View<const float, 2> hidden, View<float, 2> logits)> head;
};
PATCHBAY_API ScoredModel scored_model(Session& session);

/// One entry per scored token, in text order.
struct TokenScores {
  std::int64_t windows = 0, per_window = 0;
  std::vector<float> nll;             ///< negative log-likelihood in nats
  std::vector<float> kl;              ///< KL(baseline || this) in nats; empty without a baseline
  std::vector<std::uint8_t> top1;     ///< bits: kRight, and with a baseline kSame, kBaselineRight
  static constexpr std::uint8_t kRight = 1, kSame = 2, kBaselineRight = 4;
};
/// The same of the first windows alone.
PATCHBAY_API TokenScores first_windows(const TokenScores& scores, std::int64_t windows);
/// The compact file of these: see docs/measuring.md. @throws Error on a file that is cut or of another kind.
PATCHBAY_API void write_scores(const std::string& path, const TokenScores& scores);
PATCHBAY_API TokenScores read_scores(const std::string& path);

/// The baseline's final hidden states of the scored positions, in fp32, in a file: its logits are the head of them, again.
class PATCHBAY_API HiddenFile {
 public:
  /// For writing: `path` appears when finish() is called, complete.
  static HiddenFile create(const std::string& path, std::int64_t hidden_size);
  static HiddenFile open(const std::string& path, std::int64_t hidden_size);
  ~HiddenFile();
  HiddenFile(HiddenFile&&) noexcept;
  void append(View<const float, 2> rows);
  void finish();
  void read(std::int64_t first_row, View<float, 2> rows) const;

 private:
  HiddenFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct ScoreOptions {
  std::int64_t windows = 0;                             ///< as windows_in gave it
  const ScoredModel* baseline = nullptr;                ///< its head, with
  const HiddenFile* baseline_hidden = nullptr;          ///< its hidden states, for the divergence
  std::function<void(std::int64_t windows_done)> progress = nullptr;
};
/// Runs the windows one after the other. @throws Error when the cache is full or a logit is not finite.
PATCHBAY_API TokenScores score(const ScoredModel& model, const EvaluationText& text, const Protocol& protocol, const ScoreOptions& options);

/// The same windows through the model alone, without its head: what the divergence reads back. `between` is called between two windows.
PATCHBAY_API void keep_hidden_states(const ScoredModel& model, const EvaluationText& text, const Protocol& protocol, std::int64_t windows,
                                     HiddenFile& file, const std::function<void()>& between = nullptr);

/// exp(mean nll), and its standard error by the delta method: perplexity * sd(nll) / sqrt(n - 1), tokens taken as independent (as
/// llama.cpp states it).
struct Perplexity {
  double value = 0, standard_error = 0;
  std::int64_t tokens = 0;
};
PATCHBAY_API Perplexity perplexity_of(const TokenScores& scores);

}  // namespace patchbay

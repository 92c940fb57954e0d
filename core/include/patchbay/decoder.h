/// @file decoder.h
/// Interface of a decoding strategy, step by step on sequences, so that one batch can mix strategies.
/// V vocabulary, n draft tokens.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "patchbay/model_runner.h"
#include "patchbay/processor.h"

namespace patchbay {

/// Random numbers of one sequence: its draws do not depend on what else is in the batch.
class Rng {
 public:
  explicit Rng(std::uint64_t seed, std::uint64_t stream = 0) {
    std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                           static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
    engine_.seed(sequence);
  }
  /// Uniform in [0, 1), 53 bits, the same on every platform.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

/// A sequence being generated. `tokens` is prompt and output; all but the last are in the runner's cache.
struct Sequence {
  SeqId id = 0;
  std::vector<Token> tokens;
  std::int64_t prompt_length = 0;
  std::int64_t max_new_tokens = 0;  ///< output tokens still allowed: a draft longer than this minus one is wasted work
  std::vector<std::shared_ptr<LogitsProcessor>> processors;  ///< this sequence's own, in order
  Rng rng{0};
};

/// Guessed continuations of a sequence. parents[i] is the draft index that i follows, -1 for the sequence's last token.
/// probabilities: empty when the drafter is certain (a point mass), else (n, V), the distribution each token was drawn from.
struct Draft {
  std::vector<Token> tokens;
  std::vector<std::int32_t> parents;
  std::vector<float> probabilities;
};

/// What a decoder made of a verified draft.
struct Accepted {
  std::vector<std::int32_t> path;  ///< draft indices kept, in order
  Token next = 0;                  ///< the token that follows them, chosen from the last kept row's logits
};

/// What a decoder does with a row of logits, if that is all: choose the largest, or draw. A GPU may then do it in its place.
enum class Choice { own, largest, draw };

class PATCHBAY_API Decoder {
 public:
  virtual ~Decoder();
  /// One draft per sequence, empty where nothing is guessed. The default guesses nothing.
  virtual std::vector<Draft> propose(std::span<Sequence* const> sequences, ModelRunner& target);
  /// logits (n + 1, V) of the sequence's last token and of each draft token, already through the processors (row i with the
  /// draft's ancestors of i pushed); -inf marks a token that may not come.
  virtual Accepted accept(Sequence& sequence, const Draft& draft, View<const float, 2> logits) = 0;
  virtual Choice chooses() const { return Choice::own; }
  /// accept() where each row's token (n + 1) was chosen as chooses() says, a draw by one number of the sequence's rng.
  virtual Accepted accept_chosen(Sequence& sequence, const Draft& draft, std::span<const Token> chosen);
};

/// Chooses from one row of processed logits: index of the largest (lowest index among equals).
/// @throws Error when every logit is -inf or one is NaN.
PATCHBAY_API Token argmax(View<const float, 1> logits);
/// softmax in double; -inf gives 0. @throws as argmax.
PATCHBAY_API std::vector<double> softmax(View<const float, 1> logits);
/// Draws an index from weights that need not sum to 1. Never one of weight 0. @throws Error when the sum is not above 0.
PATCHBAY_API Token draw(std::span<const double> weights, Rng& rng);

}  // namespace patchbay

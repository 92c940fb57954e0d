// Decoders for tests: one that puts drafts of the test's choice before another decoder and checks what the step loop promises,
// and what is needed to judge distributions.
#pragma once
#include <cmath>
#include <functional>
#include <numeric>

#include "fake_runner.h"
#include "generation.h"

namespace patchbay::test {

/// Proposes what the test says (nothing: what the inner decoder proposes) and lets the inner decoder accept. At every step the
/// cache must hold all tokens but the last.
class Drafting : public Decoder {
 public:
  using Script = std::function<Draft(const Sequence&)>;
  explicit Drafting(std::shared_ptr<Decoder> inner, Script script = nullptr)
      : inner_(std::move(inner)), script_(std::move(script)) {}

  std::vector<Draft> propose(std::span<Sequence* const> sequences, ModelRunner& target) override {
    for (const Sequence* s : sequences) {
      if (target.length(s->id) != static_cast<std::int64_t>(s->tokens.size()) - 1) ++misfits;
    }
    largest_group = std::max(largest_group, sequences.size());
    if (!script_) return inner_->propose(sequences, target);
    std::vector<Draft> drafts;
    for (const Sequence* s : sequences) drafts.push_back(script_(*s));
    return drafts;
  }
  Accepted accept(Sequence& s, const Draft& draft, View<const float, 2> logits) override {
    return inner_->accept(s, draft, logits);
  }

  int misfits = 0;
  std::size_t largest_group = 0;

 private:
  std::shared_ptr<Decoder> inner_;
  Script script_;
};

inline GenerationRequest request(std::vector<Token> prompt, std::int64_t max_tokens, std::shared_ptr<Decoder> decoder,
                                 std::uint64_t seed = 0) {
  GenerationRequest r;
  r.prompt = std::move(prompt);
  r.max_tokens = max_tokens;
  r.decoder = std::move(decoder);
  r.seed = seed;
  return r;
}

/// A prompt that does not repeat itself at once.
inline std::vector<Token> some_prompt(int length, int salt, int vocabulary = 16) {
  std::vector<Token> prompt;
  for (int i = 0; i < length; ++i) prompt.push_back((i * 7 + salt * 3 + i * i * salt) % vocabulary);
  return prompt;
}

/// The softmax of a row, written once more so that tests do not lean on what they test.
inline std::vector<double> plain_softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  for (const float logit : logits) p.push_back(std::exp(static_cast<double>(logit)));
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& each : p) each /= total;
  return p;
}

/// Pearson's statistic over the bound that chance passes once in 10,000 times (Wilson and Hilferty's approximation): above 1 the
/// counts do not come from what was expected. `groups`: how many totals the expected counts share with the counts. Cells that
/// expect fewer than 5 are taken together.
inline double chi_squared_excess(const std::vector<double>& counts, const std::vector<double>& expected, int groups) {
  double statistic = 0, rare_count = 0, rare_expected = 0;
  int freedom = -groups;
  const auto add = [&](double count, double wanted) {
    statistic += (count - wanted) * (count - wanted) / wanted;
    ++freedom;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (expected[i] >= 5) {
      add(counts[i], expected[i]);
    } else {
      rare_count += counts[i];
      rare_expected += expected[i];
    }
  }
  if (rare_expected > 0) add(rare_count, rare_expected);
  const double spread = 2.0 / (9.0 * freedom);
  return statistic / (freedom * std::pow(1 - spread + 3.719 * std::sqrt(spread), 3));
}

}  // namespace patchbay::test

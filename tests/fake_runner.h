// A ModelRunner without a model: the logits after a text are a hash of its last few tokens, so that anyone can say what they must
// be. It holds callers to the letter of the contract: what a real cache might forgive is an Error here.
#pragma once
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "patchbay/model_runner.h"

namespace patchbay::test {

struct FakeModel {
  int vocabulary = 16;
  std::int64_t context = 512;
  std::int64_t capacity = 1 << 20;  ///< tokens of all sequences together
  int order = 2;                    ///< how many tokens the next one depends on: few make texts that repeat themselves
  std::uint64_t seed = 0;
  float scale = 4;                  ///< logits lie in [-scale, scale)
};

class FakeRunner : public ModelRunner {
 public:
  explicit FakeRunner(const FakeModel& model = {}) : model_(model) {}

  /// The logits after a text: the definition of this model.
  std::vector<float> logits_after(std::span<const Token> text) const {
    std::uint64_t state = mixed(model_.seed + 0x51ed2701);
    const std::size_t first = text.size() > static_cast<std::size_t>(model_.order) ? text.size() - model_.order : 0;
    for (std::size_t i = first; i < text.size(); ++i) state = mixed(state ^ static_cast<std::uint64_t>(text[i] + 1));
    std::vector<float> logits(model_.vocabulary);
    for (float& logit : logits) {
      state = mixed(state);
      logit = model_.scale * (static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f);
    }
    return logits;
  }
  /// Greedy decoding in its plainest form.
  std::vector<Token> greedy(std::vector<Token> text, int n) const {
    std::vector<Token> output;
    for (int i = 0; i < n; ++i) {
      const auto logits = logits_after(text);
      output.push_back(static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      text.push_back(output.back());
    }
    return output;
  }
  std::int64_t open_sequences() const { return static_cast<std::int64_t>(texts_.size()); }
  std::int64_t rows_run() const { return rows_run_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t largest_step() const { return largest_step_; }
  const std::vector<Token>& text(SeqId seq) const { return opened(seq); }

  int vocabulary() const override { return model_.vocabulary; }
  std::int64_t context_length() const override { return model_.context; }
  SeqId open() override {
    SeqId id = 0;
    while (texts_.count(id)) ++id;
    texts_[id] = {};
    return id;
  }
  SeqId fork(SeqId parent) override {
    const std::vector<Token> copy = opened(parent);
    const SeqId id = open();
    texts_[id] = copy;
    return id;
  }
  void close(SeqId seq) override {
    opened(seq);
    texts_.erase(seq);
    tentative_.erase(seq);
  }
  Step forward(std::span<const TokenRow> rows, bool wants_hidden = false) override {
    require(!wants_hidden, "this runner has no hidden states");
    require(!rows.empty(), "an empty batch");
    require(tentative_.empty(), "the last step was not committed");
    require(logits_ == given_, "somebody wrote into the last step's logits");
    std::map<SeqId, std::vector<TokenRow>> step;
    std::int64_t total = 0;
    for (const auto& [id, text] : texts_) total += static_cast<std::int64_t>(text.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const TokenRow& row = rows[i];
      auto& mine = step[row.seq];
      require(mine.empty() || rows[i - 1].seq == row.seq, "rows of a sequence that are no neighbours");
      require(row.token >= 0 && row.token < model_.vocabulary, "a token outside the vocabulary");
      require(row.parent >= -1 && row.parent < static_cast<std::int32_t>(mine.size()), "a parent that does not come before");
      mine.push_back(row);
    }
    for (const auto& [id, mine] : step) {
      require(static_cast<std::int64_t>(opened(id).size() + mine.size()) <= model_.context, "a sequence past the context");
    }
    Step result;
    result.full = total + static_cast<std::int64_t>(rows.size()) > model_.capacity;
    if (result.full) return result;
    logits_.clear();
    for (const auto& [id, mine] : step) tentative_[id] = mine;
    for (std::size_t i = 0, first = 0; i < rows.size(); ++i) {
      if (rows[i].seq != rows[first].seq) first = i;
      if (!rows[i].wants_logits) continue;
      const auto logits = logits_after(text_of(rows[i].seq, static_cast<std::int32_t>(i - first)));
      logits_.insert(logits_.end(), logits.begin(), logits.end());
    }
    given_ = logits_;
    ++steps_;
    rows_run_ += static_cast<std::int64_t>(rows.size());
    largest_step_ = std::max<std::int64_t>(largest_step_, static_cast<std::int64_t>(rows.size()));
    result.logits = {logits_.data(), {static_cast<std::int64_t>(logits_.size()) / model_.vocabulary, model_.vocabulary}};
    return result;
  }
  void commit(SeqId seq, std::span<const std::int32_t> path) override {
    auto& text = texts_.at(seq);
    require(tentative_.count(seq) == 1, "a commit of a sequence that had no rows in the step");
    const auto rows = tentative_.at(seq);
    std::int32_t last = -1;
    for (const std::int32_t i : path) {
      const bool follows = i >= 0 && i < static_cast<std::int32_t>(rows.size()) && rows[i].parent == last;
      require(follows, "a commit of rows that are no path");
      text.push_back(rows[i].token);
      last = i;
    }
    tentative_.erase(seq);
  }
  void rollback(SeqId seq, std::int64_t n) override {
    opened(seq);
    auto& text = texts_.at(seq);
    require(tentative_.count(seq) == 0, "a rollback before the step was committed");
    require(n >= 0 && n <= static_cast<std::int64_t>(text.size()), "a rollback of more than there is");
    text.resize(text.size() - n);
  }
  std::int64_t length(SeqId seq) const override { return static_cast<std::int64_t>(opened(seq).size()); }
  void set_probe(Probe*) override {}

 private:
  static void require(bool condition, const std::string& breach) {
    if (!condition) throw Error("contract of ModelRunner", breach);
  }
  static std::uint64_t mixed(std::uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  const std::vector<Token>& opened(SeqId seq) const {
    require(texts_.count(seq) == 1, "sequence " + std::to_string(seq) + " is not open");
    return texts_.at(seq);
  }
  /// What row `i` of the sequence's tentative rows sees, itself included.
  std::vector<Token> text_of(SeqId seq, std::int32_t i) const {
    std::vector<Token> tail;
    for (; i >= 0; i = tentative_.at(seq)[i].parent) tail.push_back(tentative_.at(seq)[i].token);
    std::vector<Token> text = opened(seq);
    text.insert(text.end(), tail.rbegin(), tail.rend());
    return text;
  }

  FakeModel model_;
  std::map<SeqId, std::vector<Token>> texts_;
  std::map<SeqId, std::vector<TokenRow>> tentative_;
  std::vector<float> logits_, given_;
  std::int64_t rows_run_ = 0, steps_ = 0, largest_step_ = 0;
};

}  // namespace patchbay::test

/// @file runner.h
/// ModelRunner over a transformer and a KV store: turns token rows into a step plan, and keeps the sequences' books.
#pragma once
#include <map>
#include <set>

#include "engine/step_plan.h"
#include "engine/transformer.h"

namespace patchbay {

class PATCHBAY_API EngineRunner : public ModelRunner {
 public:
  EngineRunner(const ModelSpec& spec, Transformer& transformer, KvStore& store, int max_sequences, std::int64_t max_tokens);
  int vocabulary() const override { return spec_.vocabulary; }
  std::int64_t context_length() const override { return max_tokens_; }
  SeqId open() override;
  SeqId fork(SeqId parent) override;
  void close(SeqId seq) override;
  Step forward(std::span<const TokenRow> rows, bool wants_hidden) override;
  bool draws() const override { return transformer_.draws(); }
  Step forward_and_draw(std::span<const TokenRow> rows, std::span<const TokenDraw> draws) override;
  void commit(SeqId seq, std::span<const std::int32_t> path) override;
  void rollback(SeqId seq, std::int64_t n) override;
  std::int64_t length(SeqId seq) const override { return store_.length(seq); }
  void set_probe(Probe* probe) override { transformer_.set_probe(probe); }

 private:
  SeqId free_id();
  void require_open(SeqId seq) const;
  void add_sequence(std::span<const TokenRow> rows, std::int64_t first_row, std::int64_t count);
  bool grow_all();
  [[noreturn]] void fail_not_finite();
  Step run(std::span<const TokenRow> rows, bool wants_hidden, std::span<const TokenDraw> draws);

  const ModelSpec& spec_;
  Transformer& transformer_;
  KvStore& store_;
  int max_sequences_;
  std::int64_t max_tokens_;
  std::set<SeqId> open_;
  std::map<SeqId, std::int64_t> tentative_;  ///< rows of the last step, until committed
  StepPlan plan_;
};

}  // namespace patchbay

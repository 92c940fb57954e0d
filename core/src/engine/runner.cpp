#include "runner.h"

#include <algorithm>

#include "engine/not_finite.h"

namespace patchbay {

EngineRunner::EngineRunner(const ModelSpec& spec, Transformer& transformer, KvStore& store, int max_sequences, std::int64_t max_tokens)
    : spec_(spec), transformer_(transformer), store_(store), max_sequences_(max_sequences), max_tokens_(max_tokens) {}

SeqId EngineRunner::free_id() {
  for (SeqId id = 0; id < max_sequences_; ++id) {
    if (!open_.count(id)) return id;
  }
  throw Error("sequences", "all " + std::to_string(max_sequences_) + " are open", "", "close one first");
}

void EngineRunner::require_open(SeqId seq) const {
  if (!open_.count(seq)) throw Error("sequence " + std::to_string(seq), "is not open");
}

SeqId EngineRunner::open() {
  const SeqId id = free_id();
  store_.open(id);
  open_.insert(id);
  return id;
}

SeqId EngineRunner::fork(SeqId parent) {
  require_open(parent);
  const SeqId id = free_id();
  store_.fork(parent, id);
  open_.insert(id);
  return id;
}

void EngineRunner::close(SeqId seq) {
  require_open(seq);
  store_.close(seq);
  open_.erase(seq);
  tentative_.erase(seq);
}

// Checks one sequence's rows and adds them to the plan.
void EngineRunner::add_sequence(std::span<const TokenRow> rows, std::int64_t first_row, std::int64_t count) {
  const SeqId seq = rows[first_row].seq;
  require_open(seq);
  StepSequence sequence{seq, first_row, count, store_.length(seq), {}};
  if (sequence.committed + count > max_tokens_) {
    throw Error("sequence " + std::to_string(seq),
                std::to_string(sequence.committed + count) + " tokens do not fit into the context of " + std::to_string(max_tokens_));
  }
  bool chain = true;
  for (std::int64_t i = 0; i < count; ++i) {
    const TokenRow& row = rows[first_row + i];
    if (row.token < 0 || row.token >= spec_.vocabulary) {
      throw Error("row " + std::to_string(first_row + i), "token " + std::to_string(row.token) + " is outside the vocabulary",
                  "0 to " + std::to_string(spec_.vocabulary - 1));
    }
    if (row.adapter != 0) throw Error("row " + std::to_string(first_row + i), "no adapter is loaded", "adapter 0");
    if (row.parent < -1 || row.parent >= i) {
      throw Error("row " + std::to_string(first_row + i), "parent " + std::to_string(row.parent) + " is not an earlier row");
    }
    chain = chain && row.parent == i - 1;
    plan_.tokens.push_back(row.token);
    const std::int64_t before = row.parent < 0 ? sequence.committed - 1 : plan_.positions[first_row + row.parent];
    plan_.positions.push_back(static_cast<std::int32_t>(before + 1));
    if (row.wants_logits) plan_.logit_rows.push_back(static_cast<std::int32_t>(first_row + i));
  }
  if (!chain) {  // row i sees what its parent sees, and itself
    sequence.tree.assign(static_cast<std::size_t>(count * count), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto line = sequence.tree.begin() + i * count;
      const std::int32_t parent = rows[first_row + i].parent;
      if (parent >= 0) std::copy_n(sequence.tree.begin() + parent * count, count, line);
      line[i] = 1;
    }
  }
  plan_.sequences.push_back(std::move(sequence));
}

bool EngineRunner::grow_all() {
  for (std::size_t i = 0; i < plan_.sequences.size(); ++i) {
    if (store_.grow(plan_.sequences[i].seq, plan_.sequences[i].rows)) continue;
    for (std::size_t done = 0; done < i; ++done) store_.commit(plan_.sequences[done].seq, {});  // give back what was reserved
    return false;
  }
  return true;
}

Step EngineRunner::forward(std::span<const TokenRow> rows, bool wants_hidden) { return run(rows, wants_hidden, {}); }

Step EngineRunner::forward_and_draw(std::span<const TokenRow> rows, std::span<const TokenDraw> draws) {
  const auto wanted = std::count_if(rows.begin(), rows.end(), [](const TokenRow& row) { return row.wants_logits; });
  if (wanted != static_cast<std::int64_t>(draws.size())) {
    throw Error("forward", std::to_string(draws.size()) + " draws for " + std::to_string(wanted) + " rows that want logits");
  }
  return run(rows, false, draws);
}

Step EngineRunner::run(std::span<const TokenRow> rows, bool wants_hidden, std::span<const TokenDraw> draws) {
  if (rows.empty()) return {};
  if (!tentative_.empty()) throw Error("forward", "the rows of the last step were neither committed nor dropped");
  plan_ = {};
  plan_.hidden = wants_hidden;
  plan_.draws.assign(draws.begin(), draws.end());
  for (std::int64_t first = 0, n = static_cast<std::int64_t>(rows.size()); first < n;) {
    std::int64_t end = first;
    while (end < n && rows[end].seq == rows[first].seq) ++end;
    for (const StepSequence& earlier : plan_.sequences) {
      if (earlier.seq == rows[first].seq) throw Error("sequence " + std::to_string(earlier.seq), "its rows are not neighbours in the batch");
    }
    add_sequence(rows, first, end - first);
    first = end;
  }
  if (!grow_all()) {
    Step step;
    step.full = true;
    return step;
  }
  for (const StepSequence& sequence : plan_.sequences) tentative_[sequence.seq] = sequence.rows;
  const Step step = transformer_.forward(plan_);
  if (transformer_.draws() && !is_finite(step)) fail_not_finite();
  return step;
}

/// The step once more, looked at. Its rows are still tentative: their keys and values are written again.
void EngineRunner::fail_not_finite() {
  NotFiniteFinder finder;
  Probe* const before = transformer_.probe();
  transformer_.set_probe(&finder);
  transformer_.forward(plan_);
  transformer_.set_probe(before);
  for (const StepSequence& sequence : plan_.sequences) store_.commit(sequence.seq, {});  // none of its rows is kept
  tentative_.clear();
  throw finder.error(transformer_.activations());
}

void EngineRunner::commit(SeqId seq, std::span<const std::int32_t> path) {
  require_open(seq);
  const auto found = tentative_.find(seq);
  const std::int64_t rows = found == tentative_.end() ? 0 : found->second;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] < 0 || path[i] >= rows || (i > 0 && path[i] <= path[i - 1])) {
      throw Error("sequence " + std::to_string(seq), "a commit path must name rows of the last step, ascending",
                  "0 to " + std::to_string(rows - 1));
    }
  }
  store_.commit(seq, path);
  tentative_.erase(seq);
}

void EngineRunner::rollback(SeqId seq, std::int64_t n) {
  require_open(seq);
  if (n < 0 || n > store_.length(seq)) throw Error("sequence " + std::to_string(seq), "cannot forget " + std::to_string(n) + " tokens");
  store_.truncate(seq, n);
}

}  // namespace patchbay

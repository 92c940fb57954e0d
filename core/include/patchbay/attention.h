/// @file attention.h
/// Interface of attention: softmax(q k^T * scale) v for every row of a step, over each row's own cache.
/// T rows of this step, S cached tokens, H query heads, G key/value heads (H a multiple of G; query head h reads head h / (H/G)).
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "patchbay/kv_store.h"

namespace patchbay {

/// The rows of one sequence in a step: rows [first_row, first_row + rows) of the batch, at slots committed .. committed + rows.
struct StepSequence {
  SeqId seq = 0;
  std::int64_t first_row = 0, rows = 0;
  std::int64_t committed = 0;
  /// Empty: row i sees every committed slot and tentative slots 0..i (causal). Else (rows x rows), row-major: row i sees
  /// tentative slot j when tree[i * rows + j] is not 0 (a tree of drafts; a row always sees itself).
  std::vector<std::uint8_t> tree;

  bool sees(std::int64_t row, std::int64_t tentative) const {
    return tree.empty() ? tentative <= row : tree[static_cast<std::size_t>(row * rows + tentative)] != 0;
  }
  /// How many tentative rows come before this one on its branch: its position is committed + depth(row).
  std::int64_t depth(std::int64_t row) const {
    if (tree.empty()) return row;
    const auto line = tree.begin() + row * rows;
    return std::count_if(line, line + rows, [](std::uint8_t seen) { return seen != 0; }) - 1;
  }
};

struct AttentionSpec {
  int heads = 0, kv_heads = 0, head_size = 0;
  float scale = 0.0f;   ///< usually 1/sqrt(D)
  std::int64_t window = 0;  ///< 0: none; else a row at position p sees positions > p - window
  float soft_cap = 0.0f;    ///< 0: none; else scores become cap * tanh(score / cap)
};

class PATCHBAY_API Attention {
 public:
  virtual ~Attention();
  /// True when run() reads this layout as it is. Else the engine gathers the cache to fp32 first, and the record says so.
  virtual bool reads(const KvLayout& layout) const = 0;
  /// q(T,H,D) with positions already applied; out(T,H,D). views[i] is the cache of sequences[i], this step's rows written.
  /// A row that sees nothing gets zeros. Slots past a view's length are never read.
  virtual void run(const AttentionSpec& spec, std::span<const StepSequence> sequences, std::span<const KvView> views,
                   TensorRef q, TensorRef out, Device& device) = 0;
  /// What runs, for the record: "flash:avx2".
  virtual std::string path() const = 0;
};

}  // namespace patchbay

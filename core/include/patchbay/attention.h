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

/// A step as kernels on a GPU see it. What changes from step to step lies in device memory, at addresses that stay while rows,
/// sequences, longest and tree_width do, so that captured launches can be done again. T rows, B sequences.
struct GpuStep {
  std::span<const StepSequence> host;  ///< the same on the host, for kernels that plan; a captured step's have one row each
  std::int64_t rows = 0, sequences = 0;
  std::int64_t longest = 0;            ///< no sequence has more slots than this; a power of two
  const std::int32_t* row_sequence = nullptr;   ///< (T): index of the row's sequence
  const std::int32_t* row_slot = nullptr;       ///< (T): the row's own slot in its sequence
  const std::int32_t* row_position = nullptr;   ///< (T)
  const std::int32_t* first_row = nullptr;      ///< (B): of the sequence in the batch
  const std::int32_t* sequence_rows = nullptr;  ///< (B)
  const std::int32_t* committed = nullptr;      ///< (B)
  /// Null: row t sees slots 0 to row_slot[t]. Else (T, tree_width): it sees the committed ones and tentative slot j when
  /// tree[t * tree_width + j] is not 0; that one's position is row_position[first_row + j].
  const std::uint8_t* tree = nullptr;
  std::int64_t tree_width = 0;
  KvSlabShape shape;
  std::byte* const* slabs = nullptr;   ///< (B, slabs_per_sequence): slab i of sequence b, of layer 0
  std::int64_t slabs_per_sequence = 0;
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
  /// Chooses the kernels for a device; called once, before run. @throws Error when the device lacks the one asked for, or has none
  /// (the default, of all but the host).
  virtual void prepare(Device& device);
  /// True when run() reads this layout as it is. Else the engine gathers the cache to fp32 first, and the record says so.
  virtual bool reads(const KvLayout& layout) const = 0;
  /// q(T,H,D) with positions already applied; out(T,H,D). views[i] is the cache of sequences[i], this step's rows written.
  /// A row that sees nothing gets zeros. Slots past a view's length are never read.
  virtual void run(const AttentionSpec& spec, std::span<const StepSequence> sequences, std::span<const KvView> views,
                   TensorRef q, TensorRef out, Device& device) = 0;
  /// The same on a GPU, layer `layer`. q and out (T,H,D) have the device's activation type. Scratch memory may grow in a step, but
  /// not in one like an earlier one.
  virtual void run_on_gpu(const AttentionSpec& spec, const GpuStep& step, int layer, TensorRef q, TensorRef out, Device& device);
  /// What runs, for the record: "flash:avx2".
  virtual std::string path() const = 0;
};

}  // namespace patchbay

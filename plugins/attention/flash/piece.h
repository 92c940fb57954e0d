// One piece of flash attention's work: some positions of one sequence, with all query heads of one key/value head.
// Rows of a piece are (position, head of the group), position first. H query heads, G key/value heads, D head size.
#pragma once
#include "flash.h"
#include "patchbay/attention.h"

namespace patchbay::flash {

struct PieceSpec {
  std::int64_t sequence = 0;  ///< index in the step
  std::int64_t kv_head = 0;
  std::int64_t first_position = 0, positions = 0;  ///< of the sequence's rows in the step
};

/// A worker's memory, in floats. k_columns is (D, kTile); the others have rows of `stride`.
struct Scratch {
  float *q, *output, *maximum, *sum, *scores, *k_rows, *k_columns, *v;
  std::int64_t stride = 0;

  static std::int64_t size(std::int64_t rows, std::int64_t head_size);
  Scratch(float* memory, std::int64_t rows, std::int64_t head_size);
};

class Piece {
 public:
  /// Everything is borrowed.
  Piece(const TileKernels& kernels, const AttentionSpec& spec, const StepSequence& sequence, const KvView& view,
        const PieceSpec& piece, const Scratch& scratch)
      : kernels_(kernels),
        spec_(spec),
        sequence_(sequence),
        view_(view),
        piece_(piece),
        scratch_(scratch),
        group_(spec.heads / spec.kv_heads),
        rows_(piece.positions * group_) {}

  /// queries and outputs (T,H,D) of the whole step.
  void run(View<const float, 3> queries, View<float, 3> outputs) const;

 private:
  /// The slots that a row may see: all of [begin, end), but for the branches of a tree that are not its own.
  struct Visible {
    std::int64_t begin = 0, end = 0;
  };
  std::int64_t position(std::int64_t row) const { return piece_.first_position + row / group_; }
  std::int64_t head(std::int64_t row) const { return piece_.kv_head * group_ + row % group_; }
  Visible visible(std::int64_t row) const;
  void load_queries(View<const float, 3> queries) const;
  void load_tile(std::int64_t first, std::int64_t count) const;
  void take_tile(std::int64_t first, std::int64_t row, std::int64_t rows) const;
  void mask(std::int64_t row, std::int64_t first, float* scores) const;
  void store_outputs(View<float, 3> outputs) const;

  const TileKernels& kernels_;
  const AttentionSpec& spec_;
  const StepSequence& sequence_;
  const KvView& view_;
  const PieceSpec& piece_;
  const Scratch& scratch_;
  std::int64_t group_, rows_;
};

}  // namespace patchbay::flash

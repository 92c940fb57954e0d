/// @file model_runner.h
/// What decoders and drafters see of a model: token rows in, logits out, and a cache that can go back.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "patchbay/kv_store.h"
#include "patchbay/tensor.h"

namespace patchbay {

using Token = std::int32_t;

/// One row of a batch. Rows of one sequence must be neighbours in the batch.
struct TokenRow {
  SeqId seq = 0;
  Token token = 0;
  /// Index, among this sequence's rows of the batch, of the row this one follows; -1: follows the committed tokens.
  /// A chain has parents -1, 0, 1, ...; a tree of drafts has others. Its position is its parent's plus one.
  std::int32_t parent = -1;
  bool wants_logits = false;
  std::int32_t adapter = 0;  ///< 0: none (LoRA adapters come with a later plugin kind)
};

/// How a GPU chooses the token after a row in the host's place: processors temperature, top_k and top_p in this order, each of
/// which may be absent, then a draw from what is left.
struct TokenDraw {
  float temperature = 0;   ///< 0: the largest logit, the first among equals
  std::int32_t top_k = 0;  ///< 0: all
  double top_p = 1;        ///< 1: all
  double uniform = 0;      ///< the draw's random number, in [0, 1)
};

/// The result of a step. Valid until the next forward().
struct Step {
  bool full = false;             ///< the cache had no room: nothing was computed, nothing changed
  View<const float, 2> logits;   ///< (rows that wanted logits, V), in batch order
  View<const float, 2> hidden;   ///< (T, hidden size) after the final norm, when asked for
  std::span<const Token> drawn;  ///< in place of logits, of forward_and_draw(); -1 where no token could be chosen (NaN, all -inf)
};

/// Sees every intermediate of a forward pass: calibration, outlier plots and bisecting all hang on this one hook.
/// Names: "embedding", "attention_norm", "q", "k", "v", "q_rope", "k_rope", "k_cached", "v_cached", "attention", "attention_output",
/// "attention_residual", "ffn_norm", "ffn_gate", "ffn_up", "ffn_gated", "ffn_output", "block_output", "final_norm", "logits". Inputs of
/// a linear layer are the tensor before it: attention_norm for q, k, v; attention for attention_output; ffn_norm for gate and up;
/// ffn_gated for down. k_cached and v_cached come once per sequence: (S,G,D) as read back from its cache, all tokens so far.
/// A layer of experts shows "ffn_router" (its logits) in place of "ffn_gate", "ffn_up" and "ffn_gated".
class PATCHBAY_API Probe {
 public:
  virtual ~Probe();
  /// layer is -1 outside the blocks. The tensor is valid during the call only.
  virtual void saw(std::string_view name, int layer, TensorRef tensor) = 0;
};

class PATCHBAY_API ModelRunner {
 public:
  virtual ~ModelRunner();
  virtual int vocabulary() const = 0;
  virtual std::int64_t context_length() const = 0;
  virtual SeqId open() = 0;
  virtual SeqId fork(SeqId parent) = 0;
  virtual void close(SeqId seq) = 0;
  /// One call serves prefill (many rows of a sequence), decode (one), verify (a draft), chunks, and any mixture over sequences.
  /// @throws Error for a token outside the vocabulary or a sequence past the context.
  virtual Step forward(std::span<const TokenRow> rows, bool wants_hidden = false) = 0;
  /// Whether forward_and_draw() can be called: where logits lie on a GPU, a token is less to bring back than they are.
  virtual bool draws() const { return false; }
  /// forward(), then one draw per row that wants logits, in batch order.
  virtual Step forward_and_draw(std::span<const TokenRow> rows, std::span<const TokenDraw> draws);
  /// Keeps the rows of `seq` in the last step that `path` names (ascending indices among them); the others never were.
  virtual void commit(SeqId seq, std::span<const std::int32_t> path) = 0;
  /// Forgets the last n committed tokens.
  virtual void rollback(SeqId seq, std::int64_t n) = 0;
  virtual std::int64_t length(SeqId seq) const = 0;
  virtual void set_probe(Probe* probe) = 0;
};

}  // namespace patchbay

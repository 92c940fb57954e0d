/// @file feed_forward.h
/// The feed-forward part of a block: one for all tokens, or a mixture of experts.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/model_spec.h"
#include "engine/weights.h"
#include "patchbay/activation.h"

namespace patchbay {

/// Sees one of the part's intermediates: name as in Probe.
using Sees = FunctionRef<void(std::string_view name, TensorRef tensor)>;

/// y(T,R) = x(T,C) w^T + bias, of the input that `x` was reset to.
void multiply(const Linear& linear, Activation& x, TensorRef y, Ops& ops);

class FeedForward {
 public:
  FeedForward(const ModelSpec& spec, Ops& ops, Activation& activation)
      : spec_(spec), ops_(ops), activation_(activation), type_(ops.device().activations()) {}
  void reserve(std::int64_t rows);
  /// out(T,E) of x(T,E), the block's normed input. `ready`: the activation has that already.
  void run(const BlockWeights& block, TensorRef x, bool ready, TensorRef out, Sees sees);

 private:
  /// A pass through `w`, whose inner size is `size`, of what the activation has.
  void dense(const FeedForwardWeights& w, std::int64_t size, TensorRef out, Sees sees);
  void choose_experts(View<float, 2> logits);
  void run_experts(const BlockWeights& block, TensorRef x, TensorRef out, Sees sees);
  void add_shared_expert(const BlockWeights& block, TensorRef x, TensorRef out);
  /// out[rows] += factors * added
  void add_rows(TensorRef out, const std::vector<std::int32_t>& rows, const std::vector<float>& factors, TensorRef added);
  TensorRef view(const Buffer& buffer, std::int64_t rows, std::int64_t cols) const { return buffer.tensor(type_, {rows, cols}); }

  const ModelSpec& spec_;
  Ops& ops_;
  Activation& activation_;
  const DType type_;            ///< of activations
  Buffer gate_, up_;
  // Experts are chosen on the host: on a GPU that costs a wait per layer.
  Buffer router_;               ///< (T, X) f32: logits
  Buffer zeros_;                ///< (T, E)
  Buffer gathered_, result_;    ///< (T, E): one expert's rows
  Buffer chosen_rows_, chosen_factors_;  ///< on a GPU: what one expert's rows are, and their weights
  std::vector<float> weights_;  ///< (T, X): each chosen expert's weight and 0 for the others
  std::vector<double> chosen_;  ///< (X) of one row
  std::vector<std::int32_t> rows_of_expert_;
  std::vector<float> factors_;
};

}  // namespace patchbay

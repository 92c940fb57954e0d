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
void multiply(const Linear& linear, Activation& x, View<float, 2> y, Ops& ops);

class FeedForward {
 public:
  FeedForward(const ModelSpec& spec, Ops& ops, Activation& activation) : spec_(spec), ops_(ops), activation_(activation) {}
  void reserve(std::int64_t rows);
  /// out(T,E) of x(T,E), the block's normed input.
  void run(const BlockWeights& block, View<float, 2> x, View<float, 2> out, Sees sees);

 private:
  /// A pass through `w`, whose inner size is `size`.
  void dense(const FeedForwardWeights& w, std::int64_t size, View<float, 2> x, View<float, 2> out, Sees sees);
  void choose_experts(View<float, 2> logits);
  void run_experts(const BlockWeights& block, View<float, 2> x, View<float, 2> out, Sees sees);
  void add_shared_expert(const BlockWeights& block, View<float, 2> x, View<float, 2> out);

  const ModelSpec& spec_;
  Ops& ops_;
  Activation& activation_;
  Buffer gate_, up_;
  Buffer router_;               ///< (T, X): logits, then each chosen expert's weight and 0 for the others
  Buffer gathered_, result_;    ///< (T, E): one expert's rows
  std::vector<double> chosen_;  ///< (X) of one row
  std::vector<std::int64_t> rows_of_expert_;
};

}  // namespace patchbay

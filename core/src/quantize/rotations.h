/// @file rotations.h
/// A model in another basis: the residual stream turned by an orthogonal matrix, and each head's values by another, folded into the weights.
/// E hidden size, D head size; activations are rows, so that x becomes x Q and y = x W^T keeps its values where W becomes W Q.
#pragma once
#include <memory>
#include <vector>

#include "engine/weights.h"
#include "patchbay/transform.h"
#include "quantize/editable_block.h"

namespace patchbay {

class PATCHBAY_API Rotations {
 public:
  /// What the transforms of a run turn. @throws Error for a model with norms that a rotation does not pass: with a mean (LayerNorm), or
  /// after a block's parts (Gemma); and for one behind a transform that looks at inputs, which are turned before any block runs.
  Rotations(const std::vector<std::shared_ptr<Transform>>& transforms, const ModelSpec& spec);
  bool turns_residual() const { return !residual_.empty(); }
  /// How many transforms stand before the first that turns anything.
  std::size_t transforms_before() const { return before_; }
  void turn(EditableBlock& block, const ModelSpec& spec, Device& device) const;
  /// (N,E) rows of an embedding, which become the residual stream.
  void turn_rows(View<float, 2> rows, Device& device) const;
  /// A head w(V,E) behind the output norm, whose weights are then 1.
  void fold_into_head(View<float, 2> head, View<float, 1> norm, Device& device) const;

 private:
  std::vector<std::shared_ptr<const Rotation>> residual_, values_;
  std::size_t before_ = 0;
};

}  // namespace patchbay

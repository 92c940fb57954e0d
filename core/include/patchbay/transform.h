/// @file transform.h
/// Interface of a transform: which equal model to quantise instead. What it does to one matrix is undone in another, so that in exact
/// arithmetic the model computes the same, but its weights (and the inputs of its matrices) are easier to round.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "patchbay/statistics.h"
#include "patchbay/weight_format.h"

namespace patchbay {

/// A weight w(R,C) in fp32 that a transform may change.
struct EditableMatrix {
  std::string name;            ///< "blk.3.attn_q.weight"
  View<float, 2> w;
  View<float, 1> bias;         ///< (R), or empty
  std::shared_ptr<const WeightFormat> format;  ///< what it will be stored in; null: it is not quantised
};

/// Matrices that read one input x(T,C), and what makes x: a norm, or the rows of another matrix. To scale column c of all consumers by s,
/// divide what makes x[c] by s.
struct LinearGroup {
  std::string name;                        ///< "blk.3.attn_q,attn_k,attn_v"
  std::vector<EditableMatrix> consumers;   ///< (R_i, C) each
  View<float, 1> norm_weight, norm_bias;   ///< (C) of the norm that makes x; empty where a matrix does. No bias: empty
  std::vector<EditableMatrix> producer;    ///< none, or the one matrix that makes x, linearly
  std::vector<std::int32_t> producer_row;  ///< (C): which of its rows makes x[c]. Several columns may come from one row: heads of queries
                                           ///< that share a head of values. Their factors must be equal
  Statistics statistics;                   ///< of x
};

/// An orthogonal matrix Q.
class PATCHBAY_API Rotation {
 public:
  virtual ~Rotation();
  /// rows(N,C) becomes rows Q, in place. @throws Error for a C that it cannot turn.
  virtual void turn(View<float, 2> rows) const = 0;
  /// rows(N,C) becomes rows Q^T.
  virtual void turn_back(View<float, 2> rows) const = 0;
};

class PATCHBAY_API Transform {
 public:
  virtual ~Transform();
  /// Of the groups' inputs.
  virtual Needs needs() const { return {}; }
  /// Changes a group into an equal one. Returns one line for the record ("alpha 0.5, largest input 41 to 6"), or "".
  virtual std::string apply(LinearGroup& group, Device& device) const;
  /// Turns the residual stream: x becomes x Q between all blocks, once the norms' weights are folded into the matrices behind them.
  /// Null: not turned.
  virtual std::shared_ptr<const Rotation> residual_rotation(std::int64_t hidden) const;
  /// Turns each head's values between v and the attention's output matrix. Null: not turned.
  virtual std::shared_ptr<const Rotation> value_rotation(std::int64_t head_size) const;
};

}  // namespace patchbay

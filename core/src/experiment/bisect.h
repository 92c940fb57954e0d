/// @file bisect.h
/// Where two configurations part: every intermediate of one forward pass, and every weight, of the one beside the other.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiment/array_difference.h"
#include "session.h"

namespace patchbay {

/// One operation's result in both passes. Names as in Probe.
struct OperationDifference {
  std::string operation;
  int layer = -1;                    ///< -1: outside the blocks
  std::vector<std::int64_t> shape;   ///< tokens first
  std::int64_t first_token = 0;      ///< position of row 0 in the prompt: logits are of the last token alone
  ArrayDifference difference;
  std::string weight;                ///< the tensor that the operation applies, or ""

  /// An element's place: token of the prompt, then the other indices.
  PATCHBAY_API std::vector<std::int64_t> place(std::int64_t element) const;
};

struct WeightDifference {
  std::string tensor, format_a, format_b;
  ArrayDifference difference;        ///< of the decoded values
};

struct Bisection {
  std::vector<OperationDifference> operations;  ///< all, in the order in which they are computed
  std::vector<WeightDifference> weights;        ///< those whose values differ, in the order of the forward pass
  std::int64_t weights_compared = 0;
  std::optional<std::size_t> first_bit;         ///< first operation with an other bit
  std::optional<std::size_t> first_beyond;      ///< first one whose relative RMSE is above the tolerance
  Token next_a = 0, next_b = 0;                 ///< the likeliest next token; -1: no logit is finite

  PATCHBAY_API const WeightDifference* weight(const std::string& tensor) const;  ///< null: equal, or no such tensor
};

/// A model under one configuration.
struct BisectSide {
  std::shared_ptr<const ModelFile> file;
  RunConfig config;
};

/// Runs the prompt through both, each in chunks of its own max_batched_tokens. Two sides of one file should share it.
/// @throws Error where the models are not alike enough to be set side by side, or the prompt's intermediates take too much memory.
PATCHBAY_API Bisection bisect(const BisectSide& a, const BisectSide& b, std::span<const Token> prompt, double tolerance);

}  // namespace patchbay

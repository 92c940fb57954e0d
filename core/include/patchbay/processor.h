/// @file processor.h
/// Interface of a logits processor: what may come next, and how likely. One object per sequence.
#pragma once
#include <cstdint>

#include "patchbay/model_runner.h"

namespace patchbay {

class PATCHBAY_API LogitsProcessor {
 public:
  virtual ~LogitsProcessor();
  /// A token became (or, while a draft is verified, is taken to be) part of the text. Prompt tokens are pushed too.
  virtual void push(Token) {}
  /// Takes back the last n pushes.
  virtual void rollback(std::int64_t) {}
  /// Changes logits (V) in place; a token is forbidden by -inf. At least one must stay finite.
  virtual void apply(View<float, 1> logits) = 0;
  /// Says of a draw on a GPU what apply() does, behind the processors that have done so before. False: it cannot be said.
  virtual bool add_to(TokenDraw&) const { return false; }
};

}  // namespace patchbay

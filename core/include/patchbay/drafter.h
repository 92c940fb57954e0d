/// @file drafter.h
/// Interface of a drafter: what a speculative decoder guesses.
#pragma once
#include <span>
#include <vector>

#include "patchbay/decoder.h"

namespace patchbay {

class PATCHBAY_API Drafter {
 public:
  virtual ~Drafter();
  /// At most k tokens for each sequence; fewer or none where there is no good guess.
  virtual std::vector<Draft> draft(std::span<Sequence* const> sequences, ModelRunner& target, int k) = 0;
  /// Tells which of the last draft's tokens were kept.
  virtual void accepted(const Sequence&, const Draft&, const Accepted&) {}
};

}  // namespace patchbay

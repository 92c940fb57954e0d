/// @file normalizer.h
/// The first step of a tokenizer: text to text.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/description.h"

namespace patchbay {

/// Thread rule: const methods from any thread.
class Normalizer {
 public:
  /// @throws Error for a pattern or a charsmap that is malformed.
  explicit Normalizer(const std::vector<NormalizerStep>& steps);
  bool empty() const { return steps_.empty(); }
  /// `text` is UTF-8, and so is the result.
  std::string apply(std::string_view text) const;

 private:
  std::vector<std::function<std::string(std::string_view)>> steps_;
};

}  // namespace patchbay

/// @file decoder.h
/// The way back: tokens' texts to bytes.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/description.h"

namespace patchbay {

/// Thread rule: const methods from any thread.
class Decoder {
 public:
  /// @throws Error for a pattern that is malformed.
  explicit Decoder(const std::vector<DecoderStep>& steps);

  /// The bytes of one token in the middle of a text: all that does not depend on its neighbours.
  std::string middle(std::string_view token) const;
  /// The bytes of a whole text.
  std::string whole(const std::vector<std::string_view>& tokens) const;

 private:
  using Pieces = std::vector<std::string>;
  using Step = std::function<void(Pieces&)>;
  struct Make;
  std::vector<Step> steps_, middle_steps_;
};

}  // namespace patchbay

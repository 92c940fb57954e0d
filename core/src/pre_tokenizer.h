/// @file pre_tokenizer.h
/// The first half of byte-level BPE: cuts text into pieces that merges never cross.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/tensor.h"

namespace patchbay {

/// What a model file's `tokenizer.ggml.pre` stands for.
struct PreTokenizerKind {
  std::string_view name;
  std::vector<std::string_view> patterns;  ///< applied one after the other, each to the pieces that the one before left
  bool whole_pieces = false;  ///< a piece that is a token is taken as it is, before any merge ("ignore_merges")
  bool add_bos = false;       ///< where the file does not say
};

/// Thread rule: const methods from any thread.
class PATCHBAY_API PreTokenizer {
 public:
  /// @throws Error for an unknown name, listing the known ones.
  explicit PreTokenizer(std::string_view name, const std::string& where);
  ~PreTokenizer();

  const PreTokenizerKind& kind() const { return kind_; }
  /// Calls piece(part) for the pieces of `text` in order; joined they are `text`. Bytes that are no UTF-8 are pieces apart.
  void split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;

 private:
  class Pattern;
  void split_by(std::size_t pattern, std::string_view text, FunctionRef<void(std::string_view)> piece) const;

  const PreTokenizerKind& kind_;
  std::vector<std::unique_ptr<Pattern>> patterns_;
};

}  // namespace patchbay

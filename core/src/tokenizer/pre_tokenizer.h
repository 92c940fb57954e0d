/// @file pre_tokenizer.h
/// The second step of a tokenizer: cuts text into pieces that the model never looks across.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/tensor.h"
#include "tokenizer/description.h"
#include "tokenizer/regex.h"

namespace patchbay {

/// Thread rule: const methods from any thread.
class PATCHBAY_API PreTokenizer {
 public:
  /// @throws Error for a pattern that is malformed.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);

  /// Calls piece(part) for the pieces of `text`, which is UTF-8, in order. at_start: nothing stands before it.
  void split(std::string_view text, bool at_start, FunctionRef<void(std::string_view)> piece) const { run(0, text, at_start, piece); }

 private:
  struct Split { Regex pattern; SplitBehavior behavior; bool invert; };
  struct ByteLevel { bool add_prefix_space; std::vector<Split> cut; };
  struct Metaspace { pre_tokenizers::Metaspace options; Regex space; Split cut; };
  using Step = std::variant<Split, Metaspace, ByteLevel, pre_tokenizers::UnicodeScripts>;
  struct Make;
  struct Run;

  void run(std::size_t step, std::string_view text, bool at_start, FunctionRef<void(std::string_view)> piece) const;
  std::vector<Step> steps_;
};

/// GPT-2's pattern, which ByteLevel uses.
extern const std::string_view kGpt2Pattern;

}  // namespace patchbay

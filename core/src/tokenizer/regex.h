/// @file regex.h
/// Regular expressions of tokenizer.json, whose syntax and meaning are Oniguruma's, run by PCRE2: it has Unicode classes and lookahead, does
/// not recurse once per character (std::regex does, and a long run of letters overflows the stack), and can be bounded.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "patchbay/tensor.h"
#include "tokenizer/description.h"

namespace patchbay {

/// Thread rule: const methods from any thread.
class PATCHBAY_API Regex {
 public:
  /// @throws Error when the pattern is malformed, or uses what the two syntaxes do not share and we do not translate.
  explicit Regex(const Pattern& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// Calls part(begin, end, is_match) for all of `text`, which is UTF-8, in order: matches (which may be empty) and what lies between them.
  /// @throws Error when the pattern backtracks beyond all reason.
  void parts(std::string_view text, FunctionRef<void(std::size_t, std::size_t, bool)> part) const;
  /// All matches replaced.
  std::string replaced(std::string_view text, std::string_view content) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

/// The pattern in PCRE2's syntax. @throws Error for what cannot be said there.
std::string translated_from_oniguruma(std::string_view pattern);

}  // namespace patchbay

#include "tokenizer/regex.h"

#include <fmt/format.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "utf8.h"

namespace patchbay {
namespace {

// A pattern that needs more steps than this at one place of the text runs away (nested quantifiers). Those of real tokenizers take a few
// steps per character.
constexpr std::uint32_t kMaxSteps = 100'000'000;
constexpr std::uint32_t kMaxHeapKiB = 512 << 10;

std::string message_of(int code) {
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

struct FreeCode { void operator()(pcre2_code* code) const { pcre2_code_free(code); } };
struct FreeMatch { void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); } };
struct FreeContext { void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); } };

template <class T>
T* allocated(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return object;
}

/// Room for one match, which is read before the next is looked for: one per thread will do for all patterns.
pcre2_match_data* match_room() {
  thread_local const std::unique_ptr<pcre2_match_data, FreeMatch> room(allocated(pcre2_match_data_create(1, nullptr)));
  return room.get();
}

}  // namespace

struct Regex::Code {
  std::unique_ptr<pcre2_code, FreeCode> compiled;
  std::unique_ptr<pcre2_match_context, FreeContext> limits{allocated(pcre2_match_context_create(nullptr))};
};

Regex::Regex(const Pattern& pattern) : code_(std::make_unique<Code>()) {
  const std::string text = pattern.literal ? pattern.text : translated_from_oniguruma(pattern.text);
  const std::uint32_t options = pattern.literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->compiled.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &error, &at, nullptr));
  if (!code_->compiled) throw Error(fmt::format("pattern '{}'", escaped(pattern.text, 200)), message_of(error));
  pcre2_jit_compile(code_->compiled.get(), PCRE2_JIT_COMPLETE);  // where it fails, pcre2_match interprets: slower, the same result
  pcre2_set_match_limit(code_->limits.get(), kMaxSteps);
  pcre2_set_heap_limit(code_->limits.get(), kMaxHeapKiB);
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

// An empty match right behind another match does not count, an empty match never stops the search, and an empty text is not searched: as
// Oniguruma's callers have it.
void Regex::parts(std::string_view text, FunctionRef<void(std::size_t, std::size_t, bool)> part) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t done = 0, from = 0;
  bool matched_before = false;
  while (from <= text.size() && !text.empty()) {
    std::uint32_t options = PCRE2_NO_UTF_CHECK;
    int found = pcre2_match(code_->compiled.get(), subject, text.size(), from, options, match_room(), code_->limits.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter has the heap
      options |= PCRE2_NO_JIT;
      found = pcre2_match(code_->compiled.get(), subject, text.size(), from, options, match_room(), code_->limits.get());
    }
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) throw Error("tokenizer pattern", message_of(found), "", "another pattern, or a shorter text");
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match_room());
    const std::size_t begin = ends[0], end = ends[1];
    if (begin == end && matched_before && begin == done) {
      from = end < text.size() ? end + first_utf8_unit(text.substr(end)).bytes : end + 1;
      continue;
    }
    if (begin > done) part(done, begin, false);
    part(begin, end, true);
    done = from = end;
    matched_before = true;
  }
  if (done < text.size()) part(done, text.size(), false);
}

std::string Regex::replaced(std::string_view text, std::string_view content) const {
  std::string result;
  parts(text, [&](std::size_t begin, std::size_t end, bool is_match) { result += is_match ? content : text.substr(begin, end - begin); });
  return result;
}

}  // namespace patchbay

#include "tokenizer/pre_tokenizer.h"

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

namespace patchbay {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

using Emit = FunctionRef<void(std::size_t, std::size_t)>;

/// Collects neighbouring parts into pieces: a piece grows while `joins(previous part is a match, this one is)`.
template <class Joins>
void joined(const Regex& pattern, bool invert, std::string_view text, Joins&& joins, Emit emit) {
  std::size_t begin = 0, end = 0;
  bool previous = false, any = false;
  pattern.parts(text, [&](std::size_t part_begin, std::size_t part_end, bool found) {
    const bool is_match = found != invert;
    if (any && !joins(previous, is_match)) {
      if (end > begin) emit(begin, end);
      begin = part_begin;
    }
    end = part_end;
    previous = is_match;
    any = true;
  });
  if (end > begin) emit(begin, end);
}

void cut(const Regex& pattern, SplitBehavior behavior, bool invert, std::string_view text, Emit emit) {
  switch (behavior) {
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      pattern.parts(text, [&](std::size_t begin, std::size_t end, bool found) {
        if (end > begin && (behavior == SplitBehavior::isolated || found == invert)) emit(begin, end);
      });
      return;
    case SplitBehavior::contiguous:
      return joined(pattern, invert, text, [](bool previous, bool match) { return previous == match; }, emit);
    case SplitBehavior::merged_with_previous:
      return joined(pattern, invert, text, [](bool previous, bool match) { return match && !previous; }, emit);
    case SplitBehavior::merged_with_next:
      return joined(pattern, invert, text, [](bool previous, bool match) { return previous && !match; }, emit);
  }
}

}  // namespace

struct PreTokenizer::Make {
  Step operator()(const pre_tokenizers::Split& step) const { return Split{Regex(step.pattern), step.behavior, step.invert}; }
  Step operator()(const pre_tokenizers::Metaspace& step) const {
    return Metaspace{step, Regex({" ", true}), {Regex({step.replacement, true}), SplitBehavior::merged_with_next, false}};
  }
  Step operator()(const pre_tokenizers::ByteLevel& step) const {
    ByteLevel made{step.add_prefix_space, {}};
    if (step.use_regex) made.cut.push_back({Regex({std::string(kGpt2Pattern), false}), SplitBehavior::isolated, false});
    return made;
  }
  Step operator()(const pre_tokenizers::UnicodeScripts& step) const { return step; }
};

/// One step on one piece; the pieces that it leaves go through the steps after it.
struct PreTokenizer::Run {
  const PreTokenizer& all;
  std::size_t step;
  std::string_view text;
  bool at_start;
  FunctionRef<void(std::string_view)> piece;

  void next(std::string_view whole, std::size_t begin, std::size_t end) const {
    all.run(step + 1, whole.substr(begin, end - begin), at_start && begin == 0, piece);
  }
  void split(const Split& how, std::string_view whole) const {
    cut(how.pattern, how.behavior, how.invert, whole, [&](std::size_t begin, std::size_t end) { next(whole, begin, end); });
  }
  void operator()(const Split& how) const { split(how, text); }

  void operator()(const Metaspace& how) const {
    using Prepend = pre_tokenizers::Metaspace::Prepend;
    const std::string& mark = how.options.replacement;
    std::string marked = how.space.replaced(text, mark);
    const bool wanted = how.options.prepend == Prepend::always || (how.options.prepend == Prepend::first && at_start);
    if (wanted && !marked.starts_with(mark)) marked.insert(0, mark);
    if (!how.options.split) return next(marked, 0, marked.size());
    split(how.cut, marked);
  }

  void operator()(const ByteLevel& how) const {
    std::string spaced;
    std::string_view whole = text;
    if (how.add_prefix_space && !text.starts_with(' ')) whole = spaced = " " + std::string(text);
    const auto spell = [&](std::size_t begin, std::size_t end) {
      std::string spelled;
      append_in_byte_alphabet(whole.substr(begin, end - begin), spelled);
      all.run(step + 1, spelled, at_start && begin == 0, piece);
    };
    if (how.cut.empty()) return spell(0, whole.size());
    cut(how.cut[0].pattern, how.cut[0].behavior, how.cut[0].invert, whole, spell);
  }

  // Spaces belong to what stands before them; what stands before the first script is dropped, as the original does.
  void operator()(const pre_tokenizers::UnicodeScripts&) const {
    std::size_t begin = text.size(), at = 0;
    ScriptGroup previous = ScriptGroup::any;
    for_each_character(text, [&](char32_t c, std::string_view bytes) {
      const ScriptGroup group = script_group(c);
      if (group != ScriptGroup::any && group != previous) {
        if (previous != ScriptGroup::any) next(text, begin, at);
        begin = at;
        previous = group;
      }
      at += bytes.size();
    });
    if (at > begin) next(text, begin, at);
  }
};

PreTokenizer::PreTokenizer(const std::vector<PreTokenizerStep>& steps) {
  for (const PreTokenizerStep& step : steps) steps_.push_back(std::visit(Make(), step));
}

void PreTokenizer::run(std::size_t step, std::string_view text, bool at_start, FunctionRef<void(std::string_view)> piece) const {
  if (text.empty()) return;
  if (step == steps_.size()) return piece(text);
  std::visit(Run{*this, step, text, at_start, piece}, steps_[step]);
}

}  // namespace patchbay

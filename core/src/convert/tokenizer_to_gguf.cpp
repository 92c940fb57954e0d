// The keys are those that tokenizer/gguf_vocabulary.cpp reads; what their values stand for is said there.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "convert/tokenizer_forms.h"
#include "patchbay/error.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/readers.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr const char* kMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

enum GgufTokenType : std::int32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

/// A pattern with the characters in place of their escapes \r, \n, \t, \x{HHHH}: files write them either way.
std::string unescaped(std::string_view pattern) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      text += pattern[i];
      continue;
    }
    const char c = pattern[++i];
    const std::size_t end = pattern.find('}', i);
    std::uint32_t code = c == 'r' ? '\r' : c == 'n' ? '\n' : c == 't' ? '\t' : 0;
    if (c == 'x' && pattern.substr(i).starts_with("x{") && end != pattern.npos) {
      std::from_chars(pattern.data() + i + 2, pattern.data() + end, code, 16);
      i = end;
    }
    if (code > 0) append_utf8(text, code);
    else text.append({'\\', c});
  }
  return text;
}

/// Steps as text, so that two lists can be compared. ByteLevel's own pattern is written out.
std::string written(const std::vector<PreTokenizerStep>& steps) {
  std::string text;
  const auto add_split = [&](const Pattern& pattern, SplitBehavior behavior, bool invert) {
    text += fmt::format("split {} {} {} {}\n", pattern.literal, static_cast<int>(behavior), invert, pattern.literal ? pattern.text : unescaped(pattern.text));
  };
  for (const PreTokenizerStep& step : steps) {
    if (const auto* split = std::get_if<pre_tokenizers::Split>(&step)) {
      add_split(split->pattern, split->behavior, split->invert);
    } else if (const auto* bytes = std::get_if<pre_tokenizers::ByteLevel>(&step)) {
      if (bytes->use_regex) add_split({std::string(kGpt2Pattern), false}, SplitBehavior::isolated, false);
      text += fmt::format("bytes {}\n", bytes->add_prefix_space);
    } else if (std::holds_alternative<pre_tokenizers::Metaspace>(step)) {
      text += "metaspace\n";
    } else {
      text += "scripts\n";
    }
  }
  return text;
}

class Writer {
 public:
  Writer(GgufWriter& out, const TokenizerDescription& tokenizer, int vocabulary, const std::string& where)
      : out_(out), tokenizer_(tokenizer), size_(vocabulary), where_(where), is_added_(static_cast<std::size_t>(std::max(vocabulary, tokenizer.vocabulary.size()))) {
    for (const AddedToken& added : tokenizer.added_tokens) is_added_[static_cast<std::size_t>(added.token)] = true;
  }

  std::vector<std::string> run() {
    const auto* bpe = std::get_if<BpeDescription>(&tokenizer_.model);
    if (!bpe) refuse("a Unigram model is not written", "BPE");
    if (!bpe->continuing_prefix.empty() || !bpe->end_suffix.empty()) refuse("marks inside words are unknown to GGUF", "BPE without prefix and suffix");
    const bool bytes = std::ranges::any_of(tokenizer_.pre_tokenizer, [](const auto& step) { return std::holds_alternative<pre_tokenizers::ByteLevel>(step); });
    bytes ? add_byte_level(*bpe) : add_sentencepiece(*bpe);
    add_tokens();
    add_frame();
    note_flags();
    return std::move(notes_);
  }

 private:
  [[noreturn]] void refuse(std::string problem, std::string allowed) const { throw Error(where_, "cannot be said in GGUF: " + problem, std::move(allowed)); }
  static std::string key(std::string_view name) { return fmt::format("tokenizer.ggml.{}", name); }
  std::string text(Token token) const { return std::string(tokenizer_.vocabulary.text(token)); }

  // The two kinds -------------------------------------------------------------------------------------------------------------

  void add_byte_level(const BpeDescription& bpe) {
    out_.text(key("model"), "gpt2");
    const std::string steps = written(tokenizer_.pre_tokenizer);
    const auto same = [&](const std::string& name) {
      const KnownPreTokenizer kind = known_pre_tokenizer(name, where_);
      return kind.whole_pieces == bpe.whole_pieces && written(kind.steps) == steps;
    };
    const std::vector<std::string> names = known_pre_tokenizers();
    const auto name = std::ranges::find_if(names, same);
    if (name == names.end()) refuse("its pre_tokenizer has no name there", fmt::format("{}", fmt::join(names, ", ")));
    out_.text(key("pre"), *name);
    for (const NormalizerStep& step : tokenizer_.normalizer) {
      const auto* unicode = std::get_if<normalizers::Unicode>(&step);
      if (!unicode || unicode->form != normalizers::Unicode::Form::nfc) refuse("its normalizer has no name there", "none, or NFC, which is left out");
      notes_.push_back("the normalizer NFC is left out: text that is not in NFC becomes other tokens");
    }
    std::vector<std::string> lines;
    for (const BpeMerge& merge : by_rank(bpe)) {
      if (merge.result < size_) lines.push_back(text(merge.left) + " " + text(merge.right));
    }
    if (std::ranges::any_of(lines, [](const std::string& line) { return std::ranges::count(line, ' ') != 1; })) refuse("a merge holds a space", "tokens in the byte alphabet");
    out_.texts(key("merges"), lines);
  }

  void add_sentencepiece(const BpeDescription& bpe) {
    out_.text(key("model"), "llama");
    out_.text(key("pre"), "default");
    out_.boolean(key("add_space_prefix"), begins_with_space());
    if (!bpe.byte_fallback) refuse("SentencePiece's BPE without byte tokens", "byte_fallback: true");
    std::vector<float> scores = scores_of(bpe);
    out_.f32s(key("scores"), scores);
    if (bpe.unknown >= 0) out_.u32(key("unknown_token_id"), static_cast<std::uint32_t>(bpe.unknown));
  }

  /// Spaces become marks, and one may be put before the text: nothing else has a name.
  bool begins_with_space() const {
    bool prefix = false, marks = false, other = false;
    for (const NormalizerStep& step : tokenizer_.normalizer) {
      const auto* prepend = std::get_if<normalizers::Prepend>(&step);
      const auto* replace = std::get_if<normalizers::Replace>(&step);
      if (prepend && prepend->text == kMark && !marks) prefix = true;
      else if (replace && replace->pattern.literal && replace->pattern.text == " " && replace->content == kMark) marks = true;
      else other = true;
    }
    for (const PreTokenizerStep& step : tokenizer_.pre_tokenizer) {  // no space is left to cut at
      const auto* split = std::get_if<pre_tokenizers::Split>(&step);
      other |= !(split && split->pattern.literal && split->pattern.text == " ");
    }
    if (other || !marks) refuse("its normalizer and pre_tokenizer are not those of SentencePiece", "Prepend U+2581 and Replace ' ' by U+2581, no pre_tokenizer");
    return prefix;
  }

  static std::vector<BpeMerge> by_rank(const BpeDescription& bpe) {
    std::vector<BpeMerge> merges = bpe.merges;
    std::ranges::stable_sort(merges, {}, &BpeMerge::rank);
    return merges;
  }

  /// SentencePiece joins what makes the token with the best score, however it is cut; so a token's score is the rank of its first merge, and all ways to
  /// cut it must be merges. Added tokens are cut out of a text before: no merge meets them.
  std::vector<float> scores_of(const BpeDescription& bpe) const {
    std::vector<float> scores(static_cast<std::size_t>(size_), 0.0f);
    std::map<Token, std::int32_t> rank;
    std::size_t cuts = 0;
    Token last = -1;
    for (const BpeMerge& merge : by_rank(bpe)) {
      if (merge.result >= size_ || is_added(merge.left) || is_added(merge.right) || is_added(merge.result)) continue;
      const bool is_new = rank.emplace(merge.result, static_cast<std::int32_t>(rank.size())).second;
      if (!is_new && merge.result != last) refuse("merges into one token with others between them", "merges in the order of their tokens' scores");
      last = merge.result;
      ++cuts;
    }
    std::size_t possible = 0;
    for (Token token = 0; token < std::min(size_, tokenizer_.vocabulary.size()); ++token) {
      if (tokenizer_.vocabulary.type(token) == TokenType::normal && !is_added(token)) possible += ways_to_cut(tokenizer_.vocabulary.text(token));
    }
    if (possible != cuts) refuse(fmt::format("{} merges where SentencePiece has {}, one for each way to cut a token into two", cuts, possible), "merges as SentencePiece's models have them");
    for (const auto& [token, place] : rank) scores[static_cast<std::size_t>(token)] = -static_cast<float>(place);
    // Tokens that nothing joins into (characters) come after all others.
    for (std::size_t token = 0; token < scores.size(); ++token) {
      const bool known = static_cast<int>(token) < tokenizer_.vocabulary.size();
      if (known && !rank.contains(static_cast<Token>(token)) && tokenizer_.vocabulary.type(static_cast<Token>(token)) == TokenType::normal)
        scores[token] = -static_cast<float>(rank.size() + token);
    }
    return scores;
  }
  std::size_t ways_to_cut(std::string_view token) const {
    std::size_t ways = 0;
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      if ((token[cut] & 0xC0) == 0x80) continue;  // inside a character
      const Token left = tokenizer_.vocabulary.find(token.substr(0, cut)), right = tokenizer_.vocabulary.find(token.substr(cut));
      ways += left >= 0 && right >= 0 && !is_added(left) && !is_added(right);
    }
    return ways;
  }

  // What both have ------------------------------------------------------------------------------------------------------------

  void add_tokens() {
    const auto* bpe = std::get_if<BpeDescription>(&tokenizer_.model);
    std::vector<std::string> texts;
    std::vector<std::int32_t> types;
    for (Token token = 0; token < size_; ++token) {
      const TokenType type = token < tokenizer_.vocabulary.size() ? tokenizer_.vocabulary.type(token) : TokenType::absent;
      texts.push_back(type == TokenType::absent ? fmt::format("[PAD{}]", token) : as_text_has_it(token));
      types.push_back(type == TokenType::absent    ? kUnused
                      : type == TokenType::byte    ? kByte
                      : token == bpe->unknown      ? kUnknown
                      : type == TokenType::special ? kControl
                      : is_added(token)            ? kUserDefined
                                                   : kNormal);
    }
    out_.texts(key("tokens"), texts);
    out_.i32s(key("token_type"), types);
    const int more = tokenizer_.vocabulary.size() - size_;
    if (more > 0) notes_.push_back(fmt::format("{} tokens past the model's embedding are left out", more));
  }
  /// GGUF looks for added tokens in the text as it comes, where SentencePiece's marks are still spaces. In tokenizer.json runs of spaces are merged
  /// although they are listed as added, since there the text holds marks by then.
  std::string as_text_has_it(Token token) const {
    std::string content = text(token);
    const bool marked = is_added(token) && tokenizer_.vocabulary.type(token) != TokenType::special && std::ranges::any_of(tokenizer_.normalizer, [](const NormalizerStep& step) {
      const auto* replace = std::get_if<normalizers::Replace>(&step);
      return replace && replace->content == kMark;
    });
    for (std::size_t at = marked ? content.find(kMark) : content.npos; at != content.npos; at = content.find(kMark, at)) content.replace(at, 3, " ");
    return content;
  }
  bool is_added(Token token) const { return is_added_[static_cast<std::size_t>(token)]; }

  /// What is put around a text: BOS before it, EOS after it, or nothing.
  void add_frame() {
    const Token bos = !tokenizer_.prefix.empty() ? tokenizer_.prefix[0] : tokenizer_.bos;
    const Token eos = !tokenizer_.suffix.empty() ? tokenizer_.suffix[0] : tokenizer_.eos;
    if (tokenizer_.prefix.size() > 1 || tokenizer_.suffix.size() > 1) refuse("more than one token is put before or after a text", "one, BOS or EOS");
    const auto add = [&](std::string_view name, Token token) {
      if (token >= 0 && token < size_) out_.u32(key(name), static_cast<std::uint32_t>(token));
    };
    add("bos_token_id", bos);
    add("eos_token_id", eos);
    out_.boolean(key("add_bos_token"), !tokenizer_.prefix.empty());
    out_.boolean(key("add_eos_token"), !tokenizer_.suffix.empty());
    constexpr std::string_view kMoreEnds[] = {"eot_token_id", "eom_token_id"};
    std::size_t used = 0;
    for (const Token end : tokenizer_.ends) {
      if (end == eos || is_known_end(tokenizer_.vocabulary.text(end))) continue;  // found by its text
      if (used == std::size(kMoreEnds)) notes_.push_back(fmt::format("GGUF has no place for one more token that ends an answer: {}", end));
      else add(kMoreEnds[used++], end);
    }
  }

  /// GGUF says of an added token only whether it is special.
  void note_flags() {
    std::vector<std::string> odd;
    for (const AddedToken& added : tokenizer_.added_tokens) {
      if (added.single_word || added.lstrip || added.rstrip) odd.push_back(escaped(added.content, 40));
    }
    if (odd.empty()) return;
    const std::size_t shown = std::min<std::size_t>(odd.size(), 3);
    notes_.push_back(fmt::format("white space beside {} added tokens ({}{}) is kept: GGUF has no lstrip, rstrip, single_word", odd.size(),
                                 fmt::join(odd.begin(), odd.begin() + static_cast<std::ptrdiff_t>(shown), ", "), odd.size() > shown ? ", ..." : ""));
  }

  GgufWriter& out_;
  const TokenizerDescription& tokenizer_;
  int size_;
  std::string where_;
  std::vector<bool> is_added_;  ///< by token
  std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> add_gguf_tokenizer(GgufWriter& writer, const TokenizerDescription& tokenizer, int vocabulary, const std::string& where) {
  return Writer(writer, tokenizer, vocabulary, where).run();
}

}  // namespace patchbay

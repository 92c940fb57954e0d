// tokenizer.json: normalizer, pre_tokenizer and decoder. A type that is not listed here is an error, never left out.
#include <fmt/format.h>

#include <functional>
#include <map>

#include "tokenizer/readers.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr std::size_t kMaxSteps = 64;

template <class Step>
using StepReaders = std::map<std::string_view, std::function<void(const JsonNode&, std::vector<Step>&)>, std::less<>>;

/// Reads one component, whose `type` says what it is; a Sequence holds others, in `list`.
template <class Step>
void read_steps(const JsonNode& node, const StepReaders<Step>& readers, std::string_view list, std::vector<Step>& steps) {
  const JsonNode type = node.at("type");
  if (type.text() == "Sequence") {
    node.only({"type", list});
    return node.at(list).elements([&](const JsonNode& one) { read_steps(one, readers, list, steps); });
  }
  const auto reader = readers.find(type.text());
  if (reader == readers.end()) {
    std::string names = "Sequence";
    for (const auto& [name, unused] : readers) names += fmt::format(", {}", name);
    type.fail(fmt::format("unknown type '{}'", escaped(type.text(), 60)), names);
  }
  reader->second(node, steps);
  if (steps.size() > kMaxSteps) node.fail(fmt::format("more than {} steps", kMaxSteps));
}

Pattern read_pattern(const JsonNode& node) {
  node.only({"String", "Regex"});
  const auto text = node.find("String"), regex = node.find("Regex");
  if (text.has_value() == regex.has_value()) node.fail("says not what it is", "{\"String\": ...} or {\"Regex\": ...}");
  return text ? Pattern{std::string(text->text()), true} : Pattern{std::string(regex->text()), false};
}

SplitBehavior read_behavior(const JsonNode& node) {
  static const std::map<std::string_view, SplitBehavior, std::less<>> names = {{"Removed", SplitBehavior::removed},
                                                                               {"Isolated", SplitBehavior::isolated},
                                                                               {"MergedWithPrevious", SplitBehavior::merged_with_previous},
                                                                               {"MergedWithNext", SplitBehavior::merged_with_next},
                                                                               {"Contiguous", SplitBehavior::contiguous}};
  const auto found = names.find(node.text());
  if (found == names.end()) {
    node.fail(fmt::format("unknown behavior '{}'", escaped(node.text(), 60)), "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  }
  return found->second;
}

/// One character, as UTF-8.
std::string read_character(const JsonNode& node) {
  const std::string_view text = node.text();
  if (text.empty() || first_utf8_unit(text).bytes != text.size()) node.fail("must be one character");
  return std::string(text);
}

/// Newer files name the scheme, older ones have add_prefix_space.
pre_tokenizers::Metaspace::Prepend read_prepend(const JsonNode& node) {
  using Prepend = pre_tokenizers::Metaspace::Prepend;
  const auto scheme = node.find("prepend_scheme");
  if (!scheme) return node.boolean_or("add_prefix_space", true) ? Prepend::always : Prepend::never;
  if (scheme->text() == "always") return Prepend::always;
  if (scheme->text() == "first") return Prepend::first;
  if (scheme->text() == "never") return Prepend::never;
  scheme->fail(fmt::format("unknown scheme '{}'", escaped(scheme->text(), 60)), "always, first, never");
}

void check_metaspace(const JsonNode& node) {
  node.only({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"});
}

std::string from_base64(const JsonNode& node) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string_view text = node.text();
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) node.fail(fmt::format("'{}' is not base64", escaped(std::string_view(&c, 1))));
    bits = bits << 6 | static_cast<unsigned>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

// Normalizers ------------------------------------------------------------------------------------------------------------------

using Normalizers = std::vector<NormalizerStep>;

template <class Step>
auto plain() {
  return [](const JsonNode& node, auto& steps) {
    node.only({"type"});
    steps.emplace_back(Step{});
  };
}
template <normalizers::Unicode::Form form>
void unicode_form(const JsonNode& node, Normalizers& steps) {
  node.only({"type"});
  steps.push_back(normalizers::Unicode{form});
}

void bert_normalizer(const JsonNode& node, Normalizers& steps) {
  node.only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lowercase = node.boolean_or("lowercase", true);
  steps.push_back(normalizers::Bert{node.boolean_or("clean_text", true), node.boolean_or("handle_chinese_chars", true),
                                    node.boolean_or("strip_accents", lowercase), lowercase});
}

const StepReaders<NormalizerStep>& normalizer_readers() {
  using Form = normalizers::Unicode::Form;
  static const StepReaders<NormalizerStep> readers = {
      {"NFC", unicode_form<Form::nfc>},
      {"NFD", unicode_form<Form::nfd>},
      {"NFKC", unicode_form<Form::nfkc>},
      {"NFKD", unicode_form<Form::nfkd>},
      {"BertNormalizer", bert_normalizer},
      {"StripAccents", plain<normalizers::StripAccents>()},
      {"Lowercase", plain<normalizers::Lowercase>()},
      {"Nmt", plain<normalizers::Nmt>()},
      {"ByteLevel", plain<normalizers::ByteLevel>()},
      {"Strip",
       [](const JsonNode& node, Normalizers& steps) {
         node.only({"type", "strip_left", "strip_right"});
         steps.push_back(normalizers::Strip{node.boolean_or("strip_left", true), node.boolean_or("strip_right", true)});
       }},
      {"Precompiled",
       [](const JsonNode& node, Normalizers& steps) {
         node.only({"type", "precompiled_charsmap"});
         const auto map = node.find("precompiled_charsmap");
         if (map && !map->text().empty()) steps.push_back(normalizers::Precompiled{from_base64(*map), true});
       }},
      {"Replace",
       [](const JsonNode& node, Normalizers& steps) {
         node.only({"type", "pattern", "content"});
         steps.push_back(normalizers::Replace{read_pattern(node.at("pattern")), std::string(node.at("content").text())});
       }},
      {"Prepend",
       [](const JsonNode& node, Normalizers& steps) {
         node.only({"type", "prepend"});
         steps.push_back(normalizers::Prepend{std::string(node.at("prepend").text())});
       }},
  };
  return readers;
}

// Pre-tokenizers: all but three are regular expressions ------------------------------------------------------------------------

using PreTokenizers = std::vector<PreTokenizerStep>;

// Rust's char::is_whitespace and regex \w, char::is_numeric, and is_ascii_punctuation with Unicode's P.
constexpr const char* kWhiteSpace = R"(\s)";
constexpr const char* kWords = R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)";
constexpr const char* kPunctuation = R"([\p{P}$+<=>^`|~])";

void whitespace(const JsonNode& node, PreTokenizers& steps) {
  node.only({"type"});
  steps.emplace_back(pre_tokenizers::Split{{kWords, false}, SplitBehavior::removed, true});
}
void whitespace_split(const JsonNode& node, PreTokenizers& steps) {
  node.only({"type"});
  steps.emplace_back(pre_tokenizers::Split{{kWhiteSpace, false}, SplitBehavior::removed, false});
}
void bert_pre_tokenizer(const JsonNode& node, PreTokenizers& steps) {
  whitespace_split(node, steps);
  steps.emplace_back(pre_tokenizers::Split{{kPunctuation, false}, SplitBehavior::isolated, false});
}
void punctuation(const JsonNode& node, PreTokenizers& steps) {
  node.only({"type", "behavior"});
  const auto behavior = node.find("behavior");
  const SplitBehavior split = behavior ? read_behavior(*behavior) : SplitBehavior::isolated;
  steps.emplace_back(pre_tokenizers::Split{{kPunctuation, false}, split, false});
}
void digits(const JsonNode& node, PreTokenizers& steps) {
  node.only({"type", "individual_digits"});
  const bool individual = node.boolean_or("individual_digits", false);
  steps.emplace_back(pre_tokenizers::Split{{R"(\p{N})", false}, individual ? SplitBehavior::isolated : SplitBehavior::contiguous, false});
}
void split(const JsonNode& node, PreTokenizers& steps) {
  node.only({"type", "pattern", "behavior", "invert"});
  steps.push_back(
      pre_tokenizers::Split{read_pattern(node.at("pattern")), read_behavior(node.at("behavior")), node.boolean_or("invert", false)});
}
void delimiter(const JsonNode& node, PreTokenizers& steps) {
  node.only({"type", "delimiter"});
  steps.emplace_back(pre_tokenizers::Split{{read_character(node.at("delimiter")), true}, SplitBehavior::removed, false});
}
void byte_level(const JsonNode& node, PreTokenizers& steps) {
  node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  steps.emplace_back(pre_tokenizers::ByteLevel{node.boolean_or("add_prefix_space", true), node.boolean_or("use_regex", true)});
}
void metaspace(const JsonNode& node, PreTokenizers& steps) {
  check_metaspace(node);
  steps.push_back(
      pre_tokenizers::Metaspace{read_character(node.at("replacement")), read_prepend(node), node.boolean_or("split", true)});
}
void fixed_length(const JsonNode& node, PreTokenizers& steps) {
  node.only({"type", "length"});
  const auto length = node.find("length");
  const std::int64_t characters = length ? length->integer(1, 65535) : 5;
  steps.emplace_back(pre_tokenizers::Split{{fmt::format("(?m:.{{1,{}}})", characters), false}, SplitBehavior::isolated, false});
}

const StepReaders<PreTokenizerStep>& pre_tokenizer_readers() {
  static const StepReaders<PreTokenizerStep> readers = {
      {"Whitespace", whitespace}, {"WhitespaceSplit", whitespace_split}, {"BertPreTokenizer", bert_pre_tokenizer},
      {"Punctuation", punctuation}, {"Digits", digits}, {"Split", split}, {"CharDelimiterSplit", delimiter}, {"ByteLevel", byte_level},
      {"Metaspace", metaspace}, {"FixedLength", fixed_length}, {"UnicodeScripts", plain<pre_tokenizers::UnicodeScripts>()},
  };
  return readers;
}

// Decoders ---------------------------------------------------------------------------------------------------------------------

using Decoders = std::vector<DecoderStep>;

const StepReaders<DecoderStep>& decoder_readers() {
  static const StepReaders<DecoderStep> readers = {
      {"ByteLevel",
       [](const JsonNode& node, Decoders& steps) {
         node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
         steps.push_back(decoders::ByteLevel{});
       }},
      {"ByteFallback", plain<decoders::ByteFallback>()},
      {"Fuse", plain<decoders::Fuse>()},
      {"Replace",
       [](const JsonNode& node, Decoders& steps) {
         node.only({"type", "pattern", "content"});
         steps.push_back(decoders::Replace{read_pattern(node.at("pattern")), std::string(node.at("content").text())});
       }},
      {"Strip",
       [](const JsonNode& node, Decoders& steps) {
         node.only({"type", "content", "start", "stop"});
         steps.push_back(decoders::Strip{read_character(node.at("content")), node.at("start").index(), node.at("stop").index()});
       }},
      {"Metaspace",
       [](const JsonNode& node, Decoders& steps) {
         check_metaspace(node);
         const bool drop_first = read_prepend(node) != pre_tokenizers::Metaspace::Prepend::never;
         steps.push_back(decoders::Metaspace{read_character(node.at("replacement")), drop_first});
       }},
      {"BPEDecoder",
       [](const JsonNode& node, Decoders& steps) {
         node.only({"type", "suffix"});
         steps.push_back(decoders::BpeSuffix{std::string(node.text_or("suffix", "</w>"))});
       }},
  };
  return readers;
}

template <class Step>
std::vector<Step> read_part(const JsonNode& root, std::string_view key, std::string_view list, const StepReaders<Step>& readers) {
  std::vector<Step> steps;
  if (const auto node = root.find(key)) read_steps(*node, readers, list, steps);
  return steps;
}

}  // namespace

std::vector<NormalizerStep> read_normalizer(const JsonNode& root) { return read_part(root, "normalizer", "normalizers", normalizer_readers()); }
std::vector<PreTokenizerStep> read_pre_tokenizer(const JsonNode& root) {
  return read_part(root, "pre_tokenizer", "pretokenizers", pre_tokenizer_readers());
}
std::vector<DecoderStep> read_decoder(const JsonNode& root) {
  auto steps = read_part(root, "decoder", "decoders", decoder_readers());
  if (!root.find("decoder")) steps.push_back(decoders::Spaced{});
  return steps;
}

}  // namespace patchbay

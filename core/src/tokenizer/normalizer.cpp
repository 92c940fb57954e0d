#include "tokenizer/normalizer.h"

#include <memory>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

namespace patchbay {
namespace {

using Step = std::function<std::string(std::string_view)>;

std::string stripped(std::string_view text, bool left, bool right) {
  std::size_t begin = text.size(), end = 0, at = 0;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (!is_white_space(c)) {
      begin = std::min(begin, at);
      end = at + bytes.size();
    }
    at += bytes.size();
  });
  if (!left) begin = 0;
  if (!right) end = text.size();
  return begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
}

template <class Drop>
std::string without(std::string_view text, Drop&& drop) {
  std::string result;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    if (!drop(c)) result += bytes;
  });
  return result;
}

std::string lowercase(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t c, std::string_view) { append_lowercase(c, result); });
  return result;
}

/// The CJK blocks as BERT's tokenizer lists them.
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string bert_cleaned(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const bool plain_space = c == '\t' || c == '\n' || c == '\r';
    if (c == 0 || c == 0xFFFD || (!plain_space && is_other(c))) return;
    if (plain_space || is_white_space(c)) {
      result += ' ';
    } else {
      result += bytes;
    }
  });
  return result;
}

std::string with_chinese_padded(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const bool pad = is_chinese(c);
    if (pad) result += ' ';
    result += bytes;
    if (pad) result += ' ';
  });
  return result;
}

std::string bert(const normalizers::Bert& options, std::string_view given) {
  std::string text(given);
  if (options.clean_text) text = bert_cleaned(text);
  if (options.pad_chinese) text = with_chinese_padded(text);
  if (options.strip_accents) text = without(unicode_normalized(text, normalizers::Unicode::Form::nfd), is_nonspacing_mark);
  return options.lowercase ? lowercase(text) : text;
}

/// The rules of SentencePiece's "nmt_nfkc" for controls and spaces.
std::string nmt(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const bool dropped = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 || (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 ||
                       c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    if (!dropped) result += space ? " " : bytes;
  });
  return result;
}

struct MakeStep {
  Step operator()(const normalizers::Unicode& step) const {
    return [form = step.form](std::string_view text) { return unicode_normalized(text, form); };
  }
  Step operator()(const normalizers::Bert& step) const {
    return [step](std::string_view text) { return bert(step, text); };
  }
  Step operator()(const normalizers::Strip& step) const {
    return [step](std::string_view text) { return stripped(text, step.left, step.right); };
  }
  Step operator()(const normalizers::StripAccents&) const {
    return [](std::string_view text) { return without(text, is_mark); };
  }
  Step operator()(const normalizers::Lowercase&) const { return lowercase; }
  Step operator()(const normalizers::Nmt&) const { return nmt; }
  Step operator()(const normalizers::Precompiled& step) const {
    const auto map = std::make_shared<const Charsmap>(step.charsmap);
    return [map, whole = step.by_grapheme](std::string_view text) { return whole ? map->replaced_by_grapheme(text) : map->replaced(text); };
  }
  Step operator()(const normalizers::Replace& step) const {
    const auto pattern = std::make_shared<const Regex>(step.pattern);
    return [pattern, content = step.content](std::string_view text) { return pattern->replaced(text, content); };
  }
  Step operator()(const normalizers::Prepend& step) const {
    return [start = step.text](std::string_view text) { return text.empty() ? std::string() : start + std::string(text); };
  }
  Step operator()(const normalizers::ByteLevel&) const {
    return [](std::string_view text) {
      std::string result;
      append_in_byte_alphabet(text, result);
      return result;
    };
  }
};

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& step : steps) steps_.push_back(std::visit(MakeStep(), step));
}

std::string Normalizer::apply(std::string_view text) const {
  std::string result(text);
  for (const auto& step : steps_) result = step(result);
  return result;
}

}  // namespace patchbay

#include "tokenizer/decoder.h"

#include <memory>
#include <numeric>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

namespace patchbay {
namespace {

using Pieces = std::vector<std::string>;

std::string joined(const Pieces& pieces) { return std::accumulate(pieces.begin(), pieces.end(), std::string()); }

/// Bytes, so that a character spelled by several tokens comes out whole. A token outside the alphabet (an added one) is its own text.
void from_byte_level(Pieces& pieces) {
  for (std::string& piece : pieces) {
    std::string bytes;
    if (append_from_byte_alphabet(piece, bytes)) piece = bytes;
  }
}

/// A run of byte tokens is one piece.
void from_byte_tokens(Pieces& pieces) {
  Pieces merged;
  bool bytes_before = false;
  for (std::string& piece : pieces) {
    const auto byte = byte_of_text(piece);
    if (byte) piece.assign(1, static_cast<char>(*byte));
    if (byte && bytes_before) {
      merged.back() += piece;
    } else {
      merged.push_back(std::move(piece));
    }
    bytes_before = byte.has_value();
  }
  pieces = std::move(merged);
}

std::string stripped(std::string_view text, const decoders::Strip& how) {
  for (int i = 0; i < how.start && !how.content.empty() && text.starts_with(how.content); ++i) text.remove_prefix(how.content.size());
  for (int i = 0; i < how.stop && !how.content.empty() && text.ends_with(how.content); ++i) text.remove_suffix(how.content.size());
  return std::string(text);
}

}  // namespace

/// The step for a whole text; `middle` gets what of it applies to a token in the middle.
struct Decoder::Make {
  std::vector<Step>& whole;
  std::vector<Step>& middle;
  bool& fused;

  void both(const Step& step) const {
    whole.push_back(step);
    middle.push_back(step);
  }
  static Step each(std::function<std::string(const std::string&)> change) {
    return [change](Pieces& pieces) {
      for (std::string& piece : pieces) piece = change(piece);
    };
  }

  void operator()(const decoders::ByteLevel&) const { both(from_byte_level); }
  void operator()(const decoders::ByteFallback&) const { both(from_byte_tokens); }
  void operator()(const decoders::Fuse&) const {
    whole.push_back([](Pieces& pieces) { pieces = {joined(pieces)}; });
    fused = true;
  }
  void operator()(const decoders::Replace& step) const {
    const auto pattern = std::make_shared<const Regex>(step.pattern);
    both(each([pattern, content = step.content](const std::string& piece) {
      return is_utf8(piece) ? pattern->replaced(piece, content) : piece;
    }));
  }
  void operator()(const decoders::Strip& step) const {
    const Step strip = each([step](const std::string& piece) { return stripped(piece, step); });
    whole.push_back(strip);
    if (!fused) middle.push_back(strip);  // of the fused text only its ends are stripped
  }
  void operator()(const decoders::Metaspace& step) const {
    const auto mark = std::make_shared<const Regex>(Pattern{step.replacement, true});
    whole.push_back([mark, drop = step.drop_first](Pieces& pieces) {
      for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = mark->replaced(pieces[i], i == 0 && drop ? "" : " ");
    });
    middle.push_back(each([mark](const std::string& piece) { return mark->replaced(piece, " "); }));
  }
  void operator()(const decoders::BpeSuffix& step) const {
    const auto suffix = std::make_shared<const Regex>(Pattern{step.suffix, true});
    whole.push_back([suffix](Pieces& pieces) {
      for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = suffix->replaced(pieces[i], i + 1 == pieces.size() ? "" : " ");
    });
    middle.push_back(each([suffix](const std::string& piece) { return suffix->replaced(piece, " "); }));
  }
  void operator()(const decoders::Spaced&) const {
    whole.push_back([](Pieces& pieces) {
      for (std::size_t i = 1; i < pieces.size(); ++i) pieces[i].insert(0, " ");
    });
    middle.push_back(each([](const std::string& piece) { return " " + piece; }));
  }
};

Decoder::Decoder(const std::vector<DecoderStep>& steps) {
  bool fused = false;
  for (const DecoderStep& step : steps) std::visit(Make{steps_, middle_steps_, fused}, step);
}

std::string Decoder::middle(std::string_view token) const {
  Pieces pieces = {std::string(token)};
  for (const Step& step : middle_steps_) step(pieces);
  return joined(pieces);
}

std::string Decoder::whole(const std::vector<std::string_view>& tokens) const {
  Pieces pieces(tokens.begin(), tokens.end());
  for (const Step& step : steps_) step(pieces);
  return joined(pieces);
}

}  // namespace patchbay

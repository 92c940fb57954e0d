// A tokenizer from its description: added tokens are cut out, the rest is normalised, pre-tokenised, and each piece goes to the model.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "tokenizer.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/decoder.h"
#include "tokenizer/description.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "utf8.h"

namespace patchbay {
namespace {

/// Takes the model out of the description.
std::unique_ptr<TokenModel> make_model(TokenizerDescription& description) {
  if (auto* bpe = std::get_if<BpeDescription>(&description.model)) return make_bpe(std::move(*bpe), description.vocabulary);
  return make_unigram(std::move(std::get<UnigramDescription>(description.model)), description.vocabulary);
}

/// Added tokens that are looked for before, or after, normalisation.
std::vector<AddedToken> added_tokens(const TokenizerDescription& description, const Normalizer& normalizer, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : description.added_tokens) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    if (normalized) tokens.back().content = normalizer.apply(token.content);  // one that vanishes is never found
  }
  return tokens;
}

bool spells_bytes(const TokenizerDescription& description) {
  const auto is_byte_level = [](const auto& step) {
    return std::holds_alternative<pre_tokenizers::ByteLevel>(step);
  };
  const auto normalizes_bytes = [](const auto& step) { return std::holds_alternative<normalizers::ByteLevel>(step); };
  return std::ranges::any_of(description.pre_tokenizer, is_byte_level) || std::ranges::any_of(description.normalizer, normalizes_bytes);
}

bool asks_for_start(const TokenizerDescription& description) {
  return std::ranges::any_of(description.pre_tokenizer, [](const PreTokenizerStep& step) {
    const auto* metaspace = std::get_if<pre_tokenizers::Metaspace>(&step);
    return metaspace != nullptr && metaspace->prepend == pre_tokenizers::Metaspace::Prepend::first;
  });
}

class Pipeline : public Tokenizer {
 public:
  explicit Pipeline(TokenizerDescription description)
      : description_(std::move(description)), normalizer_(description_.normalizer), pre_tokenizer_(description_.pre_tokenizer),
        model_(make_model(description_)), raw_tokens_(added_tokens(description_, normalizer_, false)),
        normalized_tokens_(added_tokens(description_, normalizer_, true)), decoder_(description_.decoder),
        byte_level_(spells_bytes(description_)), asks_for_start_(asks_for_start(description_)) {
    decode_pieces();
  }

  std::vector<Token> encode(std::string_view text, bool parse_special, bool add_special) const override {
    std::vector<Token> tokens;
    if (add_special) tokens = description_.prefix;
    encode_whole(text, {}, parse_special, tokens);
    if (add_special) tokens.insert(tokens.end(), description_.suffix.begin(), description_.suffix.end());
    return tokens;
  }
  std::vector<Token> encode(const FramedText& text) const override {
    std::vector<Token> tokens;
    encode_whole(text.text, {text.data, text.own_words}, true, tokens);
    return tokens;
  }

  std::string_view piece(Token token, bool special) const override {
    check(token);
    if (!special && description_.vocabulary.type(token) == TokenType::special) return {};
    const auto id = static_cast<std::size_t>(token);
    return std::string_view(pieces_).substr(piece_begins_[id], piece_begins_[id + 1] - piece_begins_[id]);
  }
  std::string decode_text(std::span<const Token> tokens, bool special) const override {
    std::vector<std::string_view> texts;
    for (const Token token : tokens) {
      check(token);
      if (special || description_.vocabulary.type(token) != TokenType::special) texts.push_back(description_.vocabulary.text(token));
    }
    return decoder_.whole(texts);
  }
  int size() const override { return description_.vocabulary.size(); }
  Token bos() const override { return description_.bos; }
  Token eos() const override { return description_.eos; }
  bool is_end_of_generation(Token token) const override { return std::ranges::find(description_.ends, token) != description_.ends.end(); }

 private:
  /// What one call of encode carries along.
  struct Run {
    bool parse_special;
    TokenModel::Workspace& workspace;
    std::vector<Token>& tokens;
    Frame frame;
    bool in_data = false;
  };

  void encode_whole(std::string_view text, const Frame& frame, bool parse_special, std::vector<Token>& tokens) const {
    if (text.size() > INT32_MAX) throw Error("text", fmt::format("{} bytes are too many", text.size()), "below 2 GiB");
    const auto workspace = model_->workspace();
    Run run{parse_special, *workspace, tokens, frame};
    const auto part = [&](std::size_t begin, std::size_t end, Token token) {
      if (token >= 0) return tokens.push_back(token);
      encode_stretch(text, begin, end, run);
    };
    try {
      raw_tokens_.split(text, parse_special, part, frame);
    } catch (const MissingCharacter& missing) {
      refuse(text, missing.bytes);
    }
  }

  /// Tokens that are looked for after normalisation are so in frame and data apart: once normalised, nobody knows where which came from.
  void encode_stretch(std::string_view text, std::size_t begin, std::size_t end, Run& run) const {
    if (run.frame.data.empty() || normalized_tokens_.empty()) return encode_bytes(text.substr(begin, end - begin), begin == 0, run);
    for (const TextRange& range : run.frame.data) {
      const std::size_t data = std::clamp(range.begin, begin, end), after = std::clamp(range.end, begin, end);
      encode_bytes(text.substr(begin, data - begin), begin == 0, run);
      run.in_data = true;
      encode_bytes(text.substr(data, after - data), data == 0, run);
      run.in_data = false;
      begin = after;
    }
    encode_bytes(text.substr(begin, end - begin), begin == 0, run);
  }

  void check(Token token) const {
    if (token >= 0 && token < size()) return;
    throw Error("token", fmt::format("{} is outside the vocabulary", token), fmt::format("0 to {}", size() - 1));
  }

  void decode_pieces() {
    piece_begins_.push_back(0);
    for (Token token = 0; token < size(); ++token) {
      pieces_ += decoder_.middle(description_.vocabulary.text(token));
      piece_begins_.push_back(pieces_.size());
    }
  }

  /// Bytes that are no UTF-8 never reach normaliser and patterns: they are pieces apart.
  void encode_bytes(std::string_view text, bool at_start, Run& run) const {
    while (!text.empty()) {
      std::size_t good = 0;
      Utf8Unit unit;
      while (good < text.size()) {
        unit = first_utf8_unit(text.substr(good));
        if (unit.kind != Utf8Unit::Kind::character) break;
        good += unit.bytes;
      }
      if (good > 0) encode_text(text.substr(0, good), at_start, run);
      at_start = false;
      if (good < text.size()) encode_stray(text.substr(good, unit.bytes), run);
      text.remove_prefix(good < text.size() ? good + unit.bytes : good);
    }
  }

  void encode_stray(std::string_view bytes, Run& run) const {
    if (!byte_level_) return model_->encode_unknown(bytes, run.tokens);
    std::string spelled;
    append_in_byte_alphabet(bytes, spelled);
    model_->encode(spelled, run.workspace, run.tokens);
  }

  void encode_text(std::string_view text, bool at_start, Run& run) const {
    if (normalizer_.empty()) return encode_normalized(text, at_start, run);
    const std::string normalized = normalizer_.apply(text);
    encode_normalized(normalized, at_start && !(asks_for_start_ && first_vanished(text, normalized)), run);
  }
  /// What follows a first character that vanished does not stand at the start of the original text, and that is what counts.
  bool first_vanished(std::string_view text, std::string_view normalized) const {
    return normalizer_.apply(text.substr(first_utf8_unit(text).bytes)) == normalized;
  }

  void encode_normalized(std::string_view text, bool at_start, Run& run) const {
    const auto encode_piece = [&](std::string_view piece) { model_->encode(piece, run.workspace, run.tokens); };
    if (normalized_tokens_.empty()) return pre_tokenizer_.split(text, at_start, encode_piece);
    const auto part = [&](std::size_t begin, std::size_t end, Token token) {
      if (token >= 0) return run.tokens.push_back(token);
      pre_tokenizer_.split(text.substr(begin, end - begin), at_start && begin == 0, encode_piece);
    };
    const TextRange all{0, text.size()};
    normalized_tokens_.split(text, run.parse_special, part, run.in_data ? Frame{{&all, 1}, run.frame.own_words} : Frame{});
  }

  [[noreturn]] void refuse(std::string_view text, const std::string& missing) const {
    std::string bytes = missing;
    if (byte_level_) {
      bytes.clear();
      append_from_byte_alphabet(missing, bytes);
    }
    std::string names;
    for (const char byte : bytes) names += fmt::format("{}0x{:02x}", names.empty() ? "" : " ", static_cast<unsigned char>(byte));
    const std::size_t at = text.find(bytes);
    throw Error(at == std::string_view::npos ? "text" : fmt::format("text, byte {}", at),
                fmt::format("{} has no token in this model's vocabulary", names), "", "take it out of the text");
  }

  TokenizerDescription description_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<TokenModel> model_;
  AddedTokens raw_tokens_, normalized_tokens_;
  Decoder decoder_;
  bool byte_level_;      ///< texts are spelled in the byte alphabet before they reach the model
  bool asks_for_start_;  ///< whether a piece begins the text makes a difference
  std::string pieces_;                     ///< what each token stands for, one after the other
  std::vector<std::size_t> piece_begins_;  ///< and the end
};

}  // namespace

Tokenizer::~Tokenizer() = default;

std::string Tokenizer::decode(std::span<const Token> tokens, bool special) const {
  std::string text;
  for (const Token token : tokens) text += piece(token, special);
  return text;
}

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerDescription description, const std::string& where) {
  try {
    return std::make_unique<Pipeline>(std::move(description));
  } catch (const Error& error) {
    throw error.at(where);
  }
}

}  // namespace patchbay

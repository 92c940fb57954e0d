// Text to tokens: special tokens are cut out first, the rest is pre-tokenised, each piece is merged.
#include "tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>

#include "byte_bpe.h"
#include "pre_tokenizer.h"
#include "utf8.h"

namespace patchbay {
namespace {

// Tokens that end an answer, by their text: files often name only one of them as EOS.
constexpr std::string_view kEndTexts[] = {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>",
                                          "<|end|>",       "<end_of_turn>",   "<|endofturn|>", "</s>",    "<EOT>"};

bool is_special(TokenType type) { return type == TokenType::control || type == TokenType::unknown; }

/// Finds special tokens in text: the leftmost, the longest among those that begin there.
class SpecialTokens {
 public:
  struct Found { std::size_t at; Token token; };

  explicit SpecialTokens(const ByteBpe& vocabulary) : vocabulary_(vocabulary) {
    for (Token token = 0; token < vocabulary.size(); ++token) {
      const bool cut_out = is_special(vocabulary.type(token)) || vocabulary.type(token) == TokenType::user_defined;
      const std::string_view text = vocabulary.bytes(token);
      if (cut_out && !text.empty()) by_first_[static_cast<unsigned char>(text[0])].push_back(token);
    }
    for (std::vector<Token>& tokens : by_first_) {
      std::ranges::stable_sort(tokens, std::greater(), [&](Token token) { return vocabulary_.bytes(token).size(); });
    }
  }
  /// At or after `from`. Without parse_special only user-defined tokens count: they are part of the text, not of its frame.
  Found find(std::string_view text, std::size_t from, bool parse_special) const {
    for (std::size_t i = from; i < text.size(); ++i) {
      for (const Token token : by_first_[static_cast<unsigned char>(text[i])]) {
        if (!parse_special && is_special(vocabulary_.type(token))) continue;
        if (text.substr(i).starts_with(vocabulary_.bytes(token))) return {i, token};
      }
    }
    return {text.size(), -1};
  }

 private:
  const ByteBpe& vocabulary_;
  std::array<std::vector<Token>, 256> by_first_;
};

class BpeTokenizer : public Tokenizer {
 public:
  BpeTokenizer(const ModelFile& file, std::string_view pre)
      : vocabulary_(file), pre_tokenizer_(pre, escaped(file.path()) + ": tokenizer.ggml.pre"), special_(vocabulary_) {
    bos_ = token_of(file, "bos_token_id");
    eos_ = token_of(file, "eos_token_id");
    add_bos_ = file.maybe_boolean("tokenizer.ggml.add_bos_token").value_or(pre_tokenizer_.kind().add_bos) && bos_ >= 0;
    add_eos_ = file.maybe_boolean("tokenizer.ggml.add_eos_token").value_or(false) && eos_ >= 0;
    find_ends(file);
  }

  std::vector<Token> encode(std::string_view text, bool parse_special, bool add_special) const override {
    if (text.size() > INT32_MAX) throw Error("text", fmt::format("{} bytes are too many", text.size()), "below 2 GiB");
    std::vector<Token> tokens;
    ByteBpe::Workspace workspace;
    if (add_special && add_bos_) tokens.push_back(bos_);
    for (std::size_t done = 0; done < text.size();) {
      const SpecialTokens::Found found = special_.find(text, done, parse_special);
      encode_plain(text, done, found.at, workspace, tokens);
      done = found.at;
      if (found.token < 0) break;
      tokens.push_back(found.token);
      done += vocabulary_.bytes(found.token).size();
    }
    if (add_special && add_eos_) tokens.push_back(eos_);
    return tokens;
  }

  std::string_view piece(Token token, bool special) const override {
    if (token < 0 || token >= size()) {
      throw Error("token", fmt::format("{} is outside the vocabulary", token), fmt::format("0 to {}", size() - 1));
    }
    return is_special(vocabulary_.type(token)) && !special ? std::string_view() : vocabulary_.bytes(token);
  }
  int size() const override { return vocabulary_.size(); }
  Token bos() const override { return bos_; }
  Token eos() const override { return eos_; }
  bool is_end_of_generation(Token token) const override { return std::ranges::find(ends_, token) != ends_.end(); }

 private:
  Token token_of(const ModelFile& file, std::string_view name) const {
    const std::string key = fmt::format("tokenizer.ggml.{}", name);
    const auto id = file.maybe_integer(key);
    if (!id) return -1;
    if (*id >= static_cast<std::uint64_t>(size())) {
      throw Error(fmt::format("{}: {}", escaped(file.path()), key), fmt::format("token id out of range: {}", *id),
                  fmt::format("0 to {}", size() - 1));
    }
    return static_cast<Token>(*id);
  }

  void find_ends(const ModelFile& file) {
    for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
      if (const Token token = token_of(file, name); token >= 0) ends_.push_back(token);
    }
    for (Token token = 0; token < size(); ++token) {
      if (!is_special(vocabulary_.type(token))) continue;
      if (std::ranges::find(kEndTexts, vocabulary_.bytes(token)) != std::end(kEndTexts)) ends_.push_back(token);
    }
  }

  void encode_plain(std::string_view text, std::size_t begin, std::size_t end, ByteBpe::Workspace& workspace,
                    std::vector<Token>& tokens) const {
    for (std::size_t i = begin; i < end; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if (vocabulary_.byte_token(byte) < 0) {
        throw Error(fmt::format("text, byte {}", i), fmt::format("0x{:02x} has no token in this model's vocabulary", byte), "",
                    "take it out of the text");
      }
    }
    pre_tokenizer_.split(text.substr(begin, end - begin), [&](std::string_view piece) {
      vocabulary_.encode(piece, pre_tokenizer_.kind().whole_pieces, workspace, tokens);
    });
  }

  ByteBpe vocabulary_;
  PreTokenizer pre_tokenizer_;
  SpecialTokens special_;
  Token bos_ = -1, eos_ = -1;
  bool add_bos_ = false, add_eos_ = false;
  std::vector<Token> ends_;
};

}  // namespace

Tokenizer::~Tokenizer() = default;

std::string Tokenizer::decode(std::span<const Token> tokens, bool special) const {
  std::string text;
  for (const Token token : tokens) text += piece(token, special);
  return text;
}

std::unique_ptr<Tokenizer> make_tokenizer(const ModelFile& file) {
  const std::string_view model = file.string("tokenizer.ggml.model");
  if (model != "gpt2") {
    throw Error(escaped(file.path()) + ": tokenizer.ggml.model", fmt::format("unknown tokenizer '{}'", escaped(model, 60)),
                "gpt2 (byte-level BPE)");
  }
  return std::make_unique<BpeTokenizer>(file, file.string("tokenizer.ggml.pre"));
}

}  // namespace patchbay

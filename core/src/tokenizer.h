/// @file tokenizer.h
/// Text to tokens and back, as the model's files say.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_file.h"
#include "patchbay/model_runner.h"
#include "text_range.h"

namespace patchbay {

struct TokenizerDescription;

/// A text that is partly a frame (what a chat template writes) and partly data (what people and tools wrote). The frame alone may
/// hold control tokens: special tokens, and other added tokens that the template's own words spell.
struct FramedText {
  std::string text;
  std::vector<TextRange> data;  ///< in order, apart from each other
  std::string own_words;        ///< all that the template itself says, pieces parted by '\0'
};

class PATCHBAY_API Tokenizer {
 public:
  virtual ~Tokenizer();
  /// parse_special: text of special tokens becomes those tokens; else it is plain text. add_special: BOS/EOS as the model says.
  virtual std::vector<Token> encode(std::string_view text, bool parse_special, bool add_special) const = 0;
  /// Data and frame are read as one text: a word may begin in the one and end in the other. But no control token comes from data, not
  /// even in part. Adds no BOS: the template writes it.
  virtual std::vector<Token> encode(const FramedText& text) const = 0;
  /// The token's bytes in the middle of a text, which may be part of a UTF-8 character. Special tokens give their text when
  /// `special`, else "".
  virtual std::string_view piece(Token token, bool special) const = 0;
  /// The bytes of a whole text: its pieces, without the space that some tokenizers put before a text.
  virtual std::string decode_text(std::span<const Token> tokens, bool special = false) const = 0;
  virtual int size() const = 0;
  virtual Token bos() const = 0;  ///< -1: none
  virtual Token eos() const = 0;
  virtual bool is_end_of_generation(Token token) const = 0;
  /// False for a folder without tokenizer.json and a GGUF file without a tokenizer: tokens are numbers alone, and what turns text into tokens or back is an Error.
  virtual bool knows_text() const { return true; }

  /// The pieces, joined: part of a text.
  std::string decode(std::span<const Token> tokens, bool special = false) const;
};

/// encode(), whose errors begin with where the text is from: "notes.txt: text, byte 3: ...".
PATCHBAY_API std::vector<Token> encode_from(const std::string& place, const Tokenizer& tokenizer, std::string_view text, bool parse_special,
                                            bool add_special);

/// The tokenizer in a GGUF file's metadata or in the model's folder. @throws Error for an unknown kind or pre-tokeniser: never a default.
PATCHBAY_API std::unique_ptr<Tokenizer> make_tokenizer(const ModelFile& file);
/// A GGUF file, a tokenizer.json, or a folder with tokenizer.json and, where it is there, tokenizer_config.json. @throws Error.
PATCHBAY_API std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);
/// The pipeline that a description stands for. @throws Error; `where` names the file.
PATCHBAY_API std::unique_ptr<Tokenizer> make_tokenizer(TokenizerDescription description, const std::string& where);

/// Joins pieces into text that never ends in half a UTF-8 character: hold back an unfinished tail, replace what can't become
/// one by U+FFFD.
class PATCHBAY_API Utf8Stream {
 public:
  /// Adds bytes; returns what is complete.
  std::string push(std::string_view bytes);
  /// The rest: an unfinished tail becomes one U+FFFD.
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace patchbay

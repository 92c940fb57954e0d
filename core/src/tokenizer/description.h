/// @file description.h
/// What a tokenizer is, as data: the one form that both readers (GGUF metadata, tokenizer.json) fill and from which the pipeline is built.
/// The words are those of Hugging Face's tokenizer.json, since each step's meaning is defined there.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tokenizer/vocabulary.h"

namespace patchbay {

/// A regular expression in the syntax of Oniguruma (see regex.h), or text that stands for itself.
struct Pattern {
  std::string text;
  bool literal = false;
};

/// Steps that rewrite the text before it is cut.
namespace normalizers {
struct Unicode { enum class Form { nfc, nfd, nfkc, nfkd } form; };
struct Bert { bool clean_text, pad_chinese, strip_accents, lowercase; };
struct Strip { bool left, right; };
struct StripAccents {};
struct Lowercase {};
struct Nmt {};
struct Precompiled { std::string charsmap; bool by_grapheme; };  ///< SentencePiece's table; by_grapheme: as Hugging Face applies it
struct Replace { Pattern pattern; std::string content; };
struct Prepend { std::string text; };
struct ByteLevel {};
}  // namespace normalizers
using NormalizerStep =
    std::variant<normalizers::Unicode, normalizers::Bert, normalizers::Strip, normalizers::StripAccents, normalizers::Lowercase, normalizers::Nmt,
                 normalizers::Precompiled, normalizers::Replace, normalizers::Prepend, normalizers::ByteLevel>;

/// What becomes of a pattern's matches: dropped, pieces apart, joined to a neighbour, or pieces apart whose neighbours are joined.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Steps that cut the text into pieces; the model never looks across a cut. Whitespace, Punctuation, Digits and the like are Splits.
namespace pre_tokenizers {
struct Split { Pattern pattern; SplitBehavior behavior = SplitBehavior::isolated; bool invert = false; };
struct Metaspace {
  enum class Prepend { always, first, never };
  std::string replacement = "\xE2\x96\x81";  // U+2581, the mark that SentencePiece writes for a space
  Prepend prepend = Prepend::always;
  bool split = true;
};
struct ByteLevel { bool add_prefix_space = false, use_regex = false; };
struct UnicodeScripts {};
}  // namespace pre_tokenizers
using PreTokenizerStep =
    std::variant<pre_tokenizers::Split, pre_tokenizers::Metaspace, pre_tokenizers::ByteLevel, pre_tokenizers::UnicodeScripts>;

/// Steps that turn tokens back into text.
namespace decoders {
struct ByteLevel {};
struct ByteFallback {};
struct Fuse {};
struct Replace { Pattern pattern; std::string content; };
struct Strip { std::string content; int start, stop; };
struct Metaspace { std::string replacement; bool drop_first; };
struct BpeSuffix { std::string suffix; };
struct Spaced {};  ///< no decoder at all: the tokens as they stand, spaces between them
}  // namespace decoders
using DecoderStep = std::variant<decoders::ByteLevel, decoders::ByteFallback, decoders::Fuse, decoders::Replace, decoders::Strip, decoders::Metaspace,
                                 decoders::BpeSuffix, decoders::Spaced>;

/// A merge of two tokens into one. The lowest rank goes first; merges of one rank go from left to right.
struct BpeMerge {
  Token left, right, result;
  std::int32_t rank;
};
/// Byte-pair encoding (Sennrich et al. 2016).
struct BpeDescription {
  std::vector<BpeMerge> merges;
  std::string continuing_prefix, end_suffix;  ///< how the vocabulary writes a character that goes on, or ends, a piece
  Token unknown = -1;                         ///< -1: none
  bool fuse_unknown = false;                  ///< a run of unknown characters is one unknown token
  bool byte_fallback = false;                 ///< an unknown character becomes tokens <0xNN>
  bool whole_pieces = false;                  ///< a piece that is a token is taken as it is, before any merge ("ignore_merges")
};
/// A unigram language model (Kudo 2018): the likeliest cut.
struct UnigramDescription {
  std::vector<double> scores;  ///< log probability, by token
  Token unknown = -1;
  bool byte_fallback = false;
  bool sums_in_float = false;  ///< as SentencePiece does; Hugging Face sums in double. It decides between cuts that are equally likely
};

/// A token that is cut out of the text before anything else happens to it.
struct AddedToken {
  Token token = -1;
  std::string content;
  bool single_word = false;          ///< not inside a word
  bool lstrip = false, rstrip = false;  ///< swallows the white space before, after it
  bool normalized = false;           ///< looked for in the normalised text, its own text normalised too
  bool special = false;              ///< part of the frame, not of the text: only found where special tokens are parsed
};

struct TokenizerDescription {
  Vocabulary vocabulary;
  std::variant<BpeDescription, UnigramDescription> model;
  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<AddedToken> added_tokens;
  std::vector<Token> prefix, suffix;  ///< put around a text when special tokens are wanted
  std::vector<DecoderStep> decoder;
  Token bos = -1, eos = -1;           ///< -1: none
  std::vector<Token> ends;            ///< tokens that end a generation
};

}  // namespace patchbay

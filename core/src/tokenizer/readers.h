/// @file readers.h
/// The readers of tokenizer descriptions, one per container, and what they share.
#pragma once
#include <string>
#include <vector>

#include "json_file.h"
#include "model_file.h"
#include "tokenizer/description.h"

namespace patchbay {

/// Whether a GGUF file has any key of a tokenizer: without one its tokens are numbers alone.
bool has_gguf_tokenizer(const ModelFile& file);
/// `tokenizer.ggml.*` of a GGUF file. @throws Error.
PATCHBAY_API TokenizerDescription read_gguf_tokenizer(const ModelFile& file);
/// Of a folder: tokenizer.json, with what tokenizer_config.json and generation_config.json say. @throws Error.
TokenizerDescription read_folder_tokenizer(const std::string& folder);
/// A tokenizer.json. @throws Error naming file and place.
PATCHBAY_API TokenizerDescription read_tokenizer_json(const JsonFile& file);
/// Its parts that are lists of steps; null is an empty list.
std::vector<NormalizerStep> read_normalizer(const JsonNode& root);
std::vector<PreTokenizerStep> read_pre_tokenizer(const JsonNode& root);
std::vector<DecoderStep> read_decoder(const JsonNode& root);

/// Whether a token of this text ends an answer in the models that have it.
bool is_known_end(std::string_view text);
/// Adds to `ends` the special tokens that are known by their text to end an answer: files often name only one of them as EOS.
void add_known_ends(TokenizerDescription& description);
/// Takes out merges that would let text spell a special token.
void drop_merges_to_special(TokenizerDescription& description);

/// Pre-tokenisers by the names of `tokenizer.ggml.pre`.
struct KnownPreTokenizer {
  std::vector<PreTokenizerStep> steps;
  bool whole_pieces = false;  ///< "ignore_merges"
  bool add_bos = false;       ///< where the file does not say
};
/// All names; of those that stand for one rule the one to write comes first.
PATCHBAY_API std::vector<std::string> known_pre_tokenizers();
/// @throws Error at `where` for an unknown name, listing the known ones.
PATCHBAY_API KnownPreTokenizer known_pre_tokenizer(std::string_view name, const std::string& where);

}  // namespace patchbay

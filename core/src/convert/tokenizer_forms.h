/// @file tokenizer_forms.h
/// A tokenizer in the two forms of model files: the keys that begin with tokenizer.ggml in GGUF, and tokenizer.json.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "writers/gguf_writer.h"
#include "tokenizer/description.h"

namespace patchbay {

/// Writes a tokenizer as GGUF names it, with as many tokens as the model has rows of embedding. GGUF knows byte-level BPE cut by one of the patterns that it has
/// names for, and SentencePiece's BPE. Returns notes on what it says less precisely. @throws Error, at `where`, for all else.
PATCHBAY_API std::vector<std::string> add_gguf_tokenizer(GgufWriter& writer, const TokenizerDescription& tokenizer, int vocabulary, const std::string& where);

/// The tokenizer.json of what read_gguf_tokenizer() gives. Without the tokens from `count` on, which only fill up the embedding.
PATCHBAY_API nlohmann::ordered_json tokenizer_json(const TokenizerDescription& tokenizer, int count);

}  // namespace patchbay

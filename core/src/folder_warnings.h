/// @file folder_warnings.h
/// What is odd in a Hugging Face folder, and yet no fault: nothing that is computed depends on it.
#pragma once
#include <string>
#include <vector>

#include "model_file.h"

namespace patchbay {

/// Weights that are there twice, an index that does not say what its shards hold, numbers of config.json and generation_config.json that cannot be
/// meant. Empty for GGUF. Texts are safe to print. @throws Error for a file that cannot be read.
PATCHBAY_API std::vector<std::string> folder_warnings(const ModelFile& file);
/// That a folder's tokenizer has more tokens than its model has rows for; "" where it has not, and for GGUF.
PATCHBAY_API std::string missing_rows_warning(const ModelFile& file, int tokens);

}  // namespace patchbay

/// @file chat_forms.h
/// Chat templates and sampling settings in the two forms of model files.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model_file.h"
#include "writers/gguf_writer.h"

namespace patchbay {

/// A folder's templates and the sampling settings of its generation_config.json, as GGUF names them. Returns notes: what it calls otherwise or
/// has no words for. @throws Error for templates that GGUF cannot tell apart.
std::vector<std::string> add_gguf_chat(GgufWriter& writer, const std::string& folder);

/// For tokenizer_config.json: one template as a text, named ones as a list; null where the GGUF file has none.
nlohmann::ordered_json chat_template_json(const ModelFile& gguf);
/// For generation_config.json; empty where the GGUF file has none. `notes`: what transformers has no words for.
nlohmann::ordered_json sampling_json(const ModelFile& gguf, std::vector<std::string>& notes);

}  // namespace patchbay

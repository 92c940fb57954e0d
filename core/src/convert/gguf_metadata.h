/// @file gguf_metadata.h
/// A folder's config.json as GGUF metadata.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/model_spec.h"
#include "writers/gguf_writer.h"

namespace patchbay {

/// What GGUF calls the architecture of a model_type of transformers ("mixtral": "llama"). @throws Error for one that is not computed.
std::string gguf_architecture(const std::string& model_type, const std::string& where);
/// Sizes, norms, windows, experts and RoPE, with the tensors that hold RoPE's divisors. @throws Error for what GGUF has no word for.
PATCHBAY_API void add_model_metadata(GgufWriter& writer, const ModelSpec& spec, const nlohmann::json& config, const std::string& architecture, const std::string& where);

}  // namespace patchbay

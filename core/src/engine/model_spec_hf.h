/// @file model_spec_hf.h
/// ModelSpec from the config.json of a Hugging Face folder.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/model_spec.h"

namespace patchbay {

/// A pure function of the parsed file; `where` is its name for messages. Places name the folder's tensors and give them GGUF's
/// labels. Keys that only training or sampling read are ignored; what changes the computation in a way not computed is refused.
/// @throws Error naming the key: an unknown model, activation, RoPE type or kind of layer, a missing or wrong value.
PATCHBAY_API ModelSpec read_hf_model_spec(const nlohmann::json& config, const std::string& where);

/// Of an opened folder: its config.json, with the tensors checked against it. Harmless buffers may stand beside them.
/// @throws Error naming folder and tensor: missing, of another shape, or none of the model's.
ModelSpec read_folder_model_spec(const ModelFile& file);

}  // namespace patchbay

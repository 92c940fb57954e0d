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

}  // namespace patchbay

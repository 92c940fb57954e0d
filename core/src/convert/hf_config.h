/// @file hf_config.h
/// A GGUF file's metadata as the config.json of transformers.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "engine/model_spec.h"

namespace patchbay {

/// Sizes, norms, windows, experts and RoPE; no tokens. Keys are those that all versions of transformers read (rope_theta and rope_scaling beside
/// the others). @throws Error for what config.json has no word for.
nlohmann::ordered_json hf_config(const ModelFile& gguf, const ModelSpec& spec);

}  // namespace patchbay

/// @file hf_models.h
/// The models of Hugging Face's transformers as one table: which tensors each has, and what its config.json leaves unsaid.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "engine/model_spec.h"

namespace patchbay {

/// One tensor, or a role's part of a fused one.
struct HfTensor {
  Role role;
  std::string_view name;   ///< in the folder, "*" the layer, "#" the expert
  std::string_view label;  ///< GGUF's name
  char part = ' ';         ///< of a fused tensor: q, k, v; g (gate), u (up)
  bool bias = false;       ///< the model always has it
};

/// Which layers a window holds in, where the file has no list layer_types.
enum class Windows {
  none,
  all,
  alternating,
  used,          ///< all, if use_sliding_window
  late,          ///< likewise, from max_window_layers on
  without_rope,  ///< likewise, those without RoPE
};

struct HfModel {
  std::string_view model_type, class_name;
  std::string_view gguf;            ///< GGUF's name of the architecture
  std::array<std::span<const HfTensor>, 6> tensors;
  std::string_view activation_key = "hidden_act";
  Windows windows = Windows::none;
  int full_period = 0;              ///< of alternating windows: each n-th layer sees everything
  bool explicit_head_size = false;  ///< the class's own default is no divisor: the key must be there
  bool tied = false;                ///< where tie_word_embeddings is left out
  bool gemma = false;               ///< norm weights w of 1 + w, scaled embeddings, query_pre_attn_scalar
  bool gpt2 = false;
};

/// Null for a model_type that is not computed.
const HfModel* find_hf_model(std::string_view model_type);
/// "llama, mistral, ..."
std::string hf_model_names();

}  // namespace patchbay

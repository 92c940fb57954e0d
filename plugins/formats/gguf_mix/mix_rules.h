// The mixes of llama.cpp: which type each matrix of a model gets. Facts of its quantiser, checked against it tensor by tensor
// (tests/golden/gguf_mixes). Rules (M1)...(M6): README.md.
#pragma once
#include <array>
#include <string_view>

#include "patchbay/weight_format.h"

namespace patchbay {

/// Which layers a rule is for.
enum class Where { every_layer, first_two, first_four, first_sixteenth, first_eighth, outer_and_every_third, shared_heads };

/// "Take `type` there, elsewhere `otherwise`". Empty: the mix's main type.
struct Rule {
  std::string_view type = {};
  Where where = Where::every_layer;
  std::string_view otherwise = {};
};

struct Mix {
  std::string_view name, main;
  Rule values, output, down;           // attn_v and attn_qkv; attn_output; ffn_down
  std::string_view output_of_eight;  // attn_output of a model with eight experts
};

inline constexpr Rule kMain{};
inline constexpr std::array<Mix, 17> kMixes = {{
    {"q4_0", "q4_0", kMain, kMain, kMain, {}},
    {"q4_1", "q4_1", kMain, kMain, kMain, {}},
    {"q5_0", "q5_0", kMain, kMain, kMain, {}},
    {"q5_1", "q5_1", kMain, kMain, kMain, {}},
    {"q8_0", "q8_0", kMain, kMain, kMain, {}},
    {"q2_k", "q2_k", {"q4_k", Where::shared_heads, "q3_k"}, {"q3_k"}, {"q3_k"}, "q5_k"},
    {"q2_k_s", "q2_k", {"q4_k", Where::shared_heads, {}}, kMain, {"q4_k", Where::first_eighth, {}}, {}},
    {"q3_k_s", "q3_k", kMain, kMain, kMain, "q5_k"},
    {"q3_k_m", "q3_k", {"q5_k", Where::first_two, "q4_k"}, {"q4_k"}, {"q5_k", Where::first_sixteenth, "q4_k"}, "q5_k"},
    {"q3_k_l", "q3_k", {"q5_k"}, {"q5_k"}, {"q5_k"}, {}},
    {"q4_k_s", "q4_k", {"q5_k", Where::first_four, {}}, kMain, {"q5_k", Where::first_eighth, {}}, "q5_k"},
    {"q4_k_m", "q4_k", {"q6_k", Where::outer_and_every_third, {}}, kMain, {"q6_k", Where::outer_and_every_third, {}}, "q5_k"},
    {"q5_k_s", "q5_k", kMain, kMain, kMain, {}},
    {"q5_k_m", "q5_k", {"q6_k", Where::outer_and_every_third, {}}, kMain, {"q6_k", Where::outer_and_every_third, {}}, {}},
    {"q6_k", "q6_k", kMain, kMain, kMain, {}},
    {"iq4_nl", "iq4_nl", {"q5_k", Where::shared_heads, {}}, kMain, {"q5_k", Where::first_eighth, {}}, "q5_k"},
    {"iq4_xs", "iq4_xs", {"q5_k", Where::shared_heads, {}}, kMain, {"q5_k", Where::first_eighth, {}}, "q5_k"},
}};

/// @throws Error unless `name` is a mix.
inline const Mix& mix_named(std::string_view name) {
  for (const Mix& mix : kMixes) if (mix.name == name) return mix;
  throw Error("gguf_mix: mix", "unknown mix " + std::string(name));
}

/// How many columns make a block of `type`.
inline std::int64_t block_columns(std::string_view type) { return type.ends_with("_k") || type == "iq4_xs" ? 256 : 32; }

/// (M1) Whether a rule is for this tensor.
inline bool holds(Where where, const TensorFacts& t) {
  const int i = t.layer, n = t.layers;
  switch (where) {
    case Where::every_layer: return true;
    case Where::first_two: return i < 2;
    case Where::first_four: return i < 4;
    case Where::first_sixteenth: return i < n / 16;
    case Where::first_eighth: return i < n / 8;
    case Where::outer_and_every_third: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case Where::shared_heads: return t.kv_heads > 0 && t.heads / t.kv_heads >= 4;
  }
  return false;
}

/// (M2)...(M5) The type that the mix wants for a tensor, whatever its columns.
inline std::string_view wanted_type(const Mix& mix, const TensorFacts& t) {
  const std::string_view part = t.name.substr(t.name.rfind("blk.", 0) == 0 ? t.name.find('.', 4) + 1 : 0);
  const auto by = [&](const Rule& rule) {
    const std::string_view type = holds(rule.where, t) ? rule.type : rule.otherwise;
    return type.empty() ? mix.main : type;
  };
  if (t.is_head) {  // (M2)
    const bool fits = t.cols % block_columns(mix.main) == 0;
    return fits && mix.main != "q8_0" ? "q6_k" : "q8_0";
  }
  const bool eight_experts = t.experts == 8;
  if (part.starts_with("attn_v") || part.starts_with("attn_qkv")) {
    if (eight_experts) return "q8_0";  // (M4)
    const std::string_view type = by(mix.values);
    const bool model_of_70b = t.layers == 80 && t.heads > t.kv_heads;
    return model_of_70b && (type == "q3_k" || type == "q4_k") ? "q5_k" : type;  // (M5)
  }
  if (part.starts_with("attn_k") && eight_experts) return "q8_0";
  if (part.starts_with("attn_output")) return !eight_experts ? by(mix.output) : mix.output_of_eight.empty() ? mix.main : mix.output_of_eight;
  if (part.starts_with("ffn_down")) return by(mix.down);  // (M3)
  return mix.main;
}

/// (M6) What stands in where super-blocks of 256, or even blocks of 32, do not divide a row.
inline std::string_view type_for_columns(std::string_view type, std::int64_t cols) {
  constexpr std::array<std::array<std::string_view, 2>, 6> kFallbacks = {
      {{"q2_k", "q4_0"}, {"q3_k", "q4_0"}, {"q4_k", "q5_0"}, {"q5_k", "q5_1"}, {"q6_k", "q8_0"}, {"iq4_xs", "iq4_nl"}}};
  if (cols % block_columns(type) == 0) return type;
  if (cols % 32 == 0)
    for (const auto& [super, blocks] : kFallbacks) if (super == type) return blocks;
  return "fp16";
}

}  // namespace patchbay

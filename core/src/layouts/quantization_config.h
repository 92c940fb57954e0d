/// @file quantization_config.h
/// What a folder's config.json says of how its weights are quantised.
#pragma once
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "patchbay/error.h"

namespace patchbay {

enum class LayoutMethod { gptq, awq, compressed_tensors, fp8 };

struct QuantizationConfig {
  std::string where;             ///< "FOLDER/config.json: quantization_config"
  LayoutMethod method = LayoutMethod::gptq;
  int bits = 4;
  std::int64_t group_size = -1;  ///< -1: the whole row
  bool varies = false;           ///< GPTQ's "dynamic": modules may have other bits and groups than these
  bool symmetric = false;        ///< all zero points are the middle code
  bool zeros_less_one = false;   ///< GPTQ's first version stores a zero point less 1
  bool gemv = false;             ///< AWQ's layout by rows
  std::shared_ptr<const nlohmann::json> groups;  ///< compressed-tensors' config_groups: modules and how their weights and inputs are rounded

  /// What compressed-tensors says of a module's inputs; null: nothing, they stay as they are.
  const nlohmann::json* inputs_of(const std::string& module) const;
};

/// Of a folder's config.json, or of the quantize_config.json that older writers of GPTQ put beside it. Nothing where the weights are not quantised.
/// @throws Error for a method, bits or a version that is not read, and for missing keys.
PATCHBAY_API std::optional<QuantizationConfig> read_quantization_config(const std::string& folder);
/// As `patchbay quantize --layout` calls it, or "fp8", which is only read.
PATCHBAY_API std::string layout_name(const QuantizationConfig& config);

}  // namespace patchbay

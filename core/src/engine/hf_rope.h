/// @file hf_rope.h
/// RoPE parameters of config.json, as rope_parameters or rope_scaling hold them.
#pragma once
#include <cstdint>

#include "engine/json_keys.h"
#include "engine/model_spec.h"

namespace patchbay {

/// What the parameters are read beside.
struct HfRopeModel {
  double base = 0;
  int dims = 0;
  std::int64_t context = 0;           ///< max_position_embeddings
  std::int64_t original_context = 0;  ///< where config.json itself states it, else 0
  bool phi3 = false;                  ///< whose first files call LongRoPE "su" or "yarn"
};

/// `scaling` null: none. `context` grows where a scaling says so. @throws Error for an unknown type or parameter.
Rope read_hf_rope(const JsonKeys* scaling, const HfRopeModel& model, std::int64_t& context);

}  // namespace patchbay

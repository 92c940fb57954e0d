/// @file run_config.h
/// What one run consists of: the keys under `base:` in YAML, and the key=value of every command.
#pragma once
#include <string>
#include <vector>

#include "patchbay/backend.h"
#include "patchbay/params.h"
#include "quantize/calibration_settings.h"
#include "quantize/sensitivity_settings.h"

namespace patchbay {

inline constexpr int kAllLayers = -1;
inline constexpr int kMaxThreads = 1024;  ///< more than any backend takes is refused before a model is opened

/// How one group of weights is quantised.
struct WeightRule {
  std::string match;  ///< glob over tensor names without ".weight" ("blk.0.ffn_down", "*.ffn_down"); "" for the default rule
  PluginSpec quantizer{"none", nullptr};
  PluginSpec format;  ///< "" with quantizer none
};

struct RunConfig {
  std::string device = "cpu";
  PluginSpec backend{"cpu", nullptr};
  int gpu_layers = kAllLayers;       ///< of a device that is not the host: the last so many blocks run there, with the head; the rest on the host
  std::string gpu_layers_where;      ///< of that setting, for messages
  WeightRule weights;                ///< default rule
  std::vector<WeightRule> rules;     ///< the first that matches wins over the default
  /// weights.kernel: of every weight whose format has it, or {prefill, decode}; null: each format's best.
  std::shared_ptr<const Settings> weight_kernel;
  std::vector<PluginSpec> transforms;  ///< weights.transforms: applied in this order before anything is quantised
  CalibrationSettings calibration;   ///< weights.calibration: in effect where a quantizer, transform or format needs it
  SensitivitySettings sensitivity;   ///< weights.bits_by_sensitivity
  bool quantize_all = false;         ///< weights.targets: blocks (linear layers of the blocks) | all (embedding and head too)
  PluginSpec attention{"flash", nullptr};
  PluginSpec kv_store{"contiguous", nullptr};
  PluginSpec kv_retention{"keep_all", nullptr};
  PluginSpec kv_prefix{"none", nullptr};
  PluginSpec decoder{"greedy", nullptr};
  std::vector<PluginSpec> processors;
  ActivationMode activations = ActivationMode::q8;  ///< of what runs on the host
  std::int64_t max_batched_tokens = 8192;
  bool deterministic = false;
  int threads = 0;                   ///< 0: all cores. Not part of the run's identity.
};

/// Reads and checks everything that can be checked without the model. Unknown keys, wrong values and unknown plugins are Errors.
PATCHBAY_API RunConfig read_run_config(const Settings& base);
/// Whether anything of `config` needs statistics of the inputs of the model's layers.
PATCHBAY_API bool needs_calibration(const RunConfig& config);
/// Every setting in effect, nested plugins expanded, as a tree ready for to_json: the record's `config`.
PATCHBAY_API Settings effective_settings(const RunConfig& config);

}  // namespace patchbay

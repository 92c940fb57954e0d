/// @file run_config.h
/// What one run consists of: the keys under `base:` in YAML, and the key=value of every command.
#pragma once
#include <string>
#include <vector>

#include "patchbay/backend.h"
#include "patchbay/params.h"

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
  WeightRule weights;                ///< default rule
  std::vector<WeightRule> rules;     ///< the first that matches wins over the default
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

/// The plugin with one kernel for prefill and decoding on a GPU, if it has a choice and none was made: the best that serves both. So
/// a row's bits do not depend on what came with it. @throws Error where two were named.
PATCHBAY_API PluginSpec with_one_kernel(std::string_view kind, PluginSpec spec);
/// Whether `config` asks for that.
PATCHBAY_API bool wants_one_kernel(const RunConfig& config);

/// Reads and checks everything that can be checked without the model. Unknown keys, wrong values and unknown plugins are Errors.
PATCHBAY_API RunConfig read_run_config(const Settings& base);
/// Every setting in effect, nested plugins expanded, as a tree ready for to_json: the record's `config`.
PATCHBAY_API Settings effective_settings(const RunConfig& config);

}  // namespace patchbay

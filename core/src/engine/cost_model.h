/// @file cost_model.h
/// What a configuration must move and compute, and how long the machine's limits make that take at least: the roofline
/// (Williams, Waterman and Patterson 2009). Counted from formats and shapes, not from what a kernel happens to do, so that the
/// distance between prediction and measurement shows what a kernel leaves. The formulas (C1) to (C9): docs/measuring.md.
/// T rows of a pass, c tokens cached before it; E, F, H, G, D, V as in docs/notation.md.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/model_spec.h"
#include "run_config.h"

namespace patchbay {

struct TensorPath;

/// One weight matrix R x C as it stands in the run.
struct MatrixCost {
  std::int64_t rows = 0, cols = 0, bytes = 0;  ///< bytes: all parts, scales included
  enum class Use { block, head, lookup } use = Use::block;  ///< lookup: an embedding that is not the head too
  bool integer = false;                        ///< multiplied as 8-bit integers
  double share = 1;                            ///< of the rows; an expert gets as many as the others
};

/// A model under one configuration.
struct ModelCost {
  ModelSpec spec;
  ActivationMode activations = ActivationMode::q8;
  std::vector<MatrixCost> matrices;
  std::int64_t parameters = 0, weights_bytes = 0;
  std::int64_t device_bytes = 0;               ///< of the weights, those that lie on a device that is not the host
  std::int64_t kv_bytes_per_token = 0;         ///< all layers, keys and values, scales included
  double embedding_row_bytes = 0;
  double bits_per_weight() const { return 8.0 * static_cast<double>(weights_bytes) / static_cast<double>(parameters); }
};
/// From the effective formats; no weight is read. `paths`: as a session reports them, to know which products are of integers;
/// without them all count as fp32. @throws Error as check_weights does.
PATCHBAY_API ModelCost model_cost(const ModelFile& file, const RunConfig& config, std::span<const TensorPath> paths = {});

/// What `patchbay calibrate` measures.
struct MachineLimits {
  double memory_bytes_per_s = 0, cache_bytes_per_s = 0;  ///< of the main memory, of the last-level cache
  double cache_bytes = 0;                                ///< size of that cache
  double fp32_flops_per_s = 0, int8_ops_per_s = 0;
};

/// One pass of the model. Fractions are means over passes.
struct PassShape {
  double rows = 1, context = 0;  ///< T and c
  double logit_rows = 1;
};
/// One part of a pass: what it streams (weights, cached rows), what it reads and writes beside (activations), what it computes.
struct PartCost {
  const char* name = "";
  double weight_bytes = 0, kv_bytes = 0, activation_bytes = 0;
  double operations = 0;         ///< additions and multiplications, each counted
  bool integer = false;
  double bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
};
PATCHBAY_API std::vector<PartCost> pass_parts(const ModelCost& cost, const PassShape& pass);
/// The sum over the parts; integer: whether any of it is.
PATCHBAY_API PartCost pass_cost(const ModelCost& cost, const PassShape& pass);

/// The least that a pass takes.
PATCHBAY_API double pass_seconds(const ModelCost& cost, const PassShape& pass, const MachineLimits& machine);
/// A prompt of `tokens` in chunks of at most `chunk`, the logits of its last token wanted.
PATCHBAY_API double prefill_seconds(const ModelCost& cost, std::int64_t tokens, std::int64_t chunk, const MachineLimits& machine);

}  // namespace patchbay

// What bench_gpu measures: kernels of weight formats, attention and the backend's operations, at the shapes of three models.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "patchbay/backend.h"

namespace patchbay::bench {

using Json = nlohmann::ordered_json;

/// The shapes that decide a model's speed.
struct ModelShape {
  std::string name;
  std::int64_t width, heads, kv_heads, head_size, feed_forward, vocabulary;
};
const std::vector<ModelShape>& model_shapes();
/// One model of a few numbers, for a dry run on the emulator.
const std::vector<ModelShape>& quick_shapes();

/// One thing to be timed. Runs 0, 1, 2 ... use other memory each, so that together they exceed the GPU's cache.
struct Case {
  Json what;                          ///< its keys: kind, kernel, shape; what a reader joins with other measurements
  double flops = 0, bytes = 0;        ///< by definition of one run: operations, and operands and results each once
  int sets = 1;                       ///< runs repeat their memory after so many
  std::function<void(int)> run;
  std::shared_ptr<Backend> backend = nullptr;   ///< on whose stream it runs; null: the one that all cases share
};
using Sink = std::function<double(const Case&)>;  ///< measures one case; returns seconds of a run, 0 where there are none

struct Limits {
  std::vector<ModelShape> models;
  std::vector<std::int64_t> tokens, contexts;  ///< rows of a product; cached tokens of a decoding step
  std::int64_t rotate_bytes;                   ///< memory that the runs of a case go through at least, as far as kMostSets allow
  std::string only;                            ///< of all cases, those whose "kind/name/kernel" begins so
};

/// Each format's kernels for GPUs, at gate (F x W) of each model and down (W x F) of the last.
void matmul_cases(Backend& backend, const Limits& limits, const Sink& sink);
/// Each attention's kernels: a prefill, and decoding steps of one and of 16 sequences.
void attention_cases(Backend& backend, const Limits& limits, const Sink& sink);
/// Every kernel of every dense operation that has a choice: norms, RoPE, gates, sums, softmax, rows of the embedding, the cache, sampling, and fused pairs. `type`: the backend's plugin.
void operation_cases(Backend& backend, const std::string& type, const Limits& limits, const Sink& sink);

}  // namespace patchbay::bench

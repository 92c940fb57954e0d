// Which shape a kernel takes only the kernel knows. So it is asked with the smallest step that has the model's shape.
#include "engine/kernel_trial.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "engine/cached_attention.h"
#include "kernel_choice.h"
#include "patchbay/gpu_linear.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

/// (rows, cols) of the device's activations; memory of a device begins as zeros.
Buffer zeros(Device& device, std::int64_t rows, std::int64_t cols) { return device.allocate(rows * cols * bytes_of(device.activations())); }

StepPlan step_plan(std::int64_t committed, std::int64_t rows) {
  StepPlan plan;
  plan.tokens.resize(static_cast<std::size_t>(rows));
  plan.positions.resize(static_cast<std::size_t>(rows));
  std::iota(plan.positions.begin(), plan.positions.end(), static_cast<std::int32_t>(committed));
  plan.sequences.resize(1);
  plan.sequences[0].rows = rows, plan.sequences[0].committed = committed;
  return plan;
}

void try_attention(const ModelSpec& spec, const StageParts& part) {
  Device& device = part.ops->device();
  const AttentionSpec shape{spec.heads, spec.kv_heads, spec.head_size, 1.0f / std::sqrt(static_cast<float>(spec.head_size)), 0, 0.0f};
  constexpr std::int64_t kPrefill = 2, kDecode = 1;
  part.store->configure({1, spec.kv_heads, spec.head_size, kPrefill + kDecode, 1}, device);
  part.store->open(0);
  CachedAttention attention(*part.attention, *part.store, *part.ops);
  StepInputs inputs(device);
  for (const std::int64_t rows : {kPrefill, kDecode}) {
    const StepPlan plan = step_plan(rows == kDecode ? kPrefill : 0, rows);
    if (!part.store->grow(0, rows)) return;  // too small a cache for these: the session says so
    inputs.load(plan, *part.store);
    const DType type = device.activations();
    const Buffer kv = zeros(device, rows, spec.kv_heads * spec.head_size), q = zeros(device, rows, spec.heads * spec.head_size), out = zeros(device, rows, spec.heads * spec.head_size);
    const TensorRef cached = kv.tensor(type, {rows, spec.kv_heads, spec.head_size});
    attention.write(plan, inputs, 0, cached, cached);
    attention.attend(shape, plan, inputs, 0, q.tensor(type, {rows, spec.heads, spec.head_size}), out.tensor(type, {rows, spec.heads, spec.head_size}));
    if (rows == kPrefill) part.store->commit(0, plan.positions);
  }
}

void try_product(const PluginSpec& spec, std::int64_t rows, std::int64_t cols, Ops& ops, Device& host) {
  const auto format = make<WeightFormat>(spec);
  const PackedWeight weight = format->allocate("w", rows, cols, host);
  const auto kernel = format->prepare(weight, ops, ActivationMode::fp32);
  const DType type = ops.device().activations();
  for (const std::int64_t tokens : {std::int64_t{1}, std::int64_t{kDecodeTokens + 1}}) {
    const Buffer x = zeros(ops.device(), tokens, cols), y = zeros(ops.device(), tokens, rows);
    Activation input(ActivationMode::fp32, ops);
    input.reset(x.tensor(type, {tokens, cols}));
    kernel->run(input, y.tensor(type, {tokens, rows}));
  }
}

void try_products(const ModelFile& file, const WeightPlan& plan, const RunConfig& config, Ops& ops, Device& host) {
  constexpr std::int64_t kRows = 8;
  std::set<std::string> tried;
  for (const WeightPlan::Matrix& matrix : plan.matrices()) {
    const WeightPlan::Choice& choice = plan.choice(matrix.label);
    PluginSpec spec = choice.spec;
    if (!choice.format) spec = matrix.transposed ? PluginSpec{"fp32", nullptr} : stored_spec(*matrix.tensor);
    if (spec.type.empty()) continue;  // multiplied as it was read
    const std::string label = choice.format ? choice.format->label() : matrix.transposed ? spec.type : stored_format(file, *matrix.tensor)->label();
    if (!tried.insert(label + "/" + std::to_string(matrix.cols)).second) continue;
    try {
      try_product(format_on(spec, config, "cuda"), std::min(matrix.rows, kRows), matrix.cols, ops, host);
    } catch (const Error& error) {
      throw error.at("tensor " + matrix.label);
    }
  }
}

}  // namespace

void try_kernels(const ModelFile& file, const ModelSpec& spec, const WeightPlan& plan, const RunConfig& config, StageSet& stages) {
  for (const StageParts& part : stages.parts()) {
    if (part.ops->device().is_host()) continue;
    try {
      try_attention(spec, part);
    } catch (const Error& error) {
      throw error.at("attention " + config.attention.type + " on device " + config.device);
    }
  }
  Device& device = stages.backend().device();
  if (device.is_host() || config.gpu_layers != kAllLayers) return;
  try_products(file, plan, config, stages.backend().ops(), stages.host().device());
}

}  // namespace patchbay

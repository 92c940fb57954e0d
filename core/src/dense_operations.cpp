#include "dense_operations.h"

#include <numeric>

#include "device_rows.h"
#include "patchbay/decoder.h"
#include "patchbay/rounded_inputs.h"

namespace patchbay {
namespace {

/// Numbers of the host on the device.
template <class T> Buffer uploaded(Device& device, const std::vector<T>& values) {
  const std::int64_t bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  Buffer there = device.allocate(bytes);
  device.copy(View<const std::uint8_t, 1>(reinterpret_cast<const std::uint8_t*>(values.data()), {bytes}), there.tensor(DType::u8, {bytes}));
  return there;
}
template <class T> Buffer filled(Device& device, std::int64_t count, T value) { return uploaded(device, std::vector<T>(static_cast<std::size_t>(count), value)); }

RopeSpec rope_of(std::int64_t dims, TensorRef angles) {
  RopeSpec spec;
  spec.dims = static_cast<int>(dims);
  spec.angles = angles;
  return spec;
}

constexpr DenseOperation kOperations[] = {
    {"rms_norm", 2, 4, [](Ops& ops, const DenseOperands& o) { ops.rms_norm(o.x, o.weight, 1e-5f, o.out); }},              // x^2, sum; times 1/rms, weight
    {"layer_norm", 2, 8, [](Ops& ops, const DenseOperands& o) { ops.layer_norm(o.x, o.weight, o.weight, 1e-5f, o.out); }},  // sum; (x - m)^2, sum; (x - m) / s w + b
    {"rope", 2, 3, [](Ops& ops, const DenseOperands& o) {                                                                 // 4 products and 2 sums per pair
       ops.rope(o.x.reshaped({o.tokens, o.cols / o.head_size, o.head_size}), o.ids, rope_of(o.head_size, o.angles));
     }},
    {"gated", 3, 5, [](Ops& ops, const DenseOperands& o) { ops.gated(Gate::silu, o.x, o.y, o.out); }},                    // -x, exp, 1 +, /, times
    {"add", 3, 1, [](Ops& ops, const DenseOperands& o) { ops.add(o.x, o.y); }},
    {"add_rms_norm", 4, 5, [](Ops& ops, const DenseOperands& o) { ops.add_rms_norm(o.x, o.y, o.weight, 1e-5f, o.out); }},
    {"quantize_rows", 1.5, 2, [](Ops& ops, const DenseOperands& o) { quantize_rows(ops, o.x, {}, {o.codes, o.scales}); }},  // largest; times 127 / it
    {"add_rms_norm_quantize", 3.5, 7, [](Ops& ops, const DenseOperands& o) {
       dynamic_cast<RoundingOps&>(ops).add_rms_norm_quantize(o.x, o.y, o.weight, 1e-5f, {}, o.out, {o.codes, o.scales});
     }},
    {"softmax", 4, 5, [](Ops& ops, const DenseOperands& o) { ops.softmax(o.floats, o.floats); }},                         // largest, x - it, exp, sum, /
    {"scale", 2, 1, [](Ops& ops, const DenseOperands& o) { ops.scale(o.x, 0.5f); }},
    {"soft_cap", 2, 3, [](Ops& ops, const DenseOperands& o) { ops.soft_cap(o.x, 30.0f); }},
    {"take_rows", 2, 0, [](Ops& ops, const DenseOperands& o) { ops.take_rows(o.x, o.ids, o.out); }},
    {"add_rows", 3, 2, [](Ops& ops, const DenseOperands& o) { ops.add_rows(o.x, o.ids, o.column, o.y); }},
};

/// One sequence with `committed` tokens in the cache and `rows` more in this step.
StepPlan step_plan(std::int64_t committed, std::int64_t rows) {
  StepPlan plan;
  plan.tokens.resize(static_cast<std::size_t>(rows));
  plan.positions.resize(static_cast<std::size_t>(rows));
  std::iota(plan.positions.begin(), plan.positions.end(), static_cast<std::int32_t>(committed));
  StepSequence sequence;
  sequence.rows = rows, sequence.committed = committed;
  plan.sequences = {sequence};
  return plan;
}

}  // namespace

std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t kDrawn = 65521;
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[i] = i < kDrawn ? static_cast<float>(2 * rng.uniform() - 1) : values[i - kDrawn];
  return values;
}
Buffer random_rows(Device& device, std::int64_t rows, std::int64_t cols, DType type) {
  const auto values = random_values(rows * cols, static_cast<std::uint64_t>(rows * 31 + cols));
  return upload_values(View<const float, 2>(values.data(), {rows, cols}), type, device);
}

DenseOperands::DenseOperands(Device& device, std::int64_t t, std::int64_t c, std::int64_t size) : tokens(t), cols(c), head_size(size) {
  const DType type = device.activations();
  for (int i = 0; i < 3; ++i) memory[i] = random_rows(device, t, c, type);
  memory[3] = random_rows(device, t, c, DType::f32);
  memory[4] = random_rows(device, t, size, DType::f32);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(t));
  std::iota(numbers.begin(), numbers.end(), 0);
  memory[5] = uploaded(device, numbers);
  memory[6] = device.allocate(t * c);
  x = memory[0].tensor(type, {t, c}), y = memory[1].tensor(type, {t, c}), out = memory[2].tensor(type, {t, c});
  floats = memory[3].tensor(DType::f32, {t, c}), weight = memory[3].tensor(DType::f32, {c}), column = memory[3].tensor(DType::f32, {t});
  angles = memory[4].tensor(DType::f32, {t, size}), ids = memory[5].tensor(DType::i32, {t});
  codes = memory[6].tensor(DType::i8, {t, c}), scales = memory[4].tensor(DType::f32, {t});
}

std::span<const DenseOperation> dense_operations() { return kOperations; }

SamplingOperands::SamplingOperands(Device& device, std::int64_t count, std::int64_t vocabulary)
    : memory{random_rows(device, count, vocabulary, DType::f32), device.allocate(count * bytes_of(DType::i32)), filled(device, count, 0.8f),
             filled(device, count, std::int32_t{40}), filled(device, count, 0.95), filled(device, count, 0.5)} {
  logits = memory[0].tensor(DType::f32, {count, vocabulary}), tokens = memory[1].tensor(DType::i32, {count});
  rows = {reinterpret_cast<const float*>(memory[2].data()), reinterpret_cast<const std::int32_t*>(memory[3].data()), reinterpret_cast<const double*>(memory[4].data()),
          reinterpret_cast<const double*>(memory[5].data())};
}

CachedStep::CachedStep(Ops& ops, std::shared_ptr<KvStore> store, const Shape& shape)
    : type_(ops.device().activations()), shape_(shape), store_(std::move(store)), inputs_(ops.device()) {
  store_->configure({shape.layers, static_cast<int>(shape.kv_heads), static_cast<int>(shape.head_size), shape.context + shape.tokens, 1}, ops.device());
  store_->open(0);
  const auto write = [&](StepPlan plan) {
    const std::int64_t rows = plan.sequences[0].rows;
    if (!store_->grow(0, rows)) throw Error("--context", "the cache has no room for so many tokens");
    plan_ = std::move(plan);
    inputs_.load(plan_, *store_);
    k_ = random_rows(ops.device(), rows, shape.kv_heads * shape.head_size, type_), v_ = random_rows(ops.device(), rows, shape.kv_heads * shape.head_size, type_);
    const TensorRef k = k_.tensor(type_, {rows, shape.kv_heads, shape.head_size}), v = v_.tensor(type_, {rows, shape.kv_heads, shape.head_size});
    for (int layer = 0; layer < shape.layers; ++layer) ops.write_kv(k, v, inputs_.gpu(), layer);
  };
  if (shape.context > 0) {
    write(step_plan(0, shape.context));
    store_->commit(0, plan_.positions);
  }
  write(step_plan(shape.context, shape.tokens));
}

double CachedStep::write_bytes() const {
  const std::int64_t stored = store_->usage().bytes_per_token * shape_.tokens / shape_.layers;
  return static_cast<double>(2 * shape_.tokens * shape_.kv_heads * shape_.head_size * bytes_of(type_) + stored);
}

RopeOperands::RopeOperands(Device& device, std::int64_t heads, const CachedStep::Shape& shape)
    : memory{random_rows(device, shape.tokens, heads * shape.head_size, device.activations()),
             random_rows(device, shape.context + shape.tokens, shape.head_size, DType::f32)} {
  q = memory[0].tensor(device.activations(), {shape.tokens, heads, shape.head_size});
  spec = rope_of(shape.head_size, memory[1].tensor(DType::f32, {shape.context + shape.tokens, shape.head_size}));
}

}  // namespace patchbay

/// @file dense_operations.h
/// The dense operations of Ops with random operands on a device: what `patchbay profile` counts and bench_gpu times. One table for both.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/step_plan.h"
#include "patchbay/backend.h"

namespace patchbay {

/// From -1 to 1. They begin again after 65,521: to draw millions would take longer than to measure what is done with them.
PATCHBAY_API std::vector<float> random_values(std::int64_t count, std::uint64_t seed);
/// (rows, cols) of them on the device.
PATCHBAY_API Buffer random_rows(Device& device, std::int64_t rows, std::int64_t cols, DType type);

/// Operands of (T,C): x, y and out in the type of activations; floats, the weight (C) and the factors (T) in fp32; row numbers (T); codes in 8 bits, and
/// their scales (T), which lie where angles do. RoPE sees C as heads of head_size values.
struct PATCHBAY_API DenseOperands {
  DenseOperands(Device& device, std::int64_t tokens, std::int64_t cols, std::int64_t head_size);
  std::int64_t tokens, cols, head_size;
  Buffer memory[7];
  TensorRef x, y, out, floats, weight, column, angles, ids, codes, scales;
};

/// What an operation computes of each of T C values, counted as the formula has it: a sum, product, quotient, root, exponential or tanh is one.
struct DenseOperation {
  std::string_view name;     ///< that of the key kernels.NAME too
  double operands;           ///< of (T,C) in the type of activations, results included; of fp32 each counts twice, of 8 bits half
  int flops;                 ///< per value
  void (*run)(Ops& ops, const DenseOperands& operands);
};
/// Those on (T,C) alone.
PATCHBAY_API std::span<const DenseOperation> dense_operations();

/// Rows of logits (T,V), and how a token is drawn from each: temperature 0.8, top_k 40, top_p 0.95.
struct PATCHBAY_API SamplingOperands {
  static constexpr int kFlops = 6;   ///< per logit: the temperature and a softmax; what is compared to select is not counted
  SamplingOperands(Device& device, std::int64_t rows, std::int64_t vocabulary);
  Buffer memory[6];
  TensorRef logits, tokens;
  SamplingRows rows;
};

/// A cache on the device: one sequence with `context` tokens, and a step of `tokens` more, in each of `layers` layers.
class PATCHBAY_API CachedStep {
 public:
  struct Shape { std::int64_t context, tokens, kv_heads, head_size; int layers = 1; };
  CachedStep(Ops& ops, std::shared_ptr<KvStore> store, const Shape& shape);
  KvStore& store() { return *store_; }
  const StepPlan& plan() const { return plan_; }
  const StepInputs& inputs() const { return inputs_; }
  TensorRef k() const { return k_.tensor(type_, {shape_.tokens, shape_.kv_heads, shape_.head_size}); }
  TensorRef v() const { return v_.tensor(type_, {shape_.tokens, shape_.kv_heads, shape_.head_size}); }
  /// What write_kv reads of the step and stores, in one layer.
  double write_bytes() const;

 private:
  DType type_;
  Shape shape_;
  std::shared_ptr<KvStore> store_;
  StepInputs inputs_;
  StepPlan plan_;
  Buffer k_, v_;
};

/// The queries and angles of RoPE beside a step: three operations per value that turns.
struct PATCHBAY_API RopeOperands {
  static constexpr int kFlops = 3;
  RopeOperands(Device& device, std::int64_t heads, const CachedStep::Shape& shape);
  Buffer memory[2];
  TensorRef q;
  RopeSpec spec;
};

}  // namespace patchbay

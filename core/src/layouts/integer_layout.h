/// @file integer_layout.h
/// The public layouts of integer weights: what each makes of the tensors of a module, and what tensors it makes of a weight.
#pragma once
#include <string_view>
#include <vector>

#include "layouts/module_tensors.h"
#include "layouts/quantization_config.h"
#include "patchbay/integer_codes.h"

namespace patchbay {

class IntegerLayout {
 public:
  virtual ~IntegerLayout() = default;
  virtual std::string_view name() const = 0;  ///< "GPTQ"
  /// Bits, shape, group and order of columns, without the numbers. @throws Error for tensors that do not go together.
  virtual IntegerCodes describe(const ModuleTensors& module, const QuantizationConfig& config) const = 0;
  /// Fills codes, scales and zero points of rows [first_row, first_row + out.rows); the rest of `out` is as described. @throws Error for scales
  /// that are no numbers.
  virtual void read(const ModuleTensors& module, const QuantizationConfig& config, std::int64_t first_row, IntegerCodes& out) const = 0;
  /// The tensors of a weight; of one without numbers, their shapes alone. @throws Error at the shape or zero point that the layout cannot say.
  virtual std::vector<ModuleOutput> write(const IntegerCodes& w, const QuantizationConfig& config) const = 0;
};

/// AutoGPTQ's and GPTQModel's: qweight (C b / 32, R), codes of a column of the weight's transpose one after the other; qzeros (groups, R b / 32);
/// scales (groups, R); g_idx (C), each column's group.
const IntegerLayout& gptq_layout();
/// AutoAWQ's GEMM: qweight (C, R / 8), qzeros (groups, R / 8), their words' nibbles in the order 0 2 4 6 1 3 5 7; scales (groups, R).
const IntegerLayout& awq_gemm_layout();
/// AutoAWQ's GEMV: qweight (R, C / 8), qzeros (R, words) and scales (R, 8 words), filled up to a width that its kernels want.
const IntegerLayout& awq_gemv_layout();

/// Null for a method whose weights are no integers with scales and zero points.
const IntegerLayout* integer_layout(const QuantizationConfig& config);

}  // namespace patchbay

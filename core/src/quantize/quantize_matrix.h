/// @file quantize_matrix.h
/// One matrix from floats into a format.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "patchbay/quantizer.h"
#include "quantize/quantized_model.h"

namespace patchbay {

struct Linear;

/// All values of a packed matrix, row by row.
std::vector<float> decoded(const Linear& linear, Device& device);

/// Has the quantizer choose codes for w(R,C). The format is the one given, or what it becomes for this weight. @throws Error naming the matrix.
PATCHBAY_API QuantizedMatrix quantize_matrix(const std::string& name, View<const float, 2> w, const Statistics& statistics,
                                             const Quantizer& quantizer, const std::shared_ptr<WeightFormat>& format, Device& device);

}  // namespace patchbay

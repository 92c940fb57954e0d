/// @file plain_numbers.h
/// Tensors of integers and of 64-bit floats: no weight format computes with these, so their values are rounded to fp32 as they are read.
#pragma once
#include "model_file.h"
#include "patchbay/tensor.h"

namespace patchbay {

/// I8, I16, I32, I64 or F64.
PATCHBAY_API bool holds_plain_numbers(const FileTensor& tensor);
/// The values from the element `first` on, each to the nearest float, ties to even; past the largest: infinity.
PATCHBAY_API void read_plain_numbers(const FileTensor& tensor, std::int64_t first, View<float, 1> out);

}  // namespace patchbay

// The F16C kernels of fp16. Each converts a multiple of 8 values and returns how many: the caller does the rest.
#pragma once
#include <cstdint>

#include "patchbay/tensor.h"

namespace patchbay::fp16 {

std::int64_t encode_f16c(const float* in, std::int64_t n, Half* out);
std::int64_t decode_f16c(const Half* in, std::int64_t n, float* out);

}  // namespace patchbay::fp16

/// @file tensor_output.h
/// A tensor on its way into a model file: what it is, and who supplies its bytes.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf_types.h"
#include "patchbay/tensor.h"

namespace patchbay {

/// Takes the next bytes of a tensor.
using ByteSink = FunctionRef<void(std::string_view bytes)>;

struct TensorOutput {
  std::string name;
  const TensorType* type = nullptr;
  std::vector<std::int64_t> shape;           ///< the first varies fastest, as FileTensor::shape
  std::function<void(ByteSink)> write_bytes;  ///< calls the sink with all bytes, in pieces as large as it likes

  std::int64_t bytes() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count / type->block * type->bytes;
  }
};

/// Has a tensor written to `out`. @throws Error unless it supplies as many bytes as its type and shape take.
void write_tensor(const TensorOutput& tensor, ByteSink out);

}  // namespace patchbay

/// @file safetensors_writer.h
/// Writes safetensors files.
#pragma once
#include <string>
#include <vector>

#include "writers/tensor_output.h"

namespace patchbay {

/// Appears under its name only when it is whole. "__metadata__" says {"format": "pt"}, which transformers wants. Types by GGUF's names, as
/// far as safetensors has them. @throws Error.
PATCHBAY_API void write_safetensors(const std::string& path, std::vector<TensorOutput> tensors);

}  // namespace patchbay

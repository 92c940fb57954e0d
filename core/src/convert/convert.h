/// @file convert.h
/// A model from one file form into the other: a Hugging Face folder to GGUF, a GGUF file to a folder. What the other form cannot say is refused
/// by name before anything is written; what is written is read again and must describe the same model.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model_file.h"

namespace patchbay {

struct ConvertOptions {
  std::string type;    ///< of the weight matrices: "f32", "f16", "bf16"; "": as they are, of quantised ones f16
  bool force = false;  ///< replace what is there
};

/// Writes a folder's model as `out`, a GGUF file, or a GGUF file's as `out`, a folder. Appears whole or not at all. Returns notes for people:
/// what the other form says less precisely. @throws Error.
PATCHBAY_API std::vector<std::string> convert_model(const std::shared_ptr<const ModelFile>& file, const std::string& out, const ConvertOptions& options);

/// What is said of tensors that are quantised and become floats.
std::string rounding_note(int tensors, std::string_view type);

}  // namespace patchbay

/// @file write_gguf.h
/// A quantised model as a GGUF file.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "quantize/block_walk.h"

namespace patchbay {

struct WriteGgufOptions {
  QuantizeOptions quantize;
  bool force = false;  ///< replace what is there
};

/// What was written, and what a person should know of it.
struct WrittenGguf {
  std::int64_t tensors = 0, quantized_tensors = 0, weights_bytes = 0;
  CalibrationSummary calibration;
  std::vector<std::pair<std::string, std::string>> notes;  ///< tensor and line
  std::vector<std::string> warnings;
};

/// Writes the model of a GGUF file or a Hugging Face folder as `out`, NAME.gguf, its matrices as config's weights say; metadata and tokenizer stay.
/// Appears whole or not at all. @throws Error before any work for a format that GGUF has no type for.
PATCHBAY_API WrittenGguf write_quantized_gguf(std::shared_ptr<const ModelFile> file, const RunConfig& config, Ops& ops, const std::string& out,
                                              const WriteGgufOptions& options);

/// What such a file is called in general.file_type: ggml's number for the format's name, or for that of most bytes.
PATCHBAY_API std::uint32_t gguf_file_type(std::string_view format);

}  // namespace patchbay

/// @file write_quantized.h
/// A quantised model as files that others read: which writer takes it, and what all writers are given and tell.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "quantize/block_walk.h"
#include "tensor_path.h"

namespace patchbay {

struct WriteOptions {
  QuantizeOptions quantize;
  bool force = false;  ///< replace what is there
  std::string layout;  ///< of a folder's quantised weights: gptq, gptq_v2, awq, awq_gemv, compressed-tensors; "": by the format
};

/// What was written, and what a person should know of it.
struct WrittenModel {
  std::int64_t tensors = 0, quantized_tensors = 0, weights_bytes = 0;
  std::vector<TensorPath> weights;  ///< every matrix with the type it got; no kernels
  CalibrationSummary calibration;
  std::vector<std::pair<std::string, std::string>> notes;  ///< tensor and line
  std::vector<std::string> warnings;
};

/// Once a matrix's bytes are written.
inline void forget_bytes(QuantizedMatrix& matrix) {
  matrix.packed.parts.clear();
  matrix.packed.storage = nullptr;
}

/// What every writer has checked before any work, once it knows where it writes: that the settings fit the model, that calibration has its text, that all
/// weights are finite, and that there is room on the disk of `target`. @throws Error.
PATCHBAY_API void check_quantizing(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const std::string& target);
/// @throws Error unless a file of so many bytes can be made beside `target`.
PATCHBAY_API void require_room(const std::string& target, std::int64_t bytes);

/// Writes the model of a GGUF file or a Hugging Face folder as `out`, its matrices as config's weights say; the tokenizer stays. NAME.gguf becomes a
/// GGUF file, another name a folder. Appears whole or not at all. @throws Error before any work for a name that no writer takes, or a format that the writer has no layout for.
PATCHBAY_API WrittenModel write_quantized(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const std::string& out,
                                          const WriteOptions& options);

}  // namespace patchbay

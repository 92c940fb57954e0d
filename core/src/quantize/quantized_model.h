/// @file quantized_model.h
/// What quantising made of a model: the matrices and vectors that are no longer as the file stores them.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "patchbay/weight_format.h"

namespace patchbay {

/// One matrix as it runs. packed.name is its label, "blk.3.attn_q.weight", with what tells the parts of a stored tensor apart behind it:
/// "[0:64]" of q, k and v in one, "[expert 2]". Rows and columns are the role's, whatever order the file keeps.
struct QuantizedMatrix {
  PackedWeight packed;
  std::shared_ptr<WeightFormat> format;
  bool quantized = true;  ///< false: a transform changed it, and it is kept in plain numbers
  std::string note;       ///< what transforms and quantizer say of it, for the record; or ""
};

/// How the inputs came about that statistics were taken of; samples 0: none were.
struct CalibrationSummary {
  std::string source;     ///< the file, or "the model itself"
  std::string sha256;     ///< of the file, or of the sampled tokens
  std::int64_t samples = 0, tokens = 0;
};

struct QuantizedModel {
  std::map<std::string, QuantizedMatrix> matrices;    ///< by packed.name
  /// Norms and biases that transforms changed, by label: "blk.3.attn_norm.weight", "blk.3.attn_q.bias". As they are computed with: a norm's
  /// offset (ModelSpec::norm_offset) is in them.
  std::map<std::string, std::vector<float>> vectors;
  bool untied_head = false;  ///< the file's head is its embedding, and matrices has kHeadName beside that
  CalibrationSummary calibration;
  std::vector<std::string> warnings;

  const QuantizedMatrix* find(const std::string& name) const {
    const auto found = matrices.find(name);
    return found == matrices.end() ? nullptr : &found->second;
  }
  const std::vector<float>* vector(const std::string& label) const {
    const auto found = vectors.find(label);
    return found == vectors.end() ? nullptr : &found->second;
  }
};

inline constexpr const char* kHeadName = "output.weight";

/// "blk.0.attn_q.bias" of "blk.0.attn_q.weight", with what stands behind it.
PATCHBAY_API std::string bias_name(std::string matrix);
/// "blk.0.attn_qkv.weight" of "blk.0.attn_qkv.weight[0:64]".
PATCHBAY_API std::string label_of(const std::string& matrix);

}  // namespace patchbay

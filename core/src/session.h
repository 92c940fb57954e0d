/// @file session.h
/// A model ready to run under one configuration: weights prepared, cache reserved, techniques made. `build(run)` of the design.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model_file.h"
#include "patchbay/attention.h"
#include "patchbay/model_runner.h"
#include "patchbay/weight_format.h"
#include "quantize/block_walk.h"
#include "run_config.h"
#include "tensor_path.h"
#include "tokenizer.h"

namespace patchbay {

class KvPrefix;
class KvRetention;
struct ModelCost;

struct SessionOptions {
  std::int64_t max_tokens = 0;   ///< longest sequence; 0: the model's context length, at most 4096
  int max_sequences = 1;
  QuantizeOptions quantize = {};  ///< for weights that calibration or transforms take part in
};

/// What quantising had to say, for the record.
struct QuantizationReport {
  CalibrationSummary calibration;
  std::vector<std::pair<std::string, std::string>> notes;  ///< tensor and line
  std::vector<std::string> warnings;
};

/// What a session's weights weigh, counted from bytes.
struct WeightSizes {
  std::int64_t weights_bytes = 0;          ///< all tensors as they stand in the run (a tied head counts once)
  std::int64_t parameters = 0;
  double bits_per_weight = 0;              ///< of the whole model
  std::int64_t quantized_parameters = 0;
  double quantized_bits_per_weight = 0;    ///< of what a quantizer touched; 0 when nothing was
};

/// One tensor of weights as a run holds it, readable as floats. Valid as long as the session.
struct WeightView {
  std::string tensor, format;
  std::int64_t rows = 0, cols = 0;
  const void* bytes = nullptr;  ///< two views of one format on the same bytes are equal
  std::function<void(std::int64_t first_row, View<float, 2> out)> decode;
};

class PATCHBAY_API Session {
 public:
  /// Loads, quantises and prepares. `file` may be shared by several sessions. @throws Error naming tensor and rule.
  Session(std::shared_ptr<const ModelFile> file, const RunConfig& config, const SessionOptions& options = {});
  ~Session();

  ModelRunner& runner();
  const Tokenizer& tokenizer() const;
  const RunConfig& config() const;
  Device& device();
  /// Where weights are decoded and texts scored; the device itself where that is the host.
  Device& host();
  const KvStore& kv_store() const;
  WeightSizes sizes() const;
  const std::vector<TensorPath>& tensor_paths() const;
  const QuantizationReport& quantization() const;
  /// Summary of what ran: {"attention": "flash:avx2", "ops": "avx2", "weights": {"q4_1:integer": 210, ...}, "kv": "fp16 read natively"}.
  std::map<std::string, std::string> paths() const;
  /// Every weight, norms included, in the order of the forward pass.
  std::vector<WeightView> weights() const;
  /// What this configuration must move and compute: engine/cost_model.h.
  ModelCost cost() const;
  int hidden_size() const;
  /// logits(n,V) from final hidden states (n, hidden) as Step.hidden gives them: the head alone.
  void head(View<const float, 2> hidden, View<float, 2> logits);
  /// A decoder as configured (one object may serve many sequences), and a sequence's own processors.
  std::shared_ptr<class Decoder> make_decoder() const;
  KvRetention& retention();
  KvPrefix& prefix();
  std::vector<std::shared_ptr<class LogitsProcessor>> make_processors() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// By the tensor's name in the file: the format in which the run will hold each matrix, or, before a scan (bits_by_sensitivity), its candidates. No kernels.
PATCHBAY_API std::map<std::string, TensorPath> planned_weights(const ModelFile& file, const RunConfig& config);
/// Checks a run against a model without loading weights: shapes, formats that do not fit (naming the tensor), context, calibration.
/// What `plan` calls. Returns what activations will be: "q8", "f16", by stage where there are two. @throws Error.
PATCHBAY_API std::string check_run(const ModelFile& file, const RunConfig& config, const SessionOptions& options = {});

}  // namespace patchbay

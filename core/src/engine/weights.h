/// @file weights.h
/// A model's weights under one run: as stored or quantised, packed, and ready to multiply.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/model_spec.h"
#include "patchbay/weight_format.h"
#include "run_config.h"
#include "session.h"

namespace patchbay {

class Quantizer;

/// One weight matrix: its bytes, what they mean, and the kernel that multiplies them.
struct Linear {
  PackedWeight packed;
  std::shared_ptr<WeightFormat> format;
  std::unique_ptr<LinearKernel> kernel;  ///< null for an embedding that is only looked up
};

struct BlockWeights {
  Buffer attention_norm, ffn_norm;  ///< (hidden) fp32
  Linear q, k, v, attention_output, gate, up, down;
};

struct ModelWeights {
  Linear embedding, head;           ///< head is empty when tied: the embedding's kernel serves
  Buffer output_norm;
  std::vector<BlockWeights> blocks;
  std::vector<TensorPath> paths;
  WeightSizes sizes;
};

/// Which quantizer and format each tensor gets: the first rule that matches its name, else the default for the blocks' linear
/// layers. One object per distinct choice. @throws Error when a rule matches no tensor.
class WeightPlan {
 public:
  WeightPlan(const ModelFile& file, const ModelSpec& spec, const RunConfig& config);
  struct Choice {
    std::shared_ptr<Quantizer> quantizer;
    std::shared_ptr<WeightFormat> format;  ///< null: as stored
  };
  const Choice& choice(const std::string& tensor) const;
  /// Tensors that are multiplied (or looked up), in file order.
  const std::vector<const FileTensor*>& matrices() const { return matrices_; }

 private:
  std::map<std::string, Choice> choices_;
  std::vector<const FileTensor*> matrices_;
};

/// @throws Error naming tensor and rule where a format cannot hold a shape, before any weight is read.
void check_weights(const ModelFile& file, const WeightPlan& plan);
/// See Session::weights.
std::vector<WeightView> weight_views(const ModelWeights& weights, const ModelSpec& spec);
ModelWeights load_weights(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config, Ops& ops);

}  // namespace patchbay

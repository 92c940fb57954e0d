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
struct QuantizedModel;

/// Where a model's layers run: blocks from first_on_device on on the device, with the output norm and the head; those before, and
/// what is looked up by token, on the host. Where the device is the host there is one place for all.
struct Placement {
  Ops* host = nullptr;
  Ops* device = nullptr;
  int first_on_device = 0;
  Ops& of(int layer) const { return layer < first_on_device ? *host : *device; }
};

/// Values in fp32 of a norm or a bias: on the host, and on a GPU where its operations read them there.
struct VectorWeight {
  Buffer values, uploaded;
  std::int64_t size() const { return values.size(); }
  TensorRef tensor(std::initializer_list<std::int64_t> shape) const {
    return (uploaded.size() > 0 ? uploaded : values).tensor(DType::f32, shape);
  }
};

/// One weight matrix: its bytes, what they mean, and the kernel that multiplies them.
struct Linear {
  PackedWeight packed;
  PluginSpec spec;                       ///< of the format, as settings have it
  std::shared_ptr<WeightFormat> format;
  std::unique_ptr<LinearKernel> kernel;  ///< null for a role that the model lacks
  VectorWeight bias;                     ///< (rows), or empty
};

/// (size) each; empty for a role that the model lacks.
struct NormWeights { VectorWeight weight, bias; };

/// A feed-forward part: down(act(gate(x)) * up(x)); without a gate, down(act(up(x))).
struct FeedForwardWeights { Linear gate, up, down; };

struct BlockWeights {
  NormWeights attention_norm, q_norm, k_norm, attention_post_norm, ffn_norm, ffn_post_norm;
  Linear q, k, v, attention_output;
  FeedForwardWeights ffn, shared;           ///< empty where experts stand in its place; shared: the expert of all tokens
  std::vector<FeedForwardWeights> experts;
  Linear router;
  VectorWeight shared_router;               ///< (hidden)
};

struct ModelWeights {
  Linear embedding, position_embedding, head;  ///< head is empty when tied and in one place with the embedding, whose kernel serves
  NormWeights output_norm;
  std::vector<BlockWeights> blocks;
  std::vector<TensorPath> paths;
  WeightSizes sizes;
};

/// Which quantizer and format each tensor gets: the first rule that matches its label, else the default for the blocks' linear
/// layers (but for routers: a token sent to another expert costs more than these few bytes save). One object per distinct
/// choice. @throws Error when a rule matches no tensor.
class WeightPlan {
 public:
  WeightPlan() = default;  ///< all as stored
  WeightPlan(const ModelFile& file, const ModelSpec& spec, const RunConfig& config);
  struct Choice {
    std::shared_ptr<Quantizer> quantizer;
    PluginSpec spec;                       ///< of the format
    std::shared_ptr<WeightFormat> format;  ///< null: as stored
    std::string instead_of = {};           ///< see TensorPath
    bool by_rule = false;                  ///< a rule names it
    Needs needs() const;                   ///< of both
  };
  /// `label`: see TensorPlace.
  const Choice& choice(const std::string& label) const;
  /// A stored matrix R x C; fused and stacked ones as a whole.
  struct Matrix {
    std::string label;
    const FileTensor* tensor = nullptr;
    std::int64_t rows = 0, cols = 0;
    bool transposed = false;
  };
  /// All that are multiplied or looked up.
  const std::vector<Matrix>& matrices() const { return matrices_; }
  /// What any of them needs to know of its inputs.
  Needs needs() const;
  /// All that the model reads: matrices, norms and biases. A file may hold others (rotary angles, masks).
  const std::vector<const FileTensor*>& tensors() const { return tensors_; }

 private:
  std::map<std::string, Choice> choices_;
  std::vector<Matrix> matrices_;
  std::vector<const FileTensor*> tensors_;
};

/// The format that a tensor is stored in, as settings name it.
PluginSpec stored_spec(const FileTensor& tensor);
/// The same, made. @throws Error where it is not computed with.
std::shared_ptr<WeightFormat> stored_format(const ModelFile& file, const FileTensor& tensor);
/// Of a stored tensor seen as a matrix whose rows are as long as its first extent.
std::int64_t rows_of(const FileTensor& tensor);

/// The values of a stored tensor as floats, row by row, whatever its type.
class StoredRows {
 public:
  /// @throws Error for a type that is not computed.
  StoredRows(const std::shared_ptr<const ModelFile>& file, const FileTensor& tensor);
  void read(std::int64_t first_row, View<float, 2> out) const;

 private:
  const FileTensor& tensor_;
  std::shared_ptr<WeightFormat> format_;
  PackedWeight packed_;  ///< empty for plain numbers
};

/// @throws Error naming tensor and rule where a format cannot hold a shape, or weights.kernel where no format has it, before any weight is read.
void check_weights(const ModelFile& file, const WeightPlan& plan, const RunConfig& config);
/// See Session::weights.
std::vector<WeightView> weight_views(const ModelWeights& weights, const ModelSpec& spec);
/// `quantized` has what is not to be quantised here any more, and what else is not as the file stores it.
PATCHBAY_API ModelWeights load_weights(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config,
                                       const Placement& placement, const QuantizedModel& quantized);
/// One block, and what stands outside of the blocks, as `quantized` has them, else as stored: for whoever takes a model apart.
PATCHBAY_API BlockWeights load_block(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config,
                                     const Placement& placement, const QuantizedModel& quantized, int layer);
PATCHBAY_API ModelWeights load_outside(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config,
                                       const Placement& placement, const QuantizedModel& quantized);

}  // namespace patchbay

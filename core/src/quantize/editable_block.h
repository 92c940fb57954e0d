/// @file editable_block.h
/// One block of a model on its way to being quantised: which of its matrices read the same input, which groups transforms may scale, and its
/// values in floats where they change.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/weights.h"
#include "patchbay/transform.h"
#include "quantize/input_statistics.h"
#include "quantize/quantized_model.h"

namespace patchbay {

/// Where in the block an input is made; in this order matrices are quantised where each sees those before it quantised.
enum class BlockStage { attention_in, attention_out, ffn_in, ffn_out };
inline constexpr BlockStage kBlockStages[] = {BlockStage::attention_in, BlockStage::attention_out, BlockStage::ffn_in, BlockStage::ffn_out};

/// A matrix of the block.
struct BlockMatrix {
  Linear* linear = nullptr;
  const WeightPlan::Choice* choice = nullptr;
  PackedWeight stored;                   ///< as it was loaded, with its format
  std::shared_ptr<WeightFormat> stored_format;
  std::vector<float> values;             ///< (R,C) where transforms may change it, else empty: as stored
  std::string note;                      ///< what transforms said
  const std::string& name() const { return stored.name; }
};

/// An input that matrices of the block share, with what is known of it.
struct LayerInput {
  BlockStage stage = BlockStage::attention_in;
  std::vector<BlockMatrix*> readers;
  std::unique_ptr<InputStatistics> gathered;
  Statistics statistics;
  Needs needs() const;  ///< of the readers that are to be quantised
};

/// What transforms see of a block, and where in it.
struct BlockGroup {
  BlockStage stage = BlockStage::attention_in;
  LinearGroup group;
};

class PATCHBAY_API EditableBlock {
 public:
  /// edits: whether transforms will change values; then all matrices are brought to fp32.
  EditableBlock(BlockWeights& block, const ModelSpec& spec, const WeightPlan& plan, int layer, bool edits, Ops& ops);

  std::deque<LayerInput>& inputs() { return inputs_; }
  BlockWeights& weights() { return block_; }
  /// With the statistics of their inputs, as these are now.
  std::vector<BlockGroup> groups();
  /// One line of a transform about a group, for its first matrix that is quantised.
  void note(const LinearGroup& group, const std::string& line);
  /// Has `linear` of a matrix multiply what the matrix now is.
  void use(BlockMatrix& matrix, const QuantizedMatrix& quantized);
  /// What transforms changed without its being quantised: norms, biases, and matrices in plain numbers.
  void keep_changed(QuantizedModel& result);

 private:
  void add(BlockStage stage, std::initializer_list<Linear*> readers);
  void add_experts();
  void bring_to_floats(BlockMatrix& matrix);
  EditableMatrix editable(BlockMatrix& matrix) const;
  void add_consumers(LinearGroup& group, const LayerInput& input);
  LinearGroup group_of(const LayerInput& input);
  BlockMatrix* matrix_of(const Linear& linear);
  void keep_norm(Role role, const NormWeights& norm, QuantizedModel& result) const;

  BlockWeights& block_;
  const ModelSpec& spec_;
  const WeightPlan& plan_;
  const int layer_;
  const bool edits_;
  Ops& ops_;
  std::deque<BlockMatrix> matrices_;
  std::deque<LayerInput> inputs_;
};

/// A matrix in plain numbers as near to its stored type as they can be: fp32 and bf16 stay, all else becomes fp16, or fp32 where that is too
/// narrow.
QuantizedMatrix in_plain_numbers(const std::string& name, View<const float, 2> w, const WeightFormat& stored, Device& device);

}  // namespace patchbay

/// @file block_quantizer.h
/// One block: turned, transformed, its matrices quantised, and the samples taken on through what came of it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "patchbay/transform.h"
#include "quantize/editable_block.h"
#include "quantize/gathering.h"
#include "quantize/rotations.h"
#include "quantize/sample_runner.h"

namespace patchbay {

class BlockQuantizer {
 public:
  /// Which share of the block is done, and what is being done.
  using Progress = std::function<void(double of_block, const std::string& what)>;
  BlockQuantizer(const ModelSpec& spec, std::vector<std::shared_ptr<Transform>> transforms, Ops& ops, Progress progress);

  const Rotations& rotations() const { return rotations_; }
  /// Whether matrices change before they are quantised.
  bool edits() const { return !transforms_.empty(); }
  /// What the transforms ask about every block's inputs.
  Needs needs() const;
  /// Borrowed; null: nobody asks for statistics.
  void set_samples(SampleRunner* samples);
  /// What becomes of the block. goes_on: the samples are to stand behind it then.
  QuantizedModel quantized(EditableBlock& block, int layer, bool goes_on);
  /// Takes the samples through a block that was quantised before.
  void pass_kept(EditableBlock& block, const QuantizedModel& kept, int layer);

 private:
  void apply(const Transform& transform, EditableBlock& block, int layer);
  void quantize_in_sequence(EditableBlock& block, int layer, bool goes_on, QuantizedModel& done);
  void pass(const char* what, int layer, BlockPart first, BlockPart last, bool keep);
  void gather_inputs(EditableBlock& block, const Gathering& wanted);
  void quantize(EditableBlock& block, LayerInput& input, QuantizedModel& done);
  QuantizedMatrix quantize_one(const BlockMatrix& matrix, const Statistics& statistics) const;

  const ModelSpec& spec_;
  const std::vector<std::shared_ptr<Transform>> transforms_;
  const Rotations rotations_;
  Ops& ops_;
  const Progress progress_;
  SampleRunner* samples_ = nullptr;
  double of_block_ = 0;  ///< which share of the block is done
  std::string doing_;
};

}  // namespace patchbay

// The order of work in a block: the transforms one after the other, each with the statistics that those before it leave, and rotations in the
// place of the first of them; then the quantizers; then the block's outputs, quantised, are the next one's inputs.
#include "quantize/block_quantizer.h"

#include <utility>

#include "patchbay/quantizer.h"
#include "quantize/quantize_matrix.h"

namespace patchbay {
namespace {

constexpr double kPassShare = 1.0 / 8;  // of a block's time, for the progress bar

}  // namespace

BlockQuantizer::BlockQuantizer(const ModelSpec& spec, std::vector<std::shared_ptr<Transform>> transforms, Ops& ops, Progress progress)
    : spec_(spec), transforms_(std::move(transforms)), rotations_(transforms_, spec), ops_(ops), progress_(std::move(progress)) {}

Needs BlockQuantizer::needs() const {
  Needs needs;
  for (const auto& transform : transforms_) needs = needs | transform->needs();
  return needs;
}

void BlockQuantizer::set_samples(SampleRunner* samples) {
  samples_ = samples;
  if (samples_) samples_->set_progress([this](double fraction) { progress_(of_block_ + kPassShare * fraction, doing_); });
}

void BlockQuantizer::pass_kept(EditableBlock& block, const QuantizedModel& kept, int layer) {
  for (LayerInput& input : block.inputs())
    for (BlockMatrix* matrix : input.readers)
      if (const QuantizedMatrix* found = kept.find(matrix->name())) block.use(*matrix, *found);
  of_block_ = 0;
  pass("kept from before", layer, BlockPart::attention, BlockPart::feed_forward, true);
}

QuantizedModel BlockQuantizer::quantized(EditableBlock& block, int layer, bool goes_on) {
  QuantizedModel done;
  of_block_ = 0;
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    if (i == rotations_.transforms_before()) rotations_.turn(block, spec_, ops_.device());
    apply(*transforms_[i], block, layer);
  }
  block.keep_changed(done);
  Needs needs;
  for (const LayerInput& input : block.inputs()) needs = needs | input.needs();
  if (needs.any() && needs.sequential) {
    quantize_in_sequence(block, layer, goes_on, done);
  } else {
    if (needs.any()) gather_inputs(block, {layer});
    for (LayerInput& input : block.inputs()) quantize(block, input, done);
    pass("quantised", layer, BlockPart::attention, BlockPart::feed_forward, goes_on);
  }
  return done;
}

void BlockQuantizer::apply(const Transform& transform, EditableBlock& block, int layer) {
  if (transform.needs().any()) gather_inputs(block, {layer, BlockPart::attention, BlockPart::feed_forward, {}, transform.needs()});
  for (BlockGroup& part : block.groups()) {
    progress_(of_block_, "transform of " + part.group.name);
    try {
      if (const std::string line = transform.apply(part.group, ops_.device()); !line.empty()) block.note(part.group, line);
    } catch (const Error& error) {
      throw error.at(part.group.name);
    }
  }
  for (LayerInput& input : block.inputs()) input.statistics = {}, input.gathered = nullptr;
}

/// Each stage of the block sees those before it quantised. What attention makes is kept between two stages, so that it runs once.
void BlockQuantizer::quantize_in_sequence(EditableBlock& block, int layer, bool goes_on, QuantizedModel& done) {
  const auto stage = [&](BlockStage which, BlockPart part) {
    gather_inputs(block, {layer, part, part, which, {}});
    for (LayerInput& input : block.inputs())
      if (input.stage == which) quantize(block, input, done);
  };
  stage(BlockStage::attention_in, BlockPart::attention);
  pass("attention", layer, BlockPart::attention, BlockPart::attention, true);
  stage(BlockStage::attention_out, BlockPart::output);
  pass("attention's output", layer, BlockPart::output, BlockPart::output, true);
  stage(BlockStage::ffn_in, BlockPart::feed_forward);
  stage(BlockStage::ffn_out, BlockPart::feed_forward);
  pass("feed-forward part", layer, BlockPart::feed_forward, BlockPart::feed_forward, goes_on);
}

void BlockQuantizer::pass(const char* what, int layer, BlockPart first, BlockPart last, bool keep) {
  if (!keep || !samples_) return;
  doing_ = what;
  samples_->run(layer, first, last, true);
  of_block_ += kPassShare;
}

void BlockQuantizer::gather_inputs(EditableBlock& block, const Gathering& wanted) {
  doing_ = "inputs";
  gather(block, *samples_, wanted, ops_);
  of_block_ += kPassShare;
}

void BlockQuantizer::quantize(EditableBlock& block, LayerInput& input, QuantizedModel& done) {
  for (BlockMatrix* matrix : input.readers) {
    if (!matrix->choice->format) continue;
    if (input.gathered && input.statistics.tokens == 0)
      done.warnings.push_back(matrix->name() + ": no calibration token came by; it is quantised as if all its inputs were alike");
    progress_(of_block_, matrix->name());
    QuantizedMatrix quantized = quantize_one(*matrix, input.statistics);
    if (!matrix->note.empty()) quantized.note = matrix->note + (quantized.note.empty() ? "" : "; ") + quantized.note;
    block.use(*matrix, quantized);
    done.matrices[matrix->name()] = std::move(quantized);
  }
  input.gathered = nullptr;
  input.statistics = {};
}

QuantizedMatrix BlockQuantizer::quantize_one(const BlockMatrix& matrix, const Statistics& statistics) const {
  std::vector<float> room;
  if (matrix.values.empty()) room = decoded(*matrix.linear, ops_.device());
  const std::vector<float>& values = matrix.values.empty() ? room : matrix.values;
  return quantize_matrix(matrix.name(), View<const float, 2>(values.data(), {matrix.stored.rows, matrix.stored.cols}), statistics,
                         *matrix.choice->quantizer, matrix.choice->format, ops_.device());
}

}  // namespace patchbay

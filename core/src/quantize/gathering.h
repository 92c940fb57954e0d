/// @file gathering.h
/// Statistics of the inputs of a block's matrices, taken while the calibration samples run through it.
#pragma once
#include <optional>

#include "quantize/editable_block.h"
#include "quantize/sample_runner.h"

namespace patchbay {

struct Gathering {
  int layer = 0;
  BlockPart first = BlockPart::attention, last = BlockPart::feed_forward;  ///< which parts of the block run
  std::optional<BlockStage> stage = std::nullopt;  ///< whose inputs; nothing: all of the parts
  Needs needs = {};                 ///< of every input; none: what its readers need
};

/// Leaves the samples where they were, and in the block's inputs the statistics.
PATCHBAY_API void gather(EditableBlock& block, SampleRunner& samples, const Gathering& wanted, Ops& ops);

}  // namespace patchbay

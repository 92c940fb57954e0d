/// @file finished_blocks.h
/// A folder that keeps what is quantised, block by block, so that a run that was stopped goes on at the block where it was, and one that
/// comes back finds all.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "engine/weights.h"
#include "quantize/quantized_model.h"

namespace patchbay {

/// Of all that quantised weights depend on: model, settings, calibration, and this program.
std::string walk_identity(const ModelFile& file, const RunConfig& config);

/// One file per block, and one for what stands outside of the blocks. A file appears when it is whole.
class FinishedBlocks {
 public:
  /// @param folder    made where it is missing; "": nothing is kept
  /// @param identity  of all that the results depend on: the subfolder's name
  FinishedBlocks(const std::string& folder, const std::string& identity);
  /// What the file of a block has, mapped; nothing where there is none, or a damaged one. layer -1: outside of the blocks.
  std::optional<QuantizedModel> load(int layer, const WeightPlan& plan) const;
  /// Afterwards the block's matrices are those of the file, mapped, and take no memory.
  void save(int layer, const WeightPlan& plan, QuantizedModel& block) const;

 private:
  std::string path(int layer) const;
  std::string folder_;
};

}  // namespace patchbay

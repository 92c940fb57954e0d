/// @file block_walk.h
/// Quantising with calibration: one block of the model after the other, each with the inputs that the quantised blocks before it make.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "model_file.h"
#include "patchbay/backend.h"
#include "quantize/quantized_model.h"
#include "run_config.h"

namespace patchbay {

struct QuantizeOptions {
  /// Where finished blocks are kept, so that a stopped run goes on and a repeated one finds them; "": nowhere.
  std::string folder;
  /// Called now and then; may be null. May throw, to stop: finished blocks are kept.
  std::function<void(double fraction, const std::string& what)> progress;
  std::function<void(const std::string& line)> note;  ///< what the user should know; may be null
};

/// Whether weights are chosen by statistics or changed by transforms: if not, each is quantised by itself as it is loaded.
PATCHBAY_API bool needs_walk(const RunConfig& config);
/// Checks what can be checked before weights are read: the tokens that calibration needs, and whether the model can be turned. @throws Error.
PATCHBAY_API void check_calibration(const ModelFile& file, const RunConfig& config);
/// All that the run's `weights` make of the model; nothing for a run that needs no walk. On the operations of a host.
PATCHBAY_API QuantizedModel quantize_model(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops,
                                           const QuantizeOptions& options = {});

}  // namespace patchbay

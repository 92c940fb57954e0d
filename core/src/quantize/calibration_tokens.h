/// @file calibration_tokens.h
/// The tokens that calibration runs through the model: cut from a text, from prompts, or sampled from the model.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "patchbay/model_runner.h"
#include "quantize/calibration_settings.h"
#include "quantize/quantized_model.h"
#include "tokenizer.h"

namespace patchbay {

struct CalibrationTokens {
  std::vector<std::vector<Token>> samples;  ///< each at most settings.length tokens, two or more
  CalibrationSummary summary;
  std::string note;                         ///< where there are fewer or shorter samples than were asked for, else ""
  std::int64_t longest() const;
};

/// The file that settings name, as it can be opened: as written, or, for the text that comes with the program, where that lies. "" for
/// tokens of the model itself.
PATCHBAY_API std::string calibration_file(const CalibrationSettings& settings);
/// Its SHA-256; "" for tokens of the model itself, which follow from the model and the settings. @throws Error where it is missing.
PATCHBAY_API std::string calibration_hash(const CalibrationSettings& settings);

/// From a file. Windows of `length` follow each other in the text; of more than `samples`, the seed chooses which. Where the model
/// wants BOS, it replaces a window's first token; prompts are encoded as they are decoded, from each kind in turn.
/// No sample is longer than the model's context.
/// @throws Error for a file that is missing or holds less than two tokens.
PATCHBAY_API CalibrationTokens calibration_tokens(const CalibrationSettings& settings, const Tokenizer& tokenizer, std::int64_t context);
/// Drawn from the model as stored, at temperature 1, from BOS on or, without one, from a token drawn evenly. threads as RunConfig's.
PATCHBAY_API CalibrationTokens sampled_tokens(const CalibrationSettings& settings, const std::shared_ptr<const ModelFile>& file,
                                              std::int64_t context, int threads, const std::function<void(double fraction)>& progress);

}  // namespace patchbay

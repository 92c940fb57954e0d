/// @file calibration_settings.h
/// What `weights.calibration` says: on which tokens statistics for quantizers, transforms and formats are taken.
#pragma once
#include <cstdint>
#include <string>

#include "patchbay/params.h"

namespace patchbay {

struct PATCHBAY_API CalibrationSettings {
  /// Where the tokens come from: one of these two files, or the model itself. Neither: the text that comes with the program.
  std::string text, prompts, source = "file";
  std::int64_t samples = 128, length = 512, seed = 0;

  void visit(Fields& fields);
  /// @throws Error where several sources are named.
  void check() const;
  bool from_model() const { return source == "model"; }
  /// The text, with the default in place of nothing; "" for another source.
  std::string text_path() const;
};

inline constexpr const char* kCalibrationText = "data/calibration.txt";

}  // namespace patchbay

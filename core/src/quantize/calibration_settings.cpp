#include "quantize/calibration_settings.h"

namespace patchbay {

void CalibrationSettings::visit(Fields& f) {
  constexpr std::int64_t kMany = 1 << 24;
  f.text("text", text, {"file that samples are cut from; without any of text, prompts and source: data/calibration.txt"});
  f.text("prompts", prompts, {"JSON lines with kind and prompt, each a sample"});
  f.choice("source", source, {"file", "model"}, {"model: samples are drawn from the model itself"});
  f.integer("samples", samples, 1, kMany, {"sequences at most; a note says where there are fewer"});
  f.integer("length", length, 2, kMany, {"of each at most", "token"});
  f.integer("seed", seed, 0, std::int64_t{1} << 62, {"chooses windows of a text, and draws from the model"});
}

void CalibrationSettings::check() const {
  if (!text.empty() + !prompts.empty() + from_model() <= 1) return;
  throw Error("weights.calibration", "more than one source is named", "one of text, prompts and source: model");
}

std::string CalibrationSettings::text_path() const {
  if (!prompts.empty() || from_model()) return {};
  return text.empty() ? kCalibrationText : text;
}

}  // namespace patchbay

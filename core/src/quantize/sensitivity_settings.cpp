#include "quantize/sensitivity_settings.h"

namespace patchbay {

void SensitivitySettings::visit(Fields& f) {
  constexpr std::int64_t kMany = 1 << 24;
  f.real("budget", budget, 0.5, 32, {"bits per weight, scales included, on average of the matrices that are chosen for", "bit"});
  f.choice("measure", measure, {"error", "kl"}, {"error: of each matrix' outputs, on the calibration's inputs; kl: of the model's next tokens, with that matrix alone quantised"});
  f.choice("per", per, {"matrix", "layer"}, {"which get one format together"});
  f.integer("tokens", tokens, 2, kMany, {"of the calibration's, at most, that measure kl runs", "token"});
}

}  // namespace patchbay

#include "quantize/quantized_model.h"

#include <string_view>

namespace patchbay {

std::string bias_name(std::string matrix) {
  constexpr std::string_view kWeight = ".weight";
  if (const auto at = matrix.find(kWeight); at != std::string::npos) matrix.replace(at, kWeight.size(), ".bias");
  return matrix;
}

std::string label_of(const std::string& matrix) { return matrix.substr(0, matrix.find('[')); }

}  // namespace patchbay

/// @file folded_modules.h
/// A quantised checkpoint's tensors, with those of each quantised module as the one weight that they stand for.
#pragma once
#include <string>
#include <vector>

#include "model_file.h"

namespace patchbay {

/// A folder's tensors: in place of X.qweight, X.scales ... stands X.weight, whose FileTensor::module reads it. All others stay. The same list where
/// config.json has no quantization_config. @throws Error for a method that is not read, and for tensors that do not go together.
std::vector<FileTensor> folded_modules(const std::string& folder, std::vector<FileTensor> tensors);

}  // namespace patchbay

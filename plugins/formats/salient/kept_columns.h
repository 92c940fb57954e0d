// What the kept columns add to the inner format's product. Formula (K4): README.md.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "patchbay/weight_format.h"

namespace patchbay {

struct KeptColumns {
  std::vector<std::int32_t> columns;
  std::vector<float> differences;  ///< (R, columns): what they differ by from the inner format's weights
};

/// y of `inner`, and what the kept columns add to it, on the device of ops. path: what path() says.
std::unique_ptr<LinearKernel> with_kept_columns(std::string path, std::unique_ptr<LinearKernel> inner, KeptColumns kept, Ops& ops);

}  // namespace patchbay

/// @file tensor_path.h
/// What a run, or a file, makes of one tensor: for records, `patchbay inspect` and `patchbay quantize`.
#pragma once
#include <string>

namespace patchbay {

struct TensorPath {
  std::string tensor, format;
  std::string path = {};            ///< the kernel; "" where nothing runs
  double bits_per_weight = 0;       ///< true: of the bytes of all parts
  std::string instead_of = {};      ///< the format that a mix has for this tensor, where its blocks divide no row of it; else ""
};

}  // namespace patchbay

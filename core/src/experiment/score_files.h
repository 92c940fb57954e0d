/// @file score_files.h
/// Whether the scores of a run still lie beside its record (they are written and read in evaluation.h).
#pragma once
#include <string>

#include "patchbay/error.h"

namespace patchbay {

/// Whether a file of token scores lies there, as long as its header says.
PATCHBAY_API bool scores_are_whole(const std::string& path);

}  // namespace patchbay

/// @file idle_processors.h
/// Logits processors that cannot change what a decoder chooses.
#pragma once
#include <string>

#include "session.h"

namespace patchbay::app {

/// One line that names them, or "". Neither interface says whether a decoder draws or whether a processor leaves the likeliest token
/// where it is, so both are tried on logits made here. A processor may act only in a situation that this does not meet: the line is
/// something to tell, never a reason to refuse.
std::string idle_processors(const RunConfig& config, int vocabulary);
std::string idle_processors(Session& session);

}  // namespace patchbay::app

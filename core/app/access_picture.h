/// @file access_picture.h
/// A drawing of what the lanes of one warp touch in one instruction.
#pragma once
#include <string>

#include "gpu/counters.h"

namespace patchbay::app {

/// SVG: lanes above, the 32-byte sectors (global) or the 32 banks (shared) that they touch below, joined by lines.
std::string access_svg(const gpu::SiteCounters& site, const std::string& kernel);

}  // namespace patchbay::app

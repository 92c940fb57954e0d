/// @file describe_json.h
/// Plugins, parameters and kernels as JSON: what `list --json` and `describe --json` have in common. Keys are stable.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "json_text.h"
#include "registry.h"
#include "settings_reader.h"

namespace patchbay::app {


inline nlohmann::json kernel_json(const KernelInfo& kernel) {
  return {{"kernel", kernel.name},
          {"backend", kernel.backend},
          {"phases", kernel.phases},
          {"available", is_available(kernel)},
          {"what", kernel.what}};
}

}  // namespace patchbay::app

/// @file profile_report.h
/// A profile as text and as JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpu/gpu_model.h"
#include "profile_case.h"

namespace patchbay::app {

struct ProfileView {
  const gpu::GpuModel& gpu;
  int registers = 0;      ///< given by the user; 0: not
  bool details = true;    ///< each kernel's lines and instructions too
};
std::string profile_text(const std::vector<ProfiledCase>& cases, const ProfileView& view, bool utf8, std::size_t columns);
nlohmann::json profile_json(const std::vector<ProfiledCase>& cases, const ProfileView& view);

}  // namespace patchbay::app

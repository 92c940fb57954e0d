/// @file profile_report.h
/// A profile as text and as JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "profile_view.h"

namespace patchbay::app {

std::string profile_text(const std::vector<ProfiledCase>& cases, const ProfileView& view, bool utf8, std::size_t columns);
nlohmann::json profile_json(const std::vector<ProfiledCase>& cases, const ProfileView& view);

}  // namespace patchbay::app

// Settings changed by path, and written as JSON.
#include <charconv>
#include <nlohmann/json.hpp>

#include "config.h"
#include "settings_reader.h"

namespace patchbay {
namespace {

/// The item of a list that a path's segment names by number.
Settings& list_item(Settings& list, const std::string& segment, std::string_view path) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(segment.data(), segment.data() + segment.size(), index);
  if (error != std::errc() || end != segment.data() + segment.size() || index >= list.items.size()) {
    throw Error(printable(path), printable(segment) + " names no item of a list",
                "0 to " + std::to_string(std::ssize(list.items) - 1));
  }
  return list.items[index];
}

/// The entry `segment` of a node, made when it is absent. A name in the way becomes {type: name}.
Settings& child(Settings& node, const std::string& segment, std::string_view path, const std::string& where) {
  if (node.kind == Settings::Kind::list) return list_item(node, segment, path);
  if (node.kind == Settings::Kind::scalar) {
    Settings type = node;
    node = Settings{};
    node.where = type.where;
    node.entries.emplace_back("type", std::move(type));
  }
  node.kind = Settings::Kind::map;
  if (node.where.empty()) node.where = where;
  for (auto& [key, value] : node.entries)
    if (key == segment) return value;
  node.entries.emplace_back(segment, Settings{});
  return node.entries.back().second;
}

nlohmann::json as_json(const Settings& settings) {
  if (settings.kind == Settings::Kind::list) {
    nlohmann::json list = nlohmann::json::array();
    for (const Settings& item : settings.items) list.push_back(as_json(item));
    return list;
  }
  if (settings.kind == Settings::Kind::map) {
    nlohmann::json map = nlohmann::json::object();
    for (const auto& [key, value] : settings.entries) map[key] = as_json(value);
    return map;
  }
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min(), kHigh = std::numeric_limits<std::int64_t>::max();
  try {
    switch (scalar_type(settings)) {
      case ScalarType::null:
        return nullptr;
      case ScalarType::boolean:
        return settings.text[0] == 't' || settings.text[0] == 'T';
      case ScalarType::integer:
        return read_integer(settings, kLow, kHigh);
      case ScalarType::real:
        return read_real(settings, -std::numeric_limits<double>::max(), std::numeric_limits<double>::max());
      case ScalarType::text:
        break;
    }
  } catch (const Error&) {
    // A number that JSON cannot hold (.nan, more than 64 bits) stays as written.
  }
  return settings.text;
}

}  // namespace

void set_path(Settings& map, std::string_view path, const Settings& value) {
  // A map made on the way stands where the value does, less the rest of the path ("command line: weights", not "...quantizer.type").
  const bool shows_path = value.where.ends_with(path);
  const std::size_t prefix = shows_path ? value.where.size() - path.size() : value.where.size();
  Settings* node = &map;
  for (std::string_view rest = path;;) {
    const std::string segment(rest.substr(0, rest.find('.')));
    if (segment.empty()) throw Error(printable(path), "an empty part in a path", "names joined by dots: kv_store.format");
    const std::size_t walked = static_cast<std::size_t>(rest.data() - path.data());
    node = &child(*node, segment, path, walked > 0 && shows_path ? value.where.substr(0, prefix + walked - 1) : value.where);
    if (segment.size() == rest.size()) break;
    rest.remove_prefix(segment.size() + 1);
  }
  *node = value;
}

void apply_assignment(Settings& map, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw Error("command line", printable(assignment) + " is no setting", "key=value, such as kv_store.format=int8");
  }
  const std::string path(assignment.substr(0, equals));
  set_path(map, path, parse_value(assignment.substr(equals + 1), path));
}

std::string to_json(const Settings& settings) {
  return as_json(settings).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace patchbay

#include "json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "files.h"
#include "lookalikes.h"
#include "utf8.h"

namespace patchbay {
namespace {

using nlohmann::json;

constexpr std::uintmax_t kMaxBytes = 256 << 20;
constexpr int kMaxDepth = 64;
constexpr std::size_t kShownBytes = 60;

/// What stands where reading stopped; the byte named is counted from 1, and the last one that was read.
std::string found_at(const std::string& bytes, std::size_t byte) {
  constexpr std::size_t kShown = 24;
  if (byte > bytes.size()) return bytes.empty() ? "the file is empty" : "the file ends within a value, as one that is cut does";
  return fmt::format("'{}'", escaped(bytes.substr(byte > 0 ? byte - 1 : 0, kShown)));
}

json parse(const std::string& bytes, const std::string& name) {
  std::vector<std::unordered_set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxDepth) throw Error(name, fmt::format("values nested deeper than {}", kMaxDepth));
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      throw Error(name, fmt::format("duplicate key '{}'", escaped(value.get<std::string>(), kShownBytes)), "each key once in an object");
    }
    return true;
  };
  if (const Lookalike* known = find_lookalike(bytes)) throw Error(name, fmt::format("is not JSON: looks like {}", known->what), "JSON in UTF-8", std::string(known->remedy));
  // NUL would end the text for the parser, whatever follows.
  if (const auto nul = bytes.find('\0'); nul != std::string::npos) throw Error(fmt::format("{}: byte {}", name, nul + 1), "is not JSON here: NUL", "JSON in UTF-8");
  try {
    return json::parse(bytes, check);
  } catch (const json::parse_error& error) {
    throw Error(fmt::format("{}: byte {}", name, error.byte), "is not JSON here: " + found_at(bytes, error.byte), "JSON in UTF-8");
  } catch (const json::exception&) {  // of what can be parsed, numbers alone can be beyond us
    throw Error(name, "holds a number that is too large", fmt::format("numbers up to {:.2g}", std::numeric_limits<double>::max()));
  }
}

const char* kind_of(const json& value) {
  return value.is_null() ? "null" : value.is_boolean() ? "a boolean" : value.is_number() ? "a number" : value.is_string() ? "a string"
                                 : value.is_array()   ? "an array" : "an object";
}

}  // namespace

JsonFile::JsonFile(const std::string& path) : name_(escaped(path)) {
  std::error_code code;
  const std::uintmax_t bytes = std::filesystem::file_size(path, code);
  if (!code && bytes > kMaxBytes) throw Error(name_, fmt::format("{} bytes are too many for JSON", bytes), fmt::format("up to {}", kMaxBytes));
  value_ = std::make_unique<json>(parse(read_whole_file(path), name_));
}
JsonFile::JsonFile(std::string name, const std::string& bytes) : name_(std::move(name)), value_(std::make_unique<json>(parse(bytes, name_))) {}
JsonFile::~JsonFile() = default;
JsonNode JsonFile::root() const { return {value_.get(), &name_, "", "", JsonNode::kRoot}; }

std::string JsonNode::pointer() const {
  if (index_ == kRoot) return "";
  if (index_ != kMember) return fmt::format("{}/{}", base_, index_);
  std::string key;
  for (const char c : key_.substr(0, kShownBytes)) key += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return fmt::format("{}/{}", base_, escaped(key));
}
std::string JsonNode::where() const {
  const std::string place = pointer();
  return place.empty() ? *file_ : fmt::format("{}: {}", *file_, place);
}
void JsonNode::fail(std::string problem, std::string allowed, std::string remedy) const {
  throw Error(where(), std::move(problem), std::move(allowed), std::move(remedy));
}

bool JsonNode::is_null() const { return value_->is_null(); }
bool JsonNode::is_string() const { return value_->is_string(); }
bool JsonNode::is_array() const { return value_->is_array(); }
bool JsonNode::is_object() const { return value_->is_object(); }

std::string_view JsonNode::text() const {
  if (!value_->is_string()) fail(fmt::format("is {}", kind_of(*value_)), "a string");
  return value_->get_ref<const std::string&>();
}
bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail(fmt::format("is {}", kind_of(*value_)), "true or false");
  return value_->get<bool>();
}
double JsonNode::real() const {
  if (!value_->is_number()) fail(fmt::format("is {}", kind_of(*value_)), "a number");
  return value_->get<double>();
}
std::int64_t JsonNode::integer(std::int64_t low, std::int64_t high) const {
  const std::string allowed = fmt::format("a whole number from {} to {}", low, high);
  if (!value_->is_number_integer()) fail(fmt::format("is {}", kind_of(*value_)), allowed);
  const bool too_large = value_->is_number_unsigned() && value_->get<std::uint64_t>() > INT64_MAX;
  const std::int64_t value = too_large ? INT64_MAX : value_->get<std::int64_t>();
  if (too_large || value < low || value > high) fail("is out of range: " + value_->dump(), allowed);
  return value;
}

JsonNode JsonNode::at(std::string_view key) const {
  if (!value_->is_object()) fail(fmt::format("is {}", kind_of(*value_)), "an object");
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("missing key '{}'", key));
  return {&*found, file_, pointer(), found.key(), kMember};
}
std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!value_->is_object()) fail(fmt::format("is {}", kind_of(*value_)), "an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonNode(&*found, file_, pointer(), found.key(), kMember);
}
std::string_view JsonNode::text_or(std::string_view key, std::string_view otherwise) const {
  const auto found = find(key);
  return found ? found->text() : otherwise;
}
bool JsonNode::boolean_or(std::string_view key, bool otherwise) const {
  const auto found = find(key);
  return found ? found->boolean() : otherwise;
}
void JsonNode::only(std::initializer_list<std::string_view> keys) const {
  members([&](std::string_view key, const JsonNode& value) {
    if (std::ranges::find(keys, key) == keys.end()) value.fail("unknown key", fmt::format("{}", fmt::join(keys, ", ")));
  });
}

std::size_t JsonNode::size() const {
  if (!value_->is_array() && !value_->is_object()) fail(fmt::format("is {}", kind_of(*value_)), "an array or an object");
  return value_->size();
}
JsonNode JsonNode::element(std::size_t index) const {
  if (!value_->is_array() || index >= value_->size()) fail(fmt::format("is {}", kind_of(*value_)), fmt::format("an array of {} or more", index + 1));
  return {&(*value_)[index], file_, pointer(), "", index};
}
void JsonNode::members(FunctionRef<void(std::string_view, const JsonNode&)> member) const {
  if (!value_->is_object()) fail(fmt::format("is {}", kind_of(*value_)), "an object");
  const std::string base = pointer();
  for (auto entry = value_->begin(); entry != value_->end(); ++entry) {
    member(entry.key(), JsonNode(&*entry, file_, base, entry.key(), kMember));
  }
}
void JsonNode::elements(FunctionRef<void(const JsonNode&)> element) const {
  if (!value_->is_array()) fail(fmt::format("is {}", kind_of(*value_)), "an array");
  const std::string base = pointer();
  for (std::size_t i = 0; i < value_->size(); ++i) element(JsonNode(&(*value_)[i], file_, base, "", i));
}

}  // namespace patchbay

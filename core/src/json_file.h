/// @file json_file.h
/// JSON files that others wrote: read with limits, and asked with errors that name the file and the place in it (a JSON pointer, RFC 6901).
#pragma once
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "patchbay/tensor.h"

namespace patchbay {

/// A value and where it stands. Cheap to make; lives as long as its JsonFile.
class PATCHBAY_API JsonNode {
 public:
  /// "FILE: /model/type".
  std::string where() const;
  [[noreturn]] void fail(std::string problem, std::string allowed = {}, std::string remedy = {}) const;

  bool is_null() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  /// Typed values. @throws Error.
  std::string_view text() const;
  bool boolean() const;
  double real() const;
  std::int64_t integer(std::int64_t low, std::int64_t high) const;
  /// A number of 0 or more that fits a token.
  std::int32_t index() const { return static_cast<std::int32_t>(integer(0, INT32_MAX)); }

  /// A member of an object. @throws Error "missing key".
  JsonNode at(std::string_view key) const;
  /// Nothing when the key is absent or its value null.
  std::optional<JsonNode> find(std::string_view key) const;
  std::string_view text_or(std::string_view key, std::string_view otherwise) const;
  bool boolean_or(std::string_view key, bool otherwise) const;
  /// @throws Error for a key that is not among these.
  void only(std::initializer_list<std::string_view> keys) const;

  std::size_t size() const;  ///< of an array or an object. @throws Error
  JsonNode element(std::size_t index) const;
  /// Calls member(key, value) for each member of an object; element(value) for each element of an array. @throws Error.
  void members(FunctionRef<void(std::string_view, const JsonNode&)> member) const;
  void elements(FunctionRef<void(const JsonNode&)> element) const;

 private:
  friend class JsonFile;
  JsonNode(const nlohmann::json* value, const std::string* file, std::string base, std::string_view key, std::size_t index)
      : value_(value), file_(file), base_(std::move(base)), key_(key), index_(index) {}
  std::string pointer() const;
  static constexpr std::size_t kMember = static_cast<std::size_t>(-1), kRoot = static_cast<std::size_t>(-2);

  const nlohmann::json* value_;
  const std::string* file_;
  std::string base_;        ///< the pointer of what holds it
  std::string_view key_;    ///< in that; or
  std::size_t index_;       ///< in that
};

class PATCHBAY_API JsonFile {
 public:
  /// @throws Error when the file is no JSON (RFC 8259, UTF-8), too large or too deep, or an object names a key twice.
  explicit JsonFile(const std::string& path);
  /// The same of a text that was read elsewhere; `name` is what errors call it.
  JsonFile(std::string name, const std::string& bytes);
  ~JsonFile();
  const std::string& name() const { return name_; }  ///< safe to print
  JsonNode root() const;
  const nlohmann::json& value() const { return *value_; }

 private:
  std::string name_;
  std::unique_ptr<nlohmann::json> value_;
};

}  // namespace patchbay

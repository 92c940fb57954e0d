/// @file gguf_cursor.h
/// Reads forward through a file's bytes; every step is checked against the end, every complaint says where it stands.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "patchbay/error.h"

namespace patchbay {

class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, std::string file) : bytes_(bytes), file_(std::move(file)), field_("header") {}

  std::size_t position() const { return position_; }
  std::size_t size() const { return bytes_.size(); }
  std::size_t rest() const { return bytes_.size() - position_; }
  const std::byte* at(std::size_t offset) const { return bytes_.data() + offset; }
  std::size_t offset_of(std::string_view part) const {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(part.data()) - bytes_.data());
  }
  /// Names the field that the following reads belong to.
  void enter(std::string field) { field_ = std::move(field); }

  /// Unaligned on purpose: nothing in the header is aligned. @throws Error(`when_short`) at the end of the file.
  template <class T>
  T number(const char* when_short) {
    if (rest() < sizeof(T)) fail(position_, std::string(when_short) + ": the file ends here");
    T value;
    std::memcpy(&value, at(position_), sizeof(T));
    position_ += sizeof(T);
    return value;
  }
  /// A length and that many bytes.
  std::string_view text() {
    const std::size_t start = position_;
    const auto length = number<std::uint64_t>("truncated value");
    if (length > rest()) {
      fail(start, "truncated string: string length exceeds file (" + std::to_string(length) + " bytes, " +
                      std::to_string(rest()) + " are left)");
    }
    const std::string_view text(reinterpret_cast<const char*>(at(position_)), length);
    position_ += length;
    return text;
  }

  [[noreturn]] void fail(std::size_t where, std::string problem, std::string allowed = {}, std::string remedy = {}) const {
    fail(field_, where, std::move(problem), std::move(allowed), std::move(remedy));
  }
  [[noreturn]] void fail(const std::string& field, std::size_t where, std::string problem, std::string allowed = {},
                         std::string remedy = {}) const {
    throw Error(file_ + ": " + field + " at byte " + std::to_string(where), std::move(problem), std::move(allowed),
                std::move(remedy));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string file_, field_;
  std::size_t position_ = 0;
};

/// Reads the first 8 bytes. What is no GGUF file is refused by the name of what it is.
std::uint32_t read_magic_and_version(GgufCursor& in);

}  // namespace patchbay

/// @file mapping.h
/// A whole file in memory, read-only, without reading it.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace patchbay {

/// The size is that at opening: every offset is checked against it. A program that shortens the file afterwards takes pages away from
/// under us: see report_shortened_models().
class Mapping {
 public:
  /// @throws Error when the file cannot be read, or is no regular file.
  explicit Mapping(const std::string& path);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  /// Gives the pages from `first` on back to the system; they are read again when they are touched.
  void release(const std::byte* first) const;

 private:
  void map(int file, const std::string& path);

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace patchbay

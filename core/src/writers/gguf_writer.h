/// @file gguf_writer.h
/// Writes GGUF files, version 3. Metadata and tensors are announced first, then write() puts all into one file.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_file.h"
#include "writers/tensor_output.h"

namespace patchbay {

class PATCHBAY_API GgufWriter {
 public:
  // Metadata, by type.
  void u32(std::string_view key, std::uint32_t value) { pair(key, kU32, bytes_of(value)); }
  void i32(std::string_view key, std::int32_t value) { pair(key, kI32, bytes_of(value)); }
  void f32(std::string_view key, float value) { pair(key, kF32, bytes_of(value)); }
  void boolean(std::string_view key, bool value) { pair(key, kBool, std::string(1, value ? '\1' : '\0')); }
  void text(std::string_view key, std::string_view value) { pair(key, kString, with_length(value)); }
  void texts(std::string_view key, const std::vector<std::string>& values);
  void i32s(std::string_view key, const std::vector<std::int32_t>& values);
  void f32s(std::string_view key, const std::vector<float>& values);
  void booleans(std::string_view key, const std::vector<bool>& values);
  void u8s(std::string_view key, std::string_view values);
  /// As another file has it, of the same type.
  void entry(const MetaEntry& entry);
  /// @throws Error for a name that is too long, or a row that is no whole number of blocks.
  void tensor(TensorOutput tensor);

  /// Appears under its name only when it is whole. @throws Error.
  void write(const std::string& path) const;
  /// The same with holes for large tensors, which take neither time nor room: for whoever asks what the file will say. @throws Error.
  void write_outline(const std::string& path) const;

 private:
  template <class T>
  static std::string bytes_of(T value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }
  static std::string with_length(std::string_view text) { return bytes_of<std::uint64_t>(text.size()).append(text); }
  void pair(std::string_view key, std::uint32_t type, const std::string& value);
  void array(std::string_view key, std::uint32_t type, std::size_t count, const std::string& elements);
  std::string header() const;

  std::string pairs_;
  std::uint64_t pair_count_ = 0;
  std::vector<TensorOutput> tensors_;
};

}  // namespace patchbay

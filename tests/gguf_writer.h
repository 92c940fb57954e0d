// Builds small GGUF files for tests: honest ones by default; pair(), array() and info() make others.
#pragma once
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "patchbay/half.h"

namespace patchbay::test {

class GgufWriter {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  ///< of the data; a file with another than 32 must also say so: u32("general.alignment", n)

  void u32(std::string_view key, std::uint32_t value) { pair(key, 4, bytes_of(value)); }
  void i32(std::string_view key, std::int32_t value) { pair(key, 5, bytes_of(value)); }
  void f32(std::string_view key, float value) { pair(key, 6, bytes_of(value)); }
  void boolean(std::string_view key, bool value) { pair(key, 7, std::string(1, value ? 1 : 0)); }
  void string(std::string_view key, std::string_view value) { pair(key, 8, text(value)); }
  void strings(std::string_view key, const std::vector<std::string>& values) {
    std::string list;
    for (const std::string& value : values) list += text(value);
    array(key, 8, values.size(), list);
  }
  void i32s(std::string_view key, const std::vector<std::int32_t>& values) { array(key, 5, values.size(), bytes_of_all(values)); }
  void f32s(std::string_view key, const std::vector<float>& values) { array(key, 6, values.size(), bytes_of_all(values)); }
  /// Any value type, the value's bytes as they stand in the file.
  void pair(std::string_view key, std::uint32_t type, const std::string& value) {
    pairs_ += text(key) + bytes_of(type) + value;
    ++pair_count_;
  }
  void array(std::string_view key, std::uint32_t type, std::uint64_t count, const std::string& elements) {
    pair(key, 9, bytes_of(type) + bytes_of(count) + elements);
  }

  /// shape as in the file: the first extent varies fastest.
  void tensor(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& shape, const std::string& bytes) {
    info(name, type, shape, data_.size());
    data_ += bytes;
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
  }
  void tensor(std::string_view name, const std::vector<std::uint64_t>& shape, const std::vector<float>& values) {
    tensor(name, 0, shape, bytes_of_all(values));
  }
  void tensor_f16(std::string_view name, const std::vector<std::uint64_t>& shape, const std::vector<float>& values) {
    std::vector<std::uint16_t> halves;
    for (const float value : values) halves.push_back(to_half(value).bits);
    tensor(name, 1, shape, bytes_of_all(halves));
  }
  /// Only the record that says where a tensor lies.
  void info(std::string_view name, std::uint32_t type, const std::vector<std::uint64_t>& shape, std::uint64_t offset) {
    infos_ += text(name) + bytes_of(static_cast<std::uint32_t>(shape.size())) + bytes_of_all(shape);
    infos_ += bytes_of(type) + bytes_of(offset);
    ++tensor_count_;
  }

  std::string header() const {
    return "GGUF" + bytes_of(version) + bytes_of(tensor_count_) + bytes_of(pair_count_) + pairs_ + infos_;
  }
  std::string bytes() const {
    std::string file = header();
    if (tensor_count_ > 0) file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data_;
  }
  void write(const std::string& path) const { std::ofstream(path, std::ios::binary) << bytes(); }

  template <class T>
  static std::string bytes_of(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  template <class T>
  static std::string bytes_of_all(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  static std::string text(std::string_view value) { return bytes_of<std::uint64_t>(value.size()) + std::string(value); }

 private:
  std::string pairs_, infos_, data_;
  std::uint64_t pair_count_ = 0, tensor_count_ = 0;
};

}  // namespace patchbay::test

// Layout: gguf_reader.cpp.
#include "writers/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>

#include "files.h"
#include "patchbay/error.h"
#include "utf8.h"

namespace patchbay {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is written as the machine stores numbers");

constexpr std::uint64_t kAlignment = 32;
constexpr std::size_t kMaxNameBytes = 64;  // what readers of GGUF have room for

/// A number, boolean or text, as a file stores one of that type.
template <class Value>
std::string stored(std::uint32_t type, const Value& value) {
  const auto as = [&]<class T>(T) {
    if constexpr (std::is_convertible_v<Value, std::string_view>) return std::string();
    else {
      const T number = static_cast<T>(value);
      return std::string(reinterpret_cast<const char*>(&number), sizeof number);
    }
  };
  switch (type) {
    case kU8: return as(std::uint8_t{});
    case kI8: return as(std::int8_t{});
    case kU16: return as(std::uint16_t{});
    case kI16: return as(std::int16_t{});
    case kU32: return as(std::uint32_t{});
    case kI32: return as(std::int32_t{});
    case kU64: return as(std::uint64_t{});
    case kI64: return as(std::int64_t{});
    case kF32: return as(float{});
    case kF64: return as(double{});
    case kBool: return as(char{});
    default: break;
  }
  if constexpr (std::is_convertible_v<Value, std::string_view>) {
    const std::uint64_t length = std::string_view(value).size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length).append(value);
  }
  return {};
}

std::uint64_t padding_after(std::uint64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

}  // namespace

void write_tensor(const TensorOutput& tensor, ByteSink out) {
  std::int64_t written = 0;
  tensor.write_bytes([&](std::string_view bytes) {
    written += std::ssize(bytes);
    out(bytes);
  });
  if (written == tensor.bytes()) return;
  throw Error("tensor " + tensor.name, fmt::format("{} bytes were written", written), fmt::format("{}", tensor.bytes()));
}

void GgufWriter::pair(std::string_view key, std::uint32_t type, const std::string& value) {
  pairs_ += with_length(key) + bytes_of(type) + value;
  ++pair_count_;
}
void GgufWriter::array(std::string_view key, std::uint32_t type, std::size_t count, const std::string& elements) {
  pair(key, kArray, bytes_of(type) + bytes_of<std::uint64_t>(count) + elements);
}
void GgufWriter::texts(std::string_view key, const std::vector<std::string>& values) {
  std::string elements;
  for (const std::string& value : values) elements += with_length(value);
  array(key, kString, values.size(), elements);
}
void GgufWriter::i32s(std::string_view key, const std::vector<std::int32_t>& values) {
  array(key, kI32, values.size(), {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int32_t)});
}
void GgufWriter::f32s(std::string_view key, const std::vector<float>& values) {
  array(key, kF32, values.size(), {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}
void GgufWriter::booleans(std::string_view key, const std::vector<bool>& values) {
  std::string elements;
  for (const bool value : values) elements += value ? '\1' : '\0';
  array(key, kBool, values.size(), elements);
}
void GgufWriter::u8s(std::string_view key, std::string_view values) { array(key, kU8, values.size(), std::string(values)); }

void GgufWriter::entry(const MetaEntry& entry) {
  std::visit([&](const auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_arithmetic_v<Value> || std::is_same_v<Value, std::string_view>) {
      pair(entry.key, entry.type, stored(entry.type, value));
    } else {
      std::string elements;
      for (const auto& element : value) elements += stored(entry.type, static_cast<typename Value::value_type>(element));
      array(entry.key, entry.type, value.size(), elements);
    }
  }, entry.value);
}

void GgufWriter::tensor(TensorOutput tensor) {
  const std::string where = "tensor " + escaped(tensor.name, 100);
  if (tensor.name.size() > kMaxNameBytes) throw Error(where, "the name is too long for GGUF", fmt::format("up to {} bytes", kMaxNameBytes));
  if (tensor.shape.empty() || tensor.shape[0] % tensor.type->block != 0) {
    throw Error(where, fmt::format("rows of {} do not fit type {}", tensor.shape.empty() ? 1 : tensor.shape[0], tensor.type->name),
                fmt::format("multiples of {}", tensor.type->block));
  }
  tensors_.push_back(std::move(tensor));
}

std::string GgufWriter::header() const {
  std::string bytes = "GGUF" + bytes_of<std::uint32_t>(3) + bytes_of<std::uint64_t>(tensors_.size()) + bytes_of(pair_count_) + pairs_;
  std::uint64_t offset = 0;
  for (const TensorOutput& tensor : tensors_) {
    bytes += with_length(tensor.name) + bytes_of(static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::int64_t extent : tensor.shape) bytes += bytes_of(static_cast<std::uint64_t>(extent));
    bytes += bytes_of(tensor.type->code) + bytes_of(offset);
    offset += static_cast<std::uint64_t>(tensor.bytes());
    offset += padding_after(offset);
  }
  return bytes.append(padding_after(bytes.size()), '\0');
}

void GgufWriter::write(const std::string& path) const {
  AtomicFile file(path);
  file.write(header());
  for (const TensorOutput& tensor : tensors_) {
    write_tensor(tensor, [&](std::string_view bytes) { file.write(bytes); });
    file.write(std::string(padding_after(file.bytes_written()), '\0'));
  }
  file.commit();
}

void GgufWriter::write_outline(const std::string& path) const {
  constexpr std::int64_t kWrittenBytes = 1 << 16;  // what is read for the description is smaller: factors of RoPE
  GgufWriter outline = *this;
  const auto large = std::stable_partition(outline.tensors_.begin(), outline.tensors_.end(), [](const TensorOutput& tensor) { return tensor.bytes() <= kWrittenBytes; });
  AtomicFile file(path);
  file.write(outline.header());
  for (auto tensor = outline.tensors_.begin(); tensor != large; ++tensor) {
    write_tensor(*tensor, [&](std::string_view bytes) { file.write(bytes); });
    file.write(std::string(padding_after(file.bytes_written()), '\0'));
  }
  std::uint64_t bytes = file.bytes_written();
  for (auto tensor = large; tensor != outline.tensors_.end(); ++tensor) {
    bytes += static_cast<std::uint64_t>(tensor->bytes());
    bytes += padding_after(bytes);
  }
  file.commit();
  std::error_code code;
  std::filesystem::resize_file(path, bytes, code);
  if (code) throw Error(escaped(path), "writing failed: " + code.message(), "", "make room and try again");
}

}  // namespace patchbay

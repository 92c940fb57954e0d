// Layout: safetensors_reader.cpp.
#include "writers/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "files.h"
#include "patchbay/error.h"
#include "safetensors_reader.h"

namespace patchbay {
namespace {

/// The header's length and the header, filled up with spaces so that the data begin at a multiple of 8.
std::string header_of(const std::vector<TensorOutput>& tensors) {
  nlohmann::ordered_json json = {{"__metadata__", {{"format", "pt"}}}};
  std::int64_t offset = 0;
  for (const TensorOutput& tensor : tensors) {
    if (!find_safetensors_type(tensor.type->name)) throw Error("tensor " + tensor.name, fmt::format("safetensors has no type {}", tensor.type->name));
    const std::vector<std::int64_t> shape(tensor.shape.rbegin(), tensor.shape.rend());
    const nlohmann::ordered_json entry = {{"dtype", tensor.type->name}, {"shape", shape}, {"data_offsets", {offset, offset + tensor.bytes()}}};
    json.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(tensor.name, entry);  // operator[] would search them all
    offset += tensor.bytes();
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace

void write_safetensors(const std::string& path, std::vector<TensorOutput> tensors) {
  // The widest numbers first: then all lie at multiples of their size.
  std::ranges::stable_sort(tensors, std::greater(), [](const TensorOutput& tensor) { return tensor.type->bytes; });
  AtomicFile file(path);
  file.write(header_of(tensors));
  for (const TensorOutput& tensor : tensors) write_tensor(tensor, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace patchbay

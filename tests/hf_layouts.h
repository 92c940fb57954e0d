// Folders of one quantised module, as public packages packed it (tests/golden/layouts), whole or spoilt.
#pragma once
#include <catch2/catch.hpp>
#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "layouts/folder_layout.h"
#include "model_file.h"
#include "patchbay/plugin.h"
#include "support.h"
#include "writers/safetensors_writer.h"

namespace patchbay::test {

using Json = nlohmann::json;

inline const Json& layout_goldens() {
  static const Json json = Json::parse(read_file(source_path("tests/golden/layouts/layouts.json")));
  return json;
}

inline std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

struct Tensor {
  std::string name, type;
  std::vector<std::int64_t> shape;  ///< the last extent varies fastest
  std::string bytes;
};
using Tensors = std::vector<Tensor>;

/// Of a golden weight, as those of a module.
inline Tensors stored_tensors(const Json& weight, const std::string& module) {
  Tensors tensors;
  for (const auto& [part, stored] : weight["tensors"].items()) tensors.push_back({module + "." + part, stored["type"], stored["shape"], bytes_of_hex(stored["bytes"])});
  return tensors;
}
/// Of module "m".
inline Tensor& part_of(Tensors& tensors, const std::string& part) {
  return *std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.name == "m." + part; });
}

struct LayoutFolder {
  TemporaryFolder folder;
  LayoutFolder(const Json& quantization, const Tensors& tensors) {
    static constexpr TensorType kE4M3 = {kNoTensorType, "F8_E4M3", 1, 1};
    std::ofstream(folder / "config.json") << Json{{"model_type", "llama"}, {"quantization_config", quantization}}.dump();
    std::vector<TensorOutput> outputs;
    for (const Tensor& tensor : tensors) {
      const TensorType* type = tensor.type == kE4M3.name ? &kE4M3 : find_tensor_type(tensor.type);
      outputs.push_back({tensor.name, type, {tensor.shape.rbegin(), tensor.shape.rend()}, [bytes = tensor.bytes](ByteSink out) { out(bytes); }});
    }
    write_safetensors(folder / "model.safetensors", std::move(outputs));
  }
  std::shared_ptr<const ModelFile> open() const { return ModelFile::open(folder.path); }
};

/// What is said to such a folder when it is opened, or its weights are read.
inline std::string layout_refusal(const Json& quantization, const Tensors& tensors) {
  const LayoutFolder folder(quantization, tensors);
  try {
    const auto file = folder.open();
    for (const FileTensor& tensor : file->tensors())
      if (tensor.module) tensor.module->read(0, tensor.shape[1]);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace patchbay::test

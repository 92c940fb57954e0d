// Hugging Face folders made from the golden GGUF files of tests/golden/architectures: the numbers, put back into the form in which
// transformers saves them. Names and shapes are checked against what it saved (architectures.json) where they are written.
#pragma once
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/model_spec_hf.h"
#include "model_file.h"
#include "writers/safetensors_writer.h"
#include "support.h"

namespace patchbay::test {

const inline std::string kArchitectures = source_path("tests/golden/architectures/");

/// config.json, the names and shapes of the tensors, tokens and logits of a model that transformers computed.
inline const nlohmann::json& golden_model(const std::string& model) {
  static const auto description = nlohmann::json::parse(read_file(kArchitectures + "architectures.json"));
  return description["models"][model];
}

struct FolderTensor {
  std::vector<std::int64_t> shape;  ///< the last extent varies fastest, as safetensors writes it
  std::vector<float> values;
};
using FolderTensors = std::map<std::string, FolderTensor>;

inline std::vector<float> values_of(const FileTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.bytes) / sizeof(float));
  std::memcpy(values.data(), tensor.data, values.size() * sizeof(float));
  return values;
}

/// GGUF's Llama has rows 2i and 2i + 1 of a head beside each other; the folder has them half a head apart.
inline std::vector<float> halves_apart(const std::vector<float>& values, std::size_t heads, std::size_t size) {
  std::vector<float> out(values.size());
  const std::size_t cols = values.size() / (heads * size);
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t c = 0; c < cols; ++c) out[(h * size + i % 2 * size / 2 + i / 2) * cols + c] = values[(h * size + i) * cols + c];
  return out;
}

/// The tensors of a golden model as transformers saves them.
inline FolderTensors golden_tensors(const std::string& model) {
  const auto gguf = ModelFile::open(kArchitectures + model + ".gguf");
  const ModelSpec spec = read_hf_model_spec(golden_model(model)["config"], "config.json");
  const bool reordered = gguf->string("general.architecture") == "llama" || gguf->string("general.architecture") == "smollm3";
  FolderTensors tensors;
  spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) {
    for (const char* kind : {".weight", ".bias"}) {
      const FileTensor* stored = gguf->tensor(tensor_label(place, layer, kind));
      if (!stored) continue;
      FolderTensor tensor;
      const auto& shape = golden_model(model)["tensors"].at(tensor_name(place, layer, expert, kind));
      shape.get_to(tensor.shape);
      tensor.values = values_of(*stored);
      if (place.name.find('#') != std::string::npos) {
        const std::size_t one = tensor.values.size() / spec.experts.count;
        tensor.values = {tensor.values.begin() + expert * one, tensor.values.begin() + (expert + 1) * one};
      }
      if (place.transposed && tensor.shape.size() == 2) {
        const std::vector<float> rows = tensor.values;
        const std::size_t inputs = tensor.shape[0], outputs = tensor.shape[1];
        for (std::size_t i = 0; i < rows.size(); ++i) tensor.values[i % inputs * outputs + i / inputs] = rows[i];
      }
      if (place.name.find("norm") != std::string::npos) {
        for (float& value : tensor.values) value -= spec.norm_offset;
      }
      if (reordered && (place.role == Role::q || place.role == Role::k)) {
        tensor.values = halves_apart(tensor.values, place.role == Role::q ? spec.heads : spec.kv_heads, spec.head_size);
      }
      tensors[tensor_name(place, layer, expert, kind)] = std::move(tensor);
    }
  });
  REQUIRE(tensors.size() == golden_model(model)["tensors"].size());
  return tensors;
}

inline TensorOutput output_of(const std::string& name, const FolderTensor& tensor) {
  const std::string bytes(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
  return {name, find_tensor_type("F32"), {tensor.shape.rbegin(), tensor.shape.rend()}, [bytes](ByteSink sink) { sink(bytes); }};
}
inline void write_weights(const std::string& path, const FolderTensors& tensors) {
  std::vector<TensorOutput> outputs;
  for (const auto& [name, tensor] : tensors) outputs.push_back(output_of(name, tensor));
  write_safetensors(path, std::move(outputs));
}

/// A folder with config.json and model.safetensors.
inline void write_golden_folder(const std::string& folder, const std::string& model) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << golden_model(model)["config"].dump();
  write_weights(folder + "/model.safetensors", golden_tensors(model));
}

}  // namespace patchbay::test

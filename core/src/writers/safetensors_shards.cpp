#include "writers/safetensors_shards.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "files.h"
#include "writers/safetensors_writer.h"

namespace patchbay {

void write_safetensors_shards(const std::string& folder, std::vector<TensorOutput> tensors, std::int64_t shard_bytes) {
  std::vector<std::vector<TensorOutput>> shards(1);
  std::int64_t total = 0, filled = 0;
  for (TensorOutput& tensor : tensors) {
    const std::int64_t bytes = tensor.bytes();
    if (!shards.back().empty() && filled + bytes > shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    total += bytes;
    shards.back().push_back(std::move(tensor));
  }
  if (shards.size() == 1) return write_safetensors(folder + "/model.safetensors", std::move(shards[0]));
  nlohmann::ordered_json places = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const TensorOutput& tensor : shards[i]) places.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(tensor.name, name);  // operator[] would search them all
    write_safetensors(folder + "/" + name, std::move(shards[i]));
  }
  const nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(places)}};
  write_file_atomically(folder + "/model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace patchbay

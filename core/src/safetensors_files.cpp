#include "safetensors_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "json_file.h"
#include "path_checks.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWeights = "model.safetensors", kIndexEnd = ".safetensors.index.json";
const std::string kIndex = "model.safetensors.index.json";

/// The shards that an index names. Its other keys say nothing that the shards don't.
void read_index(SafetensorsFiles& files) {
  const JsonFile json(files.index);
  if (!json.root().is_object()) json.root().fail("bad index", "an object with weight_map");
  if (!json.root().find("weight_map")) throw Error(json.name() + ": /weight_map", "missing field", "an object from tensors to files");
  const JsonNode map = json.root().at("weight_map");
  if (!map.is_object()) map.fail("bad index: is no object", "an object from tensors to files");
  std::map<std::string, std::vector<std::string>> tensors;  // by shard
  map.members([&](std::string_view tensor, const JsonNode& shard) {
    if (!shard.is_string()) shard.fail("bad index: a shard's name is no text", "the name of a file");
    const std::string name(shard.text());
    if (name.find('/') != name.npos || !is_plain_text(name) || !name.ends_with(".safetensors"))
      shard.fail(fmt::format("bad shard path '{}'", escaped(name, 80)), "a file NAME.safetensors in the folder of the index");
    if (!tensors.contains(name) && !is_there((fs::path(files.index).parent_path() / name).string()))
      shard.fail(fmt::format("missing shard: {} is not here", name), "", "fetch it into the folder of the index");
    tensors[name].emplace_back(tensor);
  });
  for (auto& [name, names] : tensors) {
    for (std::string& tensor : names) files.places.emplace_back(std::move(tensor), files.shards.size());
    files.shards.push_back((fs::path(files.index).parent_path() / name).string());
  }
}

[[noreturn]] void refuse_folder(const fs::path& folder) {
  const std::string shown = escaped(folder.string());
  std::size_t shards = 0;
  for (const auto& entry : fs::directory_iterator(folder)) shards += entry.path().extension() == ".safetensors" && entry.path().stem().string().find("-of-") != std::string::npos;
  if (shards > 0) throw Error(shown + "/" + kIndex, fmt::format("no such file: shards are here ({}), but not the index that names them", shards), "", "fetch it into the folder of the shards");
  for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (fs::exists(folder / other)) throw Error(shown + "/" + other, "is a pickle, which is not read", std::string(kWeights), "save the model again as safetensors");
  }
  throw Error(fmt::format("{}: weights", shown), "the folder holds none", fmt::format("{}, or {} and its shards", kWeights, kIndex));
}

}  // namespace

bool names_safetensors(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(".safetensors") || path.ends_with(kIndexEnd) || fs::is_directory(path, ignored);
}

SafetensorsFiles find_safetensors(const std::string& path) {
  SafetensorsFiles files;
  const fs::path given(path), whole = fs::is_directory(given) ? given / kWeights : given;
  if (fs::is_directory(given)) {
    files.folder = path;
    // Where both are there, transformers reads the one file.
    if (!is_there(whole.string())) {
      if (!is_there((given / kIndex).string())) refuse_folder(given);
      files.index = (given / kIndex).string();
    }
  } else if (path.ends_with(kIndexEnd)) {
    files.index = path;
  }
  // A file of the name that a whole model has belongs to the model that config.json describes.
  const fs::path folder = given.parent_path().empty() ? "." : given.parent_path();
  if (files.folder.empty() && (given.filename() == kWeights || given.filename() == kIndex) && is_there((folder / "config.json").string())) files.folder = folder.string();
  if (files.index.empty()) files.shards.push_back(whole.string());
  else read_index(files);
  return files;
}

void check_shards(const SafetensorsFiles& files, std::span<const std::span<const FileTensor>> shards) {
  std::unordered_map<std::string_view, std::size_t> owners;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const FileTensor& tensor : shards[i]) {
      const auto [owner, is_new] = owners.emplace(tensor.name, i);
      if (is_new) continue;
      throw Error(fmt::format("{}: tensor '{}'", escaped(files.shards[i]), escaped(tensor.name, 80)),
                  "duplicate tensor name: it is in " + escaped(files.shards[owner->second]) + " as well");
    }
  }
  for (const auto& [tensor, shard] : files.places) {
    const auto owner = owners.find(tensor);
    if (owner != owners.end() && owner->second == shard) continue;
    throw Error(fmt::format("{}: /weight_map/{}", escaped(files.index), escaped(tensor, 80)),
                fmt::format("missing tensor: it is not in {}", escaped(files.shards[shard])), "", "fetch index and shards again, from one place");
  }
}

std::vector<std::string> described_by(const std::string& folder) {
  std::vector<std::string> paths;
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "quantize_config.json"}) {
    const fs::path path = fs::path(folder) / name;
    if (is_there(path.string())) paths.push_back(path.string());
  }
  return paths;
}

}  // namespace patchbay

/// @file safetensors_files.h
/// Which safetensors files a path stands for: one file, the shards of an index, or the model in a Hugging Face folder.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model_file.h"

namespace patchbay {

struct SafetensorsFiles {
  std::string folder;               ///< whose config.json describes the tensors; "": tensors alone, no model
  std::string index;                ///< "": one file
  std::vector<std::string> shards;  ///< paths, in the order of their names
  std::vector<std::pair<std::string, std::size_t>> places;  ///< of an index: each tensor's shard
};

/// Whether a path is read as safetensors: a folder, *.safetensors or *.safetensors.index.json.
bool names_safetensors(const std::string& path);
/// @throws Error for a folder without weights, an index that is none, and a shard that is missing or lies elsewhere.
SafetensorsFiles find_safetensors(const std::string& path);
/// The tensors of the shards, each by its own. @throws Error for one that the index puts elsewhere, or that is there twice.
void check_shards(const SafetensorsFiles& files, std::span<const std::span<const FileTensor>> shards);

/// The files of a folder that say what the tensors mean, as far as they are there: part of a model's identity.
std::vector<std::string> described_by(const std::string& folder);

}  // namespace patchbay

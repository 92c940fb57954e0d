/// @file safetensors_shards.h
/// A model's tensors as one safetensors file, or as shards with an index.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "writers/tensor_output.h"

namespace patchbay {

inline constexpr std::int64_t kShardBytes = 5'000'000'000;  ///< as transformers cuts

/// Writes model.safetensors into `folder`, or, where the tensors have more than `shard_bytes`, model-00001-of-00002.safetensors ... and
/// model.safetensors.index.json: in the order given, each shard as full as it gets. @throws Error.
PATCHBAY_API void write_safetensors_shards(const std::string& folder, std::vector<TensorOutput> tensors, std::int64_t shard_bytes = kShardBytes);

}  // namespace patchbay

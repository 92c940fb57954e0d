/// @file write_folder.h
/// A quantised model as a Hugging Face folder in one of the public layouts of quantised checkpoints.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "quantize/write_quantized.h"
#include "writers/safetensors_shards.h"

namespace patchbay {

/// Writes the model of a Hugging Face folder or a GGUF file as the folder `out`, its matrices as config's weights say in options.layout. config.json,
/// tokenizer, chat template and sampling settings come along: a folder's are copied, of a GGUF file they are made. Appears whole or not at all.
/// @throws Error before any work for a weight that the layout has no place for.
PATCHBAY_API WrittenModel write_quantized_folder(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const std::string& out,
                                                 const WriteOptions& options, std::int64_t shard_bytes = kShardBytes);

}  // namespace patchbay

/// @file gguf_reader.h
/// Reads a GGUF container that lies in memory. Nothing in it is believed: each length, count, type and offset is checked first.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "model_file.h"

namespace patchbay {

/// Views point into the bytes read.
struct GgufContents {
  std::uint32_t version = 0;
  std::vector<MetaEntry> metadata;
  std::vector<FileTensor> tensors;  ///< in the order of the file, which is that of their offsets
  std::int64_t data_end = 0;        ///< where the last tensor's bytes end (or the last tensor info): what follows is not ours
};

/// @param bytes  the whole file
/// @param name   what to call it in messages. @throws Error with field and byte offset.
GgufContents read_gguf(std::span<const std::byte> bytes, const std::string& name);

}  // namespace patchbay

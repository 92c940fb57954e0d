/// @file safetensors_reader.h
/// Reads a safetensors container that lies in memory. Nothing in it is believed: each length, type, shape and offset is checked first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model_file.h"

namespace patchbay {

/// Views point into the bytes read, and into `texts`.
struct SafetensorsContents {
  std::deque<std::string> texts;    ///< names, keys and values with their escapes undone; stays where it is when moved
  std::vector<MetaEntry> metadata;  ///< of "__metadata__": texts
  std::vector<FileTensor> tensors;  ///< in the order of their bytes
};

/// @param bytes  the whole file
/// @param name   what to call it in messages. @throws Error with field, or byte of the header.
SafetensorsContents read_safetensors(std::span<const std::byte> bytes, const std::string& name);

/// A type of the format: elements of `bits` bits, in rows without padding.
struct SafetensorsType {
  std::string_view name;
  int bits = 0;
  std::string_view format = {};  ///< as FileTensor::format
};
/// Null for a name that is not the format's.
const SafetensorsType* find_safetensors_type(std::string_view name);

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  ///< bytes: the format's own limit

}  // namespace patchbay

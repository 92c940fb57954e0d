/// @file gguf_types.h
/// The type codes of GGUF files, as data.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "patchbay/error.h"

namespace patchbay {

/// A tensor type: `block` consecutive values of a row take `bytes` bytes.
struct TensorType {
  std::uint32_t code = 0;
  std::string_view name;
  std::int64_t block = 1, bytes = 0;  ///< 0 bytes: withdrawn, files that use it can no longer be read
  std::string_view format = {};       ///< the weight format plugin that computes with it, or ""
};
/// The names of the types that are computed with: "F32, F16, ...".
std::string computed_types();
inline constexpr std::uint32_t kNoTensorType = UINT32_MAX;  ///< the code of a type that GGUF does not have
/// Null for a code or a name that was never given out.
PATCHBAY_API const TensorType* find_tensor_type(std::uint32_t code);
PATCHBAY_API const TensorType* find_tensor_type(std::string_view name);

/// Type codes of metadata values.
enum MetaType : std::uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
/// "u8" ... "f64"; "" for an unknown code.
std::string_view meta_type_name(std::uint32_t code);

}  // namespace patchbay

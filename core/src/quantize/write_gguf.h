/// @file write_gguf.h
/// A quantised model as a GGUF file.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "quantize/write_quantized.h"

namespace patchbay {

/// Metadata and tokenizer stay. See write_quantized(). @throws Error before any work for a name other than NAME.gguf, or a format that GGUF has no type for.
PATCHBAY_API WrittenModel write_quantized_gguf(std::shared_ptr<const ModelFile> file, const RunConfig& config, Ops& ops, const std::string& out,
                                               const WriteOptions& options);

/// What such a file is called in general.file_type: ggml's number for the format's name, or for that of most bytes.
PATCHBAY_API std::uint32_t gguf_file_type(std::string_view format);

}  // namespace patchbay

/// @file output_formats.h
/// What the outputs of `patchbay quantize` can hold, and what to say of a format that one of them cannot: never the name of an output that refuses it, too.
#pragma once
#include <string>

#include "gguf_types.h"
#include "patchbay/weight_format.h"

namespace patchbay {

/// Of a GGUF tensor; null: there is none.
const TensorType* gguf_type_of(const WeightFormat& format);

/// A format on its way into a file.
struct OutputFormat {
  const WeightFormat& format;  ///< must outlive this
  std::string where;           ///< "tensor blk.0.attn_q"
  std::string mix;             ///< the mix of formats that chose it; "": none did
};
/// @throws Error unless a GGUF file, or a folder, can hold an R x C matrix in it.
PATCHBAY_API void require_gguf_holds(const OutputFormat& output, std::int64_t rows, std::int64_t cols);
PATCHBAY_API void require_folder_holds(const OutputFormat& output, std::int64_t rows, std::int64_t cols);

}  // namespace patchbay

#include "quantize/write_quantized.h"

#include "quantize/write_folder.h"
#include "quantize/write_gguf.h"

namespace patchbay {

WrittenModel write_quantized(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const std::string& out,
                             const WriteOptions& options) {
  if (!out.ends_with(".gguf")) return write_quantized_folder(file, config, ops, out, options);
  if (!options.layout.empty()) throw Error("--layout", "is for folders, and OUT is a GGUF file", "", "leave it out, or give a folder's name");
  return write_quantized_gguf(file, config, ops, out, options);
}

}  // namespace patchbay

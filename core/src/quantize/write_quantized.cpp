#include "quantize/write_quantized.h"

#include "quantize/write_gguf.h"

namespace patchbay {

WrittenModel write_quantized(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const std::string& out,
                             const WriteOptions& options) {
  return write_quantized_gguf(file, config, ops, out, options);
}

}  // namespace patchbay

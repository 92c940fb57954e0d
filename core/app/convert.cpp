// patchbay convert IN OUT: a Hugging Face folder as a GGUF file, or a GGUF file as a folder.
//
// --json: {"in", "out", "form": of what was written, "tensors", "weights_bytes", "notes": [..]}.
#include "convert/convert.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "common.h"
#include "json_text.h"

namespace patchbay::app {

int convert(const ConvertCommandOptions& options) {
  const auto notes = convert_model(ModelFile::open(find_model(options.in)), options.out, {options.type, options.force});
  const auto written = ModelFile::open(options.out);
  std::int64_t bytes = 0;
  for (const FileTensor& tensor : written->tensors()) bytes += tensor.bytes;
  const char* form = written->form() == FileForm::gguf ? "gguf" : "safetensors";
  if (options.json) {
    const nlohmann::json result = {{"in", options.in}, {"out", options.out}, {"form", form}, {"tensors", written->tensors().size()}, {"weights_bytes", bytes}, {"notes", notes}};
    fmt::print("{}\n", json_text(result));
    return 0;
  }
  for (const std::string& note : notes) fmt::print(stderr, "patchbay: note: {}\n", printable(note));
  fmt::print("{}: {} tensors, {:.1f} MB\n", printable(options.out), written->tensors().size(), static_cast<double>(bytes) / 1e6);
  return 0;
}

}  // namespace patchbay::app

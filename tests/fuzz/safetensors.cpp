// A safetensors file: its container, as one file of a model.
#include "fuzz.h"
#include "model_file.h"

using namespace patchbay;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::NamedFile file("model.safetensors");  // the name says what it is
  file.write({reinterpret_cast<const char*>(data), size});
  fuzz::may_refuse([&] {
    const auto model = ModelFile::open(file.path());
    std::uint64_t sum = 0;  // every byte of every tensor lies in the file
    for (const FileTensor& tensor : model->tensors()) {
      if (tensor.bytes > 0) sum += std::to_integer<std::uint64_t>(tensor.data[0]) + std::to_integer<std::uint64_t>(tensor.data[tensor.bytes - 1]);
    }
    if (sum == ~std::uint64_t{0}) fuzz::fail("unreachable");
    fuzz::may_refuse([&] { check_model(*model); });
  });
  return 0;
}

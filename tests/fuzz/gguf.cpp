// A GGUF file: its container, the model's description in it, and its tokenizer.
#include "engine/model_spec.h"
#include "fuzz.h"
#include "model_file.h"
#include "tokenizer.h"

using namespace patchbay;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::MemoryFile bytes({reinterpret_cast<const char*>(data), size});
  fuzz::may_refuse([&] {
    const auto file = ModelFile::open(bytes.path());
    std::uint64_t sum = 0;  // every byte of every tensor lies in the file
    for (const FileTensor& tensor : file->tensors()) {
      if (tensor.bytes > 0) sum += std::to_integer<std::uint64_t>(tensor.data[0]) + std::to_integer<std::uint64_t>(tensor.data[tensor.bytes - 1]);
    }
    if (sum == ~std::uint64_t{0}) fuzz::fail("unreachable");
    fuzz::may_refuse([&] { check_model(*file); });
    fuzz::may_refuse([&] { read_model_spec(*file); });
    const auto tokenizer = make_tokenizer(*file);
    for (const char* text : {"a t1 \xC3\xA4", "<s> x</s>", "  12\n\xFF"}) {
      fuzz::may_refuse([&] { tokenizer->decode_text(tokenizer->encode(text, true, true), true); });
    }
  });
  return 0;
}

// A tokenizer.json, and after a NUL byte a text to encode with it (without one: some texts of our own).
#include <vector>

#include "fuzz.h"
#include "tokenizer.h"

using namespace patchbay;

namespace {

void encode(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {false, true}) {
    fuzz::may_refuse([&] {
      const std::vector<Token> tokens = tokenizer.encode(text, special, special);
      for (const Token token : tokens) {
        if (token < 0 || token >= tokenizer.size()) fuzz::fail("a token outside the vocabulary");
      }
      tokenizer.decode_text(tokens, special);
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const fuzz::MemoryFile json(input.substr(0, end));
  fuzz::may_refuse([&] {
    const auto tokenizer = load_tokenizer(json.path());
    if (end < size) encode(*tokenizer, input.substr(end + 1));
    for (const char* text : {"the cat's 123 hats\n\n  ", "\xC3\x85ngstr\xC3\xB6m \xE7\x95\x8C\xF0\x9F\xA6\x91", "<s>a</s> <|endoftext|>"}) encode(*tokenizer, text);
  });
  return 0;
}

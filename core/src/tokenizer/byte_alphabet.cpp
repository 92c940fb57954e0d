#include "tokenizer/byte_alphabet.h"

#include <array>

#include "utf8.h"

namespace patchbay {
namespace {

struct ByteAlphabet {
  std::array<std::string, 256> characters;
  std::array<int, 0x100 + 68> bytes;  ///< by code point; -1: not in the alphabet

  ByteAlphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t code_point = printable ? static_cast<char32_t>(byte) : next++;
      bytes[code_point] = byte;
      append_utf8(characters[static_cast<std::size_t>(byte)], code_point);
    }
  }
};

const ByteAlphabet& alphabet() {
  static const ByteAlphabet instance;
  return instance;
}

}  // namespace

void append_in_byte_alphabet(std::string_view bytes, std::string& text) {
  for (const char byte : bytes) text += alphabet().characters[static_cast<unsigned char>(byte)];
}

bool append_from_byte_alphabet(std::string_view text, std::string& bytes) {
  const std::size_t before = bytes.size();
  while (!text.empty()) {
    const Utf8Unit unit = first_utf8_unit(text);
    const bool listed = unit.kind == Utf8Unit::Kind::character && unit.code_point < alphabet().bytes.size();
    const int byte = listed ? alphabet().bytes[unit.code_point] : -1;
    if (byte < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(byte);
    text.remove_prefix(unit.bytes);
  }
  return true;
}

}  // namespace patchbay

/// @file byte_alphabet.h
/// GPT-2's alphabet: vocabularies write each byte as a printable character. Printable Latin-1 stands for itself, the other
/// 68 bytes, in order, for U+0100 and up.
#pragma once
#include <string>
#include <string_view>

namespace patchbay {

/// Appends the characters that stand for the bytes of `bytes`.
void append_in_byte_alphabet(std::string_view bytes, std::string& text);
/// Appends the bytes that `text` spells. False when a character is outside the alphabet; then `bytes` is as it was.
bool append_from_byte_alphabet(std::string_view text, std::string& bytes);

}  // namespace patchbay

/// @file packed_words.h
/// Codes of a few bits in the 32-bit words of a quantised checkpoint: one after the other, from the lowest bit of the first word on. A code may
/// begin in one word and end in the next: 32 codes of 3 bits fill three words.
#pragma once
#include <cstdint>
#include <cstring>

namespace patchbay {

struct PackedWords {
  int bits;

  std::int64_t words(std::int64_t count) const { return (count * bits + 31) / 32; }

  /// Word i lies at in + i * stride words.
  void unpack(const void* in, std::int64_t stride, std::int64_t count, std::uint8_t* codes) const {
    const std::uint64_t mask = (1u << bits) - 1;
    const char* word = static_cast<const char*>(in);
    std::uint64_t held = 0;
    for (int i = 0, have = 0; i < count; ++i, have -= bits, held >>= bits) {
      if (have < bits) {
        std::uint32_t next;  // a file's tensors need not be aligned
        std::memcpy(&next, word, sizeof next);
        held |= static_cast<std::uint64_t>(next) << have;
        have += 32;
        word += stride * static_cast<std::int64_t>(sizeof next);
      }
      codes[i] = static_cast<std::uint8_t>(held & mask);
    }
  }
  /// The last word is filled up with zeros.
  void pack(const std::uint8_t* codes, std::int64_t count, std::uint32_t* out, std::int64_t stride) const {
    std::uint64_t held = 0;
    int have = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      held |= static_cast<std::uint64_t>(codes[i]) << have;
      have += bits;
      if (have < 32) continue;
      *out = static_cast<std::uint32_t>(held);
      out += stride;
      held >>= 32;
      have -= 32;
    }
    if (have > 0) *out = static_cast<std::uint32_t>(held);
  }
};

}  // namespace patchbay

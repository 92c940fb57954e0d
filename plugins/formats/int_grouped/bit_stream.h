// Codes of a few bits, one after the other: code i takes bits i*b .. i*b+b-1, counted from the lowest bit of the first byte.
// So 4-bit codes lie two to a byte, low half first, and eight 3-bit codes fill three bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace patchbay {

struct BitStream {
  int bits;

  std::int64_t bytes(std::int64_t count) const { return (count * bits + 7) / 8; }

  // Eight codes fill `bits` whole bytes, whatever `bits` is: pack and unpack go by eights, as one 64-bit word (little-endian).
  void pack(const std::uint8_t* codes, std::int64_t count, std::uint8_t* out) const {
    for (std::int64_t first = 0; first < count; first += 8, out += bits) {
      const std::int64_t n = std::min<std::int64_t>(8, count - first);
      std::uint64_t word = 0;
      for (std::int64_t i = 0; i < n; ++i) word |= static_cast<std::uint64_t>(codes[first + i]) << (i * bits);
      std::memcpy(out, &word, bytes(n));
    }
  }
  void unpack(const std::uint8_t* in, std::int64_t count, std::uint8_t* codes) const {
    switch (bits) {  // a width known at compile time becomes plain shifts: three times as fast
      case 2: return unpack_eights<2>(in, count, codes);
      case 3: return unpack_eights<3>(in, count, codes);
      case 4: return unpack_eights<4>(in, count, codes);
      case 5: return unpack_eights<5>(in, count, codes);
      case 6: return unpack_eights<6>(in, count, codes);
      case 7: return unpack_eights<7>(in, count, codes);
      default: std::memcpy(codes, in, count);
    }
  }
  /// One code of the stream.
  int at(const std::uint8_t* in, std::int64_t index) const {
    const std::int64_t first_bit = index * bits, last_byte = (first_bit + bits - 1) / 8;
    const int pair = in[first_bit / 8] | in[last_byte] << 8;  // the same byte twice when the code does not straddle two
    return pair >> (first_bit % 8) & ((1 << bits) - 1);
  }

 private:
  template <int kBits>
  static void unpack_eights(const std::uint8_t* in, std::int64_t count, std::uint8_t* codes) {
    constexpr std::uint64_t kMask = (1u << kBits) - 1;
    std::int64_t first = 0;
    for (; first + 8 <= count; first += 8, in += kBits) {
      std::uint64_t word = 0;
      std::memcpy(&word, in, kBits);
      for (int i = 0; i < 8; ++i) codes[first + i] = static_cast<std::uint8_t>(word >> (i * kBits) & kMask);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, in, ((count - first) * kBits + 7) / 8);
    for (int i = 0; first + i < count; ++i) codes[first + i] = static_cast<std::uint8_t>(rest >> (i * kBits) & kMask);
  }
};

}  // namespace patchbay

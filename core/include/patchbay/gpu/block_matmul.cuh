/// @file block_matmul.cuh
/// Products with the block formats of GGUF files, whose bytes stay as they are in the file. A format's folder supplies how
/// sixteen weights of a block become floats, as a `Block`:
///   kColumns, kBytes: of a block
///   static void decode(const std::uint8_t* block, int span, float (&w)[16]): columns 16 span .. 16 span + 15 of the block
/// block_matmul<Block> is then the whole ladder. Blocks of 18 or 210 bytes lie at even addresses only, so that each read below
/// names the alignment that its format guarantees.
#pragma once
#include "patchbay/gpu/packed_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

/// Sixteen codes, one to a byte.
struct Codes {
  unsigned words[4];
  __device__ unsigned operator[](int i) const { return words[i / 4] >> i % 4 * 8 & 0xFFu; }
};

__device__ inline float half_at(const std::uint8_t* bytes) { return __half2float(*reinterpret_cast<const __half*>(bytes)); }

/// Four bytes from an address that is a multiple of kAlign.
template <int kAlign>
__device__ inline unsigned word_at(const std::uint8_t* bytes) {
  if constexpr (kAlign >= 4) {
    return *reinterpret_cast<const unsigned*>(bytes);
  } else {
    const auto* halves = reinterpret_cast<const unsigned short*>(bytes);
    return halves[0] | static_cast<unsigned>(halves[1]) << 16;
  }
}
template <int kAlign>
__device__ inline Codes sixteen_bytes(const std::uint8_t* bytes) {
  if constexpr (kAlign >= 16) {
    const uint4 words = *reinterpret_cast<const uint4*>(bytes);
    return {{words.x, words.y, words.z, words.w}};
  } else {
    Codes codes;
    for (int i = 0; i < 4; ++i) codes.words[i] = word_at<kAlign>(bytes + 4 * i);
    return codes;
  }
}

/// kBits of each of a span's codes. As ggml lays them out (unpack_bits() is the same on the host): kRun bytes hold 8 / kBits runs
/// of kRun columns, the first run in the lowest bits. So a span is the same bits of sixteen neighbouring bytes, and four codes
/// are cut out at once.
template <int kBits, int kRun, int kAlign>
__device__ inline Codes bits_of_span(const std::uint8_t* bytes, int span) {
  constexpr int kPeriod = kRun * 8 / kBits;
  constexpr unsigned kMask = ((1u << kBits) - 1) * 0x01010101u;
  const int column = span * kSpan, shift = column % kPeriod / kRun * kBits;
  Codes codes = sixteen_bytes<kAlign>(bytes + column / kPeriod * kRun + column % kRun);
  for (unsigned& word : codes.words) word = word >> shift & kMask;
  return codes;
}
/// low | high << shift, code by code.
__device__ inline Codes joined(Codes low, const Codes& high, int shift) {
  for (int i = 0; i < 4; ++i) low.words[i] |= high.words[i] << shift;
  return low;
}
/// Sixteen fifth bits, bit i of `bits`, above four-bit codes.
__device__ inline Codes with_fifth_bits(Codes codes, unsigned bits) {
  for (int i = 0; i < kSpan; ++i) codes.words[i / 4] |= (bits >> i & 1u) << (i % 4 * 8 + 4);
  return codes;
}
/// Signed bytes as codes that are 128 larger.
__device__ inline Codes signed_bytes(Codes codes) {
  for (unsigned& word : codes.words) word ^= 0x80808080u;
  return codes;
}

/// w = scale * (code - zero) + offset.
__device__ inline void scaled(const Codes& codes, float scale, float zero, float (&w)[kSpan], float offset = 0.0f) {
  for (int i = 0; i < kSpan; ++i) w[i] = scale * code_minus(codes[i], zero) + offset;
}

template <class Block>
struct Blocks {
  const std::uint8_t* data;
  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    const std::size_t block = static_cast<std::size_t>(row) * (cols / Block::kColumns) + column / Block::kColumns;
    Block::decode(data + block * Block::kBytes, column % Block::kColumns / kSpan, w);
  }
};

template <class Block>
void block_matmul(const MatmulArgs& args, const char* format, gpu::Stream stream) {
  packed_matmul(args, Blocks<Block>{static_cast<const std::uint8_t*>(args.parts[0])}, format, stream);
}

}  // namespace patchbay::PATCHBAY_GPU

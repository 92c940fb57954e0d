// Products with integer groups on a GPU. Formula (I1) and the bytes: README.md; the kernels: patchbay/gpu/packed_matmul.cuh.
#include "int_grouped_gpu.h"
#include "patchbay/gpu/packed_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// Code `i` of a stream of bits; it may straddle two bytes.
__device__ unsigned code_at(const std::uint8_t* stream, int i, int bits) {
  const std::size_t first = static_cast<std::size_t>(i) * bits;
  const std::uint8_t* byte = stream + first / 8;
  const int shift = static_cast<int>(first % 8);
  const unsigned pair = shift + bits > 8 ? byte[0] | byte[1] << 8 : byte[0];
  return pair >> shift & ((1u << bits) - 1);
}
__device__ std::size_t stream_bytes(int count, int bits) { return (static_cast<std::size_t>(count) * bits + 7) / 8; }

/// Groups of any size: each weight finds its group and cuts its code out of the stream.
struct AnyGroups {
  const std::uint8_t* codes;
  const __half* scales;
  const std::uint8_t* zeros;  // null: symmetric
  int bits, group_size, groups, rows;

  AnyGroups(const IntGroupedArgs& args)
      : codes(static_cast<const std::uint8_t*>(args.product.parts[0])),
        scales(static_cast<const __half*>(args.product.parts[1])),
        zeros(static_cast<const std::uint8_t*>(args.product.parts[2])),
        bits(args.bits),
        group_size(args.group_size),
        groups(args.product.cols / args.group_size),
        rows(args.product.rows) {}

  __device__ float scale(int row, int group) const {
    return __half2float(scales[static_cast<std::size_t>(row) * groups + group]);
  }
  /// The code that stands for 0.
  __device__ float zero(int row, int group, int width) const {
    return static_cast<float>(zeros ? code_at(zeros + group * stream_bytes(rows, width), row, width) : 1u << (width - 1));
  }
  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    for (int i = 0; i < kSpan; ++i) {
      const int c = column + i, group = c / group_size;
      w[i] = 0.0f;
      if (c >= cols) continue;
      const std::uint8_t* stream = codes + (static_cast<std::size_t>(row) * groups + group) * stream_bytes(group_size, bits);
      w[i] = scale(row, group) * code_minus(code_at(stream, c % group_size, bits), zero(row, group, bits));
    }
  }
};

/// Groups of a multiple of 16: a span has one scale and one zero, and its codes are 2 * kBits bytes that few loads bring.
template <int kBits>
struct WideGroups : AnyGroups {
  using AnyGroups::AnyGroups;
  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    const int group = column / group_size;
    const float step = scale(row, group), zero_code = zero(row, group, kBits);
    unsigned words[4] = {};
    load_codes(codes + static_cast<std::size_t>(row) * (cols / 8 * kBits) + column / 8 * kBits, words);
    for (int i = 0; i < kSpan; ++i) {
      const int bit = i * kBits, word = bit / 32;  // codes of 3, 5, 6 and 7 bits may straddle two words
      const unsigned bits_there =
          bit % 32 + kBits > 32 ? __funnelshift_r(words[word], words[word + 1], bit % 32) : words[word] >> bit % 32;
      w[i] = step * code_minus(bits_there & ((1u << kBits) - 1), zero_code);
    }
  }

 private:
  /// They lie at a multiple of 2 * kBits bytes, counted from a multiple of 16.
  __device__ static void load_codes(const std::uint8_t* from, unsigned (&words)[4]) {
    if constexpr (kBits == 8) {
      const auto all = gpu::load<16>(from);
      memcpy(words, &all, 16);
    } else if constexpr (kBits == 4) {
      const auto all = gpu::load<8>(from);
      memcpy(words, &all, 8);
    } else if constexpr (kBits % 2 == 0) {
      for (int i = 0; i < kBits / 2; ++i) words[i] = reinterpret_cast<const unsigned*>(from)[i];
    } else {
      const auto* halves = reinterpret_cast<const unsigned short*>(from);
      for (int i = 0; i < kBits; ++i) words[i / 2] |= static_cast<unsigned>(halves[i]) << i % 2 * 16;
    }
  }
};

template <int kBits>
void multiply_wide(const IntGroupedArgs& args, gpu::Stream stream) {
  packed_matmul(args.product, WideGroups<kBits>(args), "int_grouped", stream);
}

void multiply_any(const IntGroupedArgs& args, gpu::Stream stream) {
  if (args.product.kernel == MatmulKernel::take_rows) return launch_packed_take_rows(args.product, AnyGroups(args), stream);
  if (args.product.kernel != MatmulKernel::naive)
    throw Error(
        "int_grouped: kernel",
        "gemv and tensor_core read 16 columns of a group at a time, and these groups have " + std::to_string(args.group_size),
        "naive, or a group_size that is a multiple of 16");
  const Output y{args.product.y, args.product.y_type};
  with_activation_type(args.product, "int_grouped",
                       [&](const auto* x) { launch_packed_naive(args.product, x, AnyGroups(args), y, stream); });
}

/// Columns of x in the order of the weight's. Numbers of 16 bits, whatever they mean.
__global__ void gather_columns(const unsigned short* x, const std::int32_t* order, unsigned short* out, int tokens, int cols) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, t = block_y();
  if (c >= cols || t >= tokens) return;
  const std::size_t row = static_cast<std::size_t>(t) * cols;
  out[row + c] = x[row + order[c]];
}

}  // namespace

void int_grouped_matmul(const IntGroupedArgs& args, gpu::Stream stream) {
  if (args.group_size % kSpan != 0) return multiply_any(args, stream);
  switch (args.bits) {
    case 2: return multiply_wide<2>(args, stream);
    case 3: return multiply_wide<3>(args, stream);
    case 4: return multiply_wide<4>(args, stream);
    case 5: return multiply_wide<5>(args, stream);
    case 6: return multiply_wide<6>(args, stream);
    case 7: return multiply_wide<7>(args, stream);
    default: return multiply_wide<8>(args, stream);
  }
}

void int_grouped_gather(const GatherArgs& args, gpu::Stream stream) {
  constexpr int kThreads = 128;
  gpu::launch(folded_grid(gpu::ceil_div(args.cols, kThreads), args.tokens), kThreads, 0, stream, gather_columns,
              static_cast<const unsigned short*>(args.x), args.order, static_cast<unsigned short*>(args.out), args.tokens, args.cols);
}

}  // namespace patchbay::PATCHBAY_GPU

// Products with integer groups on a GPU. Formula (I1) and the bytes: README.md; the kernels: patchbay/gpu/packed_matmul.cuh.
#include "int_grouped_gpu.h"
#include "patchbay/gpu/packed_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// What all widths share: a group's scale, and the code that stands for 0.
template <int kBits>
struct Groups {
  const std::uint8_t* codes;
  const __half* scales;
  const std::uint8_t* zeros;  // null: symmetric
  int group_size, groups, rows;

  Groups(const IntGroupedArgs& args)
      : codes(static_cast<const std::uint8_t*>(args.product.parts[0])),
        scales(static_cast<const __half*>(args.product.parts[1])),
        zeros(static_cast<const std::uint8_t*>(args.product.parts[2])),
        group_size(args.group_size),
        groups(args.product.cols / args.group_size),
        rows(args.product.rows) {}

  /// Code `i` of a stream of bits; it may straddle two bytes.
  __device__ static unsigned code_at(const std::uint8_t* stream, int i) {
    const std::uint8_t* byte = stream + static_cast<std::size_t>(i) * kBits / 8;
    const int shift = static_cast<int>(static_cast<std::size_t>(i) * kBits % 8);
    const unsigned pair = shift + kBits > 8 ? byte[0] | byte[1] << 8 : byte[0];
    return pair >> shift & ((1u << kBits) - 1);
  }
  __device__ static std::size_t stream_bytes(int count) { return (static_cast<std::size_t>(count) * kBits + 7) / 8; }
  __device__ float scale(int row, int group) const {
    return __half2float(scales[static_cast<std::size_t>(row) * groups + group]);
  }
  __device__ float zero(int row, int group) const {
    return static_cast<float>(zeros ? code_at(zeros + group * stream_bytes(rows), row) : 1u << (kBits - 1));
  }
};

/// Groups of any size: each weight finds its group and cuts its code out of the stream.
template <int kBits>
struct AnyGroups : Groups<kBits> {
  using Groups<kBits>::Groups;
  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    for (int i = 0; i < kSpan; ++i) {
      const int c = column + i, group = c / this->group_size;
      w[i] = 0.0f;
      if (c >= cols) continue;
      const std::size_t stream = (static_cast<std::size_t>(row) * this->groups + group) * this->stream_bytes(this->group_size);
      w[i] =
          this->scale(row, group) * code_minus(this->code_at(this->codes + stream, c % this->group_size), this->zero(row, group));
    }
  }
};

/// Groups of a multiple of 16: a span has one scale and one zero, and its codes are 2 * kBits bytes that one or two loads bring.
template <int kBits>
struct WideGroups : Groups<kBits> {
  using Groups<kBits>::Groups;
  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    const int group = column / this->group_size;
    const float scale = this->scale(row, group), zero = this->zero(row, group);
    unsigned words[4] = {};
    load_codes(this->codes + static_cast<std::size_t>(row) * (cols / 8 * kBits) + column / 8 * kBits, words);
    for (int i = 0; i < kSpan; ++i) {
      const int bit = i * kBits, word = bit / 32;  // only 3-bit codes straddle two words
      const unsigned bits =
          bit % 32 + kBits > 32 ? __funnelshift_r(words[word], words[word + 1], bit % 32) : words[word] >> bit % 32;
      w[i] = scale * code_minus(bits & ((1u << kBits) - 1), zero);
    }
  }

 private:
  __device__ static void load_codes(const std::uint8_t* from, unsigned (&words)[4]) {
    if constexpr (kBits == 8) {
      const auto all = gpu::load<16>(from);
      memcpy(words, &all, 16);
    } else if constexpr (kBits == 4) {
      const auto all = gpu::load<8>(from);
      memcpy(words, &all, 8);
    } else if constexpr (kBits == 2) {
      words[0] = *reinterpret_cast<const unsigned*>(from);
    } else {  // 6 bytes at an even address
      const auto* halves = reinterpret_cast<const unsigned short*>(from);
      words[0] = halves[0] | static_cast<unsigned>(halves[1]) << 16;
      words[1] = halves[2];
    }
  }
};

template <int kBits>
void multiply(const IntGroupedArgs& args, gpu::Stream stream) {
  constexpr const char* kFormat = "int_grouped";
  if (args.group_size % kSpan == 0) return packed_matmul(args.product, WideGroups<kBits>(args), kFormat, stream);
  if (args.product.kernel == MatmulKernel::take_rows) return launch_packed_take_rows(args.product, AnyGroups<kBits>(args), stream);
  if (args.product.kernel != MatmulKernel::naive)
    throw Error(
        "int_grouped: kernel",
        "gemv and tensor_core read 16 columns of a group at a time, and these groups have " + std::to_string(args.group_size),
        "naive, or a group_size that is a multiple of 16");
  const Output y{args.product.y, args.product.y_type};
  with_activation_type(args.product, kFormat,
                       [&](const auto* x) { launch_packed_naive(args.product, x, AnyGroups<kBits>(args), y, stream); });
}

}  // namespace

void int_grouped_matmul(const IntGroupedArgs& args, gpu::Stream stream) {
  switch (args.bits) {
    case 2:
      return multiply<2>(args, stream);
    case 3:
      return multiply<3>(args, stream);
    case 4:
      return multiply<4>(args, stream);
    default:
      return multiply<8>(args, stream);
  }
}

}  // namespace patchbay::PATCHBAY_GPU

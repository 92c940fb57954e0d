// Products with 8-bit floats on a GPU. Formula (P1) and the bytes: README.md; the kernels: patchbay/gpu/scaled_matmul.cuh.
#include "fp8_gpu.h"
#include "patchbay/gpu/scaled_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// Scales that change along a row: they must go into the sum.
template <class Fp8>
struct Groups {
  const Fp8* codes;
  const float* scales;
  int group_size, groups;

  Groups(const Fp8MatmulArgs& args)
      : codes(static_cast<const Fp8*>(args.scaled.product.parts[0])),
        scales(static_cast<const float*>(args.scaled.product.parts[1])),
        group_size(args.group_size),
        groups(args.scaled.product.cols / args.group_size) {}

  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    load_span(codes + static_cast<std::size_t>(row) * cols, column, cols, w);
    const float* of_row = scales + static_cast<std::size_t>(row) * groups;
    if (group_size % kSpan == 0) {  // a span has one scale
      const float scale = of_row[column / group_size];
      for (float& value : w) value *= scale;
    } else {
      for (int i = 0; i < kSpan && column + i < cols; ++i) w[i] *= of_row[(column + i) / group_size];
    }
  }
};

template <class Fp8>
void multiply(const Fp8MatmulArgs& args, gpu::Stream stream) {
  const MatmulArgs& p = args.scaled.product;
  const bool takes_rows = p.kernel == MatmulKernel::take_rows;
  if (args.group_size > 0) {
    const Groups<Fp8> w(args);
    return takes_rows ? launch_packed_take_rows(p, w, stream) : fp8_matmul_of<Fp8>(p, w, ScaledOutput::without_row_scales(args.scaled), stream);
  }
  if (takes_rows) return launch_packed_take_rows(p, ScaledCodes<Fp8>(args.scaled), stream);
  fp8_matmul_of<Fp8>(p, Dense<Fp8>{static_cast<const Fp8*>(p.parts[0])}, ScaledOutput(args.scaled), stream);
}

}  // namespace

void fp8_matmul(const Fp8MatmulArgs& args, gpu::Stream stream) {
  args.is_e5m2 ? multiply<__nv_fp8_e5m2>(args, stream) : multiply<__nv_fp8_e4m3>(args, stream);
}
bool fp8_has_products(gpu::Stream stream) { return gpu::architecture_of(stream) >= 89; }

}  // namespace patchbay::PATCHBAY_GPU

// Products with 8-bit floats on a GPU. Formula (P1) and the bytes: README.md; the kernels: patchbay/gpu/scaled_matmul.cuh.
#include "fp8_gpu.h"
#include "patchbay/gpu/scaled_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

void fp8_matmul(const Fp8MatmulArgs& args, gpu::Stream stream) {
  const MatmulArgs& p = args.scaled.product;
  const auto* scales = static_cast<const float*>(p.parts[1]);
  Fp8Weights w{static_cast<const std::uint8_t*>(p.parts[0]), nullptr, p.cols, 1, args.is_e5m2};
  const bool grouped = args.group_size > 0;
  if (grouped) w = {w.codes, scales, args.group_size, p.cols / args.group_size, args.is_e5m2};  // scales change along the sum: they go into it
  if (p.kernel != MatmulKernel::take_rows)
    return fp8_matmul(p, w, grouped ? ScaledOutput::without_row_scales(args.scaled) : ScaledOutput(args.scaled), stream);
  if (!grouped) w = {w.codes, scales, p.cols, args.scaled.one_scale ? 0 : 1, args.is_e5m2};  // 0: all rows have the first
  launch_packed_take_rows(p, w, stream);
}
bool fp8_has_products(gpu::Stream stream) { return gpu::architecture_of(stream) >= 89; }

}  // namespace patchbay::PATCHBAY_GPU

/// @file float_matmul.cuh
/// The whole ladder for weights stored as plain numbers: what fp32.cu, fp16.cu and bf16.cu share.
#pragma once
#include "patchbay/gpu/cublas.cuh"
#include "patchbay/gpu/gemv.cuh"
#include "patchbay/gpu/matmul_ladder.cuh"
#include "patchbay/gpu/tensor_core_matmul.cuh"

namespace patchbay::PATCHBAY_GPU {

/// Runs args.kernel on a weight of W. @throws Error when it cannot take the shape.
template <class W>
void float_matmul(const MatmulArgs& args, const char* format, gpu::Stream stream) {
  const Dense<W> weights{static_cast<const W*>(args.parts[0])};
  const Output y{args.y, args.y_type};
  with_activation_type(args, format, [&](const auto* x) {
    switch (args.kernel) {
      case MatmulKernel::naive:
        return launch_naive(args, x, weights, y, stream);
      case MatmulKernel::tiled:
        return launch_tiled(args, x, weights, y, stream);
      case MatmulKernel::vectorised:
        require_columns(args, 8, format, "vectorised");
        return launch_vectorised(args, x, weights, y, stream);
      case MatmulKernel::gemv:
        return launch_gemv(args, x, weights, y, stream);
      case MatmulKernel::cublas:
        return launch_cublas(args, x, weights.data, format, stream);
      case MatmulKernel::tensor_core:
        require_columns(args, 8, format, "tensor_core");
        return launch_tensor_core(args, x, weights, y, stream);
      default:
        throw Error(std::string(format) + ": kernel", "plain weights do not have it",
                    "naive, tiled, vectorised, gemv, cublas, tensor_core");
    }
  });
}

}  // namespace patchbay::PATCHBAY_GPU

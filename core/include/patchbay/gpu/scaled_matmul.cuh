/// @file scaled_matmul.cuh
/// Products of 8-bit numbers on both sides: W8A8 (int8) and FP8 (e4m3). y[t][r] = token_scales[t] * row_scales[r] * sum of x w:
/// scales that do not vary along the columns leave the sum and are applied once. Half the bytes of fp16, and twice its products
/// per second.
#pragma once
#include "patchbay/gpu/packed_matmul.cuh"
#include "patchbay/gpu/scaled_matmul.h"

namespace patchbay::PATCHBAY_GPU {

/// y, with both scales applied.
struct ScaledOutput {
  Output y;
  const float *token_scales, *row_scales;
  __device__ void store(int t, int r, int rows, float sum) const { y.store(t, r, rows, sum * (token_scales[t] * row_scales[r])); }
  template <int N>
  __device__ void store_row(int t, int r, int rows, const float (&sums)[N]) const {
    float values[N];
    for (int i = 0; i < N; ++i) values[i] = r + i < rows ? sums[i] * (token_scales[t] * row_scales[r + i]) : 0.0f;
    y.store_row(t, r, rows, values);
  }
};

/// Rounds each token of x(T,C) by its own scale, to integers of -127 .. 127 or to e4m3, whose largest number is 448.
template <class A, class Code>
__global__ void quantize_tokens(const A* x, Code* codes, float* scales, int cols) {
  constexpr float kLargest = std::is_same_v<Code, std::int8_t> ? 127.0f : 448.0f;
  const A* row = x + static_cast<std::size_t>(blockIdx.x) * cols;
  float largest = 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) largest = fmaxf(largest, fabsf(gpu::to_float(row[c])));
  largest = gpu::block_max(largest);
  const float inverse = largest > 0.0f ? kLargest / largest : 0.0f;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) {
    const float value = gpu::to_float(row[c]) * inverse;
    if constexpr (std::is_same_v<Code, std::int8_t>)
      codes[static_cast<std::size_t>(blockIdx.x) * cols + c] = static_cast<Code>(__float2int_rn(value));
    else
      codes[static_cast<std::size_t>(blockIdx.x) * cols + c] = Code(value);
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = largest / kLargest;
}
template <class Code>
void launch_quantize_tokens(const QuantizeTokensArgs& args, gpu::Stream stream) {
  constexpr int kThreads = 128;
  const auto run = [&](const auto* x) {
    gpu::launch(args.tokens, kThreads, 0, stream, quantize_tokens<std::remove_const_t<std::remove_pointer_t<decltype(x)>>, Code>,
                x, static_cast<Code*>(args.codes), args.scales, args.cols);
  };
  if (args.x_type == DType::f16)
    run(static_cast<const __half*>(args.x));
  else
    run(static_cast<const __nv_bfloat16*>(args.x));
}

/// int8, step 1: a thread per y, one product per instruction; the sum is an integer, exact.
template <class Y>
__global__ void int8_naive(const std::int8_t* x, const std::int8_t* w, Y y, int tokens, int rows, int cols) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x, t = block_y();
  if (r >= rows || t >= tokens) return;
  int sum = 0;
  for (int c = 0; c < cols; ++c) sum += x[static_cast<std::size_t>(t) * cols + c] * w[static_cast<std::size_t>(r) * cols + c];
  y.store(t, r, rows, static_cast<float>(sum));
}
/// int8, step 2: a warp per row, 16 bytes per load and four products per instruction (__dp4a). For decoding: w is read at full
/// width.
template <class Y>
__global__ void int8_gemv(const std::int8_t* x, const std::int8_t* w, Y y, int tokens, int rows, int cols) {
  const int lane = threadIdx.x % 32, r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, t = block_y();
  if (r >= rows || t >= tokens) return;  // whole warps leave
  int sum = 0;
  for (int c = lane * 16; c < cols; c += 32 * 16) {
    const uint4 a = *reinterpret_cast<const uint4*>(x + static_cast<std::size_t>(t) * cols + c);
    const uint4 b = *reinterpret_cast<const uint4*>(w + static_cast<std::size_t>(r) * cols + c);
    sum = __dp4a(static_cast<int>(a.x), static_cast<int>(b.x), sum);
    sum = __dp4a(static_cast<int>(a.y), static_cast<int>(b.y), sum);
    sum = __dp4a(static_cast<int>(a.z), static_cast<int>(b.z), sum);
    sum = __dp4a(static_cast<int>(a.w), static_cast<int>(b.w), sum);
  }
  sum = gpu::warp_sum(sum);
  if (lane == 0) y.store(t, r, rows, static_cast<float>(sum));
}

inline ScaledOutput output_of(const ScaledMatmulArgs& args) {
  return {{args.product.y, args.product.y_type}, args.token_scales, args.row_scales};
}

/// int8 codes on both sides. Step 3, tensor_core: 16 x 32 by 32 x 8 per instruction.
inline void int8_matmul(const ScaledMatmulArgs& args, gpu::Stream stream) {
  constexpr int kThreads = 128;
  const MatmulArgs& p = args.product;
  const auto *x = static_cast<const std::int8_t*>(p.x), *w = static_cast<const std::int8_t*>(p.parts[0]);
  const ScaledOutput y = output_of(args);
  if (p.kernel == MatmulKernel::naive)
    return gpu::launch(folded_grid(gpu::ceil_div(p.rows, kThreads), p.tokens), kThreads, 0, stream, int8_naive<ScaledOutput>, x, w,
                       y, p.tokens, p.rows, p.cols);
  require_columns(p, 16, "w8a8", "gemv or tensor_core");
  if (p.kernel == MatmulKernel::gemv)
    return gpu::launch(folded_grid(gpu::ceil_div(p.rows, kThreads / 32), p.tokens), kThreads, 0, stream, int8_gemv<ScaledOutput>,
                       x, w, y, p.tokens, p.rows, p.cols);
  if (p.kernel == MatmulKernel::tensor_core)
    return launch_tensor_core<std::int8_t>(p, Dense<std::int8_t>{x}, Dense<std::int8_t>{w}, y, stream);
  throw Error("w8a8: kernel", "8-bit products do not have it", "naive, gemv, tensor_core");
}

/// e4m3 on both sides. `dequantised` meets in fp16, which holds every e4m3 number exactly, and needs only sm_80; `tensor_core`
/// multiplies e4m3 itself and needs sm_89.
inline void fp8_matmul(const ScaledMatmulArgs& args, gpu::Stream stream) {
  using Fp8 = __nv_fp8_e4m3;
  const MatmulArgs& p = args.product;
  const Dense<Fp8> x{static_cast<const Fp8*>(p.x)}, w{static_cast<const Fp8*>(p.parts[0])};
  const ScaledOutput y = output_of(args);
  if (p.kernel == MatmulKernel::naive) return launch_packed_naive(p, x.data, w, y, stream);
  if (p.kernel == MatmulKernel::gemv) return launch_gemv(p, x.data, w, y, stream);
  require_columns(p, 16, "fp8", "dequantised or tensor_core");
  if (p.kernel == MatmulKernel::dequantised) return launch_tensor_core<__half>(p, x, w, y, stream);
  if (p.kernel != MatmulKernel::tensor_core)
    throw Error("fp8: kernel", "8-bit products do not have it", "naive, gemv, dequantised, tensor_core");
  if (gpu::device_architecture() < 89)
    throw Error("fp8: kernel tensor_core", "this GPU has no products of 8-bit floats (sm_89 has)", "naive, gemv, dequantised");
  launch_tensor_core<Fp8>(p, x, w, y, stream);
}

}  // namespace patchbay::PATCHBAY_GPU

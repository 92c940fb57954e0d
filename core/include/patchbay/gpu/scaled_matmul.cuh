/// @file scaled_matmul.cuh
/// Products of 8-bit numbers: W8A8 (int8) and FP8 (e4m3, e5m2). y[t][r] = token_scales[t] * row_scales[r] * sum of x w: scales
/// that do not vary along the columns leave the sum and are applied once. Half the bytes of fp16, and with both sides in 8 bits twice
/// its products per second.
#pragma once
#include "patchbay/gpu/architecture.cuh"
#include "patchbay/gpu/packed_matmul.cuh"
#include "patchbay/gpu/scaled_matmul.h"

namespace patchbay::PATCHBAY_GPU {

/// y, with both scales applied; null: 1.
struct ScaledOutput {
  Output y;
  const float *token_scales, *row_scales;
  int row_step = 1;  // 0: all rows have the first one

  explicit ScaledOutput(const ScaledMatmulArgs& args)
      : y{args.product.y, args.product.y_type},
        token_scales(args.token_scales),
        row_scales(static_cast<const float*>(args.product.parts[1])),
        row_step(args.one_scale ? 0 : 1) {}
  /// Of weights whose scales are in them already.
  static ScaledOutput without_row_scales(const ScaledMatmulArgs& args) {
    ScaledOutput output(args);
    output.row_scales = nullptr;
    return output;
  }

  __device__ float scaled(int t, int r, float sum) const {
    return sum * ((token_scales ? token_scales[t] : 1.0f) * (row_scales ? row_scales[r * row_step] : 1.0f));
  }
  __device__ void store(int t, int r, int rows, float sum) const { y.store(t, r, rows, scaled(t, r, sum)); }
  template <int N>
  __device__ void store_row(int t, int r, int rows, const float (&sums)[N]) const {
    float values[N];
    for (int i = 0; i < N; ++i) values[i] = r + i < rows ? scaled(t, r + i, sums[i]) : 0.0f;
    y.store_row(t, r, rows, values);
  }
};

/// Codes times their row's scale, as floats: for take_rows.
template <class Code>
struct ScaledCodes {
  const Code* codes;
  const float* scales;
  int row_step;
  explicit ScaledCodes(const ScaledMatmulArgs& args)
      : codes(static_cast<const Code*>(args.product.parts[0])),
        scales(static_cast<const float*>(args.product.parts[1])),
        row_step(args.one_scale ? 0 : 1) {}
  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    load_span(codes + static_cast<std::size_t>(row) * cols, column, cols, w);
    for (float& value : w) value *= scales[row * row_step];
  }
};

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

/// int8 codes on both sides. Step 3, tensor_core: 16 x 32 by 32 x 8 per instruction.
inline void int8_matmul(const ScaledMatmulArgs& args, gpu::Stream stream) {
  constexpr int kThreads = 128;
  const MatmulArgs& p = args.product;
  if (p.kernel == MatmulKernel::take_rows) return launch_packed_take_rows(p, ScaledCodes<std::int8_t>(args), stream);
  const auto *x = static_cast<const std::int8_t*>(p.x), *w = static_cast<const std::int8_t*>(p.parts[0]);
  const ScaledOutput y(args);
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

/// Weights of 8-bit floats, of either kind: one set of kernels for both. A code is the upper part of a 16-bit float once its exponent is as
/// wide: e5m2's that of fp16, and e4m3 moved by one bit an fp16 number 2^8 too small. So no conversion is asked of the GPU, which
/// sm_80 has not.
struct Fp8Weights {
  const std::uint8_t* codes;
  const float* scales;  // one for each group_size columns of a row, `groups` for a row; null: they are applied to the sum
  int group_size, groups;
  bool is_e5m2;

  __device__ static float widened(unsigned code, bool is_e5m2) {
    const unsigned bits = (code & 0x80u) << 8 | (code & 0x7Fu) << (is_e5m2 ? 8 : 7);
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))) * (is_e5m2 ? 1.0f : 256.0f);
  }
  __device__ void span(int row, int column, int cols, float (&w)[kSpan]) const {
    const std::uint8_t* from = codes + static_cast<std::size_t>(row) * cols + column;
    std::uint8_t span[kSpan] = {};
    if (cols % kSpan == 0) {
      const uint4 words = *reinterpret_cast<const uint4*>(from);
      memcpy(span, &words, kSpan);
    } else {
      for (int i = 0; i < kSpan && column + i < cols; ++i) span[i] = from[i];
    }
    for (int i = 0; i < kSpan; ++i) w[i] = widened(span[i], is_e5m2);
    if (!scales) return;
    const float* of_row = scales + static_cast<std::size_t>(row) * groups;
    const bool one = group_size % kSpan == 0;  // for the span
    const float scale = of_row[column / group_size];
    for (int i = 0; i < kSpan && column + i < cols; ++i) w[i] *= one ? scale : of_row[(column + i) / group_size];
  }
};

/// Weights of 8-bit floats by inputs of X. `dequantised` meets in 16 bits, which hold every such number exactly, and needs only
/// sm_80; so does `tensor_core`, but where x is codes of the weights' kind and scales are applied to the sum: then it multiplies
/// the codes themselves, and needs sm_89.
template <class X>
void fp8_matmul(const MatmulArgs& p, const Fp8Weights& w, const ScaledOutput& y, gpu::Stream stream) {
  using A = std::conditional_t<sizeof(X) == 1, __half, X>;
  const auto* x = static_cast<const X*>(p.x);
  if (p.kernel == MatmulKernel::naive) return launch_packed_naive(p, x, w, y, stream);
  if (p.kernel == MatmulKernel::gemv) return launch_gemv(p, x, w, y, stream);
  require_columns(p, 16, "fp8", "dequantised or tensor_core");
  if (p.kernel != MatmulKernel::dequantised && p.kernel != MatmulKernel::tensor_core)
    throw Error("fp8: kernel", "8-bit products do not have it", "naive, gemv, dequantised, tensor_core");
  if constexpr (sizeof(X) == 1) {
    if (p.kernel == MatmulKernel::tensor_core && !w.scales) {
      if (gpu::architecture_of(stream) < 89)
        throw Error("fp8: kernel tensor_core", "this GPU has no products of 8-bit floats (sm_89 has)", "naive, gemv, dequantised");
      return launch_tensor_core<X>(p, Dense<X>{x}, Dense<X>{static_cast<const X*>(p.parts[0])}, y, stream);
    }
  }
  launch_tensor_core<A>(p, Dense<X>{x}, w, y, stream);
}
/// The same for the type that x has: codes of the weights' own kind, f16 or bf16.
inline void fp8_matmul(const MatmulArgs& p, const Fp8Weights& w, const ScaledOutput& y, gpu::Stream stream) {
  if (y.token_scales) return w.is_e5m2 ? fp8_matmul<__nv_fp8_e5m2>(p, w, y, stream) : fp8_matmul<__nv_fp8_e4m3>(p, w, y, stream);
  with_activation_type(p, "fp8", [&]<class X>(const X*) { fp8_matmul<X>(p, w, y, stream); });
}

}  // namespace patchbay::PATCHBAY_GPU

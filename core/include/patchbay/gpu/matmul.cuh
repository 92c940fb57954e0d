/// @file matmul.cuh
/// What the kernels of y(T,R) = x(T,C) w(R,C)^T share: how sixteen numbers at a time are read, and how y is written.
///
/// A `Weights` is a kernel argument that knows how a format stores w. It supplies
///   void span(int row, int column, int cols, float (&w)[16]) const: the weights of columns column .. column + 15 as floats, with
///   0 past the last column. `column` is a multiple of 16. (Plain numbers also give as many as one load brings: kAtOnce.)
/// The order in which one y is summed depends on C alone: never on T, R or the place in the grid.
#pragma once
#include <string>

#include "patchbay/error.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/matmul.h"

namespace patchbay::PATCHBAY_GPU {

inline constexpr int kSpan = 16;

/// Columns column .. column + N - 1 of a row of `cols` numbers, 0 past its end: by up to 16 bytes where every row is aligned, else
/// one by one.
template <class T, int N>
__device__ inline void load_span(const T* row, int column, int cols, float (&to)[N]) {
  constexpr int kVector = N * sizeof(T) < 16 ? N : 16 / sizeof(T);
  if (cols % kVector == 0 && column + N <= cols) {
    for (int i = 0; i < N; i += kVector) {
      const auto part = gpu::load<kVector>(row + column + i);
      for (int j = 0; j < kVector; ++j) to[i + j] = gpu::to_float(part[j]);
    }
    return;
  }
  for (int i = 0; i < N; ++i) to[i] = column + i < cols ? gpu::to_float(row[column + i]) : 0.0f;
}

/// A weight of plain numbers.
template <class W>
struct Dense {
  const W* data;
  __device__ const W* row(int r, int cols) const { return data + static_cast<std::size_t>(r) * cols; }
  template <int N>
  __device__ void span(int r, int column, int cols, float (&w)[N]) const {
    load_span(row(r, cols), column, cols, w);
  }
};
/// The neighbouring columns of a weight that one load brings.
template <class Weights>
inline constexpr int kAtOnce = kSpan;
template <class W>
inline constexpr int kAtOnce<Dense<W>> = 16 / sizeof(W);

/// y, in the type that its reader wants: one uniform branch per store instead of three times the kernels.
struct Output {
  void* data;
  DType type;
  __device__ void store(int t, int r, int rows, float value) const {
    const std::size_t i = static_cast<std::size_t>(t) * rows + r;
    if (type == DType::f32)
      static_cast<float*>(data)[i] = value;
    else if (type == DType::f16)
      static_cast<__half*>(data)[i] = __float2half(value);
    else
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value);
  }
  /// Rows r .. r + N - 1 of token t, of those that there are: in stores of 16 bytes where every token's row is aligned. r is a
  /// multiple of N.
  template <int N>
  __device__ void store_row(int t, int r, int rows, const float (&values)[N]) const {
    if (rows % N != 0) {
      for (int i = 0; i < N && r + i < rows; ++i) store(t, r + i, rows, values[i]);
      return;
    }
    const std::size_t at = static_cast<std::size_t>(t) * rows + r;
    if (type == DType::f32)
      store_wide(static_cast<float*>(data) + at, values);
    else if (type == DType::f16)
      store_wide(static_cast<__half*>(data) + at, values);
    else
      store_wide(static_cast<__nv_bfloat16*>(data) + at, values);
  }

 private:
  template <class T, int N>
  __device__ static void store_wide(T* to, const float (&values)[N]) {
    gpu::Pack<T, N> pack;
    for (int i = 0; i < N; ++i) pack.at[i] = gpu::from_float<T>(values[i]);
    gpu::store_pack(to, pack);
  }
};

/// A grid of `x` by `y` blocks. CUDA takes 65,535 of them along y: more are folded into z, and block_y() unfolds them again. Blocks
/// past the last may exist.
inline gpu::Dim folded_grid(int x, int y) {
  constexpr int kMost = 65535;
  return {x, y < kMost ? y : kMost, gpu::ceil_div(y, kMost)};
}
__device__ inline int block_y() { return static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y); }

/// Calls body with a null pointer of x's type: the one place where the type of a run becomes a type of the language.
template <class Body>
void with_activation_type(const MatmulArgs& args, const char* format, Body body) {
  if (args.x_type == DType::f16) return body(static_cast<const __half*>(args.x));
  if (args.x_type == DType::bf16) return body(static_cast<const __nv_bfloat16*>(args.x));
  throw Error(format, "an input of type " + std::string(name_of(args.x_type)) + " on a GPU", "f16, bf16");
}

/// @throws Error unless a row is a whole number of `unit` columns.
inline void require_columns(const MatmulArgs& args, int unit, const char* format, const char* kernel) {
  if (args.cols % unit == 0) return;
  throw Error(std::string(format) + ": kernel " + kernel,
              "it reads " + std::to_string(unit) + " columns at a time, and this weight is " + std::to_string(args.rows) + " x " +
                  std::to_string(args.cols),
              "a multiple of " + std::to_string(unit) + " columns", "set kernel to naive");
}

}  // namespace patchbay::PATCHBAY_GPU

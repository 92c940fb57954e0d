/// @file matmul.cuh
/// What the kernels of y(T,R) = x(T,C) w(R,C)^T share: how sixteen numbers at a time are read, and how y is written.
///
/// A `Weights` is a kernel argument that knows how a format stores w. It supplies
///   void span(int row, int column, int cols, float (&w)[16]) const: the weights of columns column .. column + 15 as floats, with
///   0 past the last column. `column` is a multiple of 16.
/// The order in which one y is summed depends on C alone: never on T, R or the place in the grid.
#pragma once
#include <string>

#include "patchbay/error.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/matmul.h"

namespace patchbay::PATCHBAY_GPU {

inline constexpr int kSpan = 16;

/// 16 bytes of T as floats. `from` is aligned to 16.
template <class T>
__device__ inline void load_vector(const T* from, float (&to)[16 / sizeof(T)]) {
  constexpr int kVector = 16 / sizeof(T);
  const auto values = gpu::load<kVector>(from);
  for (int i = 0; i < kVector; ++i) to[i] = gpu::to_float(values[i]);
}

/// Columns column .. column + 15 of a row of `cols` numbers, 0 past its end: by 16 bytes where every row is aligned, else one by
/// one.
template <class T>
__device__ inline void load_span(const T* row, int column, int cols, float (&to)[kSpan]) {
  constexpr int kVector = 16 / sizeof(T);
  if (cols % kVector == 0 && column + kSpan <= cols) {
    for (int i = 0; i < kSpan; i += kVector) {
      float part[kVector];
      load_vector(row + column + i, part);
      for (int j = 0; j < kVector; ++j) to[i + j] = part[j];
    }
    return;
  }
  for (int i = 0; i < kSpan; ++i) to[i] = column + i < cols ? gpu::to_float(row[column + i]) : 0.0f;
}

/// A weight of plain numbers.
template <class W>
struct Dense {
  const W* data;
  __device__ const W* row(int r, int cols) const { return data + static_cast<std::size_t>(r) * cols; }
  __device__ void span(int r, int column, int cols, float (&w)[kSpan]) const { load_span(row(r, cols), column, cols, w); }
};

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
};

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

/// @file rope.cuh
/// The turning of pairs, shared by rope.cu and the kernel that turns keys as it caches them.
#pragma once
#include "patchbay/backend.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {

/// x(T,H,D) with adjacent values.
template <class T>
struct Heads {
  T* data;
  std::int64_t row_stride, head_stride;
};
template <class T>
Heads<T> heads_of(const TensorRef& x, const char* operation) {
  const auto view = x.as<typename Storage<T>::type, 3>();
  require(view.strides[2] == 1 || view.shape[2] <= 1, operation, "the values of a head are not adjacent");
  return {reinterpret_cast<T*>(view.data), view.strides[0], view.strides[1]};
}

/// RopeSpec as kernels take it: a row of angles per position, the cosines of all pairs, then their sines.
struct Turns {
  const float* angles;
  std::int64_t stride;
  int pairs;
  bool interleaved;  ///< pair i is (2i, 2i + 1), else (i, i + pairs)

  __device__ const float* cosines(std::int32_t position) const { return angles + position * stride; }
  __device__ const float* sines(std::int32_t position) const { return angles + position * stride + pairs; }
};

inline Turns turns_of(const RopeSpec& spec, const TensorRef& x, const char* operation) {
  require(spec.dims >= 0 && spec.dims % 2 == 0 && spec.dims <= x.shape[2], operation,
          std::to_string(spec.dims) + " dims to turn in heads of " + std::to_string(x.shape[2]));
  const auto angles = rows_of<const float>(spec.angles, operation, spec.angles.shape[0], spec.dims);
  return {angles.data, angles.stride, spec.dims / 2, spec.interleaved};
}

/// (a cos - b sin, b cos + a sin), rounded to T.
template <class T>
__device__ inline void turn(T& first, T& second, float cosine, float sine) {
  const float a = gpu::to_float(first), b = gpu::to_float(second);
  first = gpu::from_float<T>(a * cosine - b * sine);
  second = gpu::from_float<T>(b * cosine + a * sine);
}

}  // namespace patchbay::PATCHBAY_GPU

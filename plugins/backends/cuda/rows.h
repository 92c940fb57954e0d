/// @file rows.h
/// What the launchers of this folder share on the host: tensors as rows, checked; the type of the activations chosen at run time.
#pragma once
#include <algorithm>
#include <string>
#include <type_traits>

#include "patchbay/gpu.h"
#include "patchbay/tensor.h"

namespace patchbay::PATCHBAY_GPU {

/// A matrix whose rows lie `stride` elements apart and whose columns are adjacent: what kernels take.
template <class T>
struct Rows {
  T* data;
  std::int64_t stride;
  Rows from(std::int64_t row) const { return {data + row * stride, stride}; }
};

inline void require(bool holds, const char* operation, const std::string& problem) {
  if (!holds) throw Error(std::string("cuda ") + operation, problem);
}

/// x of shape (rows, cols), typed.
template <class T>
Rows<T> rows_of(const TensorRef& x, const char* operation, std::int64_t rows, std::int64_t cols) {
  const auto view = x.as<T, 2>();
  require(view.shape[0] == rows && view.shape[1] == cols, operation,
          "a tensor of " + std::to_string(view.shape[0]) + " x " + std::to_string(view.shape[1]) + " where " +
              std::to_string(rows) + " x " + std::to_string(cols) + " is needed");
  require(view.strides[1] == 1 || cols <= 1, operation, "the values of a row are not adjacent");
  return {view.data, view.strides[0]};
}
/// n adjacent values.
template <class T>
T* vector_of(const TensorRef& x, const char* operation, std::int64_t n) {
  const auto view = x.as<T, 1>();
  require(view.shape[0] == n && (view.strides[0] == 1 || n <= 1), operation,
          std::to_string(view.shape[0]) + " values where " + std::to_string(n) + " adjacent ones are needed");
  return view.data;
}

/// The storage type of tensor.h and the type that kernels compute with.
template <class T>
struct Storage {
  using type = T;
};
template <>
struct Storage<__half> {
  using type = Half;
};
template <>
struct Storage<__nv_bfloat16> {
  using type = BFloat16;
};
template <class T>
struct Storage<const T> {
  using type = const typename Storage<T>::type;
};

template <class T>
Rows<T> activations(const TensorRef& x, const char* operation, std::int64_t rows, std::int64_t cols) {
  const auto stored = rows_of<typename Storage<T>::type>(x, operation, rows, cols);
  return {reinterpret_cast<T*>(stored.data), stored.stride};
}

/// Calls body(std::type_identity<T>()) with the T that the activations have.
template <class Body>
void with_type(DType type, const char* operation, Body body) {
  if (type == DType::f32) return body(std::type_identity<float>());
  if (type == DType::f16) return body(std::type_identity<__half>());
  if (type == DType::bf16) return body(std::type_identity<__nv_bfloat16>());
  throw Error(std::string("cuda ") + operation, "activations of type " + std::string(name_of(type)), "f32, f16, bf16");
}

/// How many values a thread moves at once: 16 bytes of them where every row of each matrix begins at such an address and has
/// whole packs, else 1. Depends on the shapes and places, never on how many rows there are.
template <class... T>
int pack_width(std::int64_t cols, const Rows<T>&... matrices) {
  constexpr int kWidth = 16 / std::min({sizeof(T)...});
  const auto fits = [&](const auto& m) {
    return reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 && m.stride * sizeof(*m.data) % 16 == 0;
  };
  return cols % kWidth == 0 && (fits(matrices) && ...) ? kWidth : 1;
}

/// An operation's ladder may lack a step.
inline void require_version(bool has, const char* operation) {
  if (!has) throw Error(std::string("cuda ") + operation, "has no such version", "naive, fast");
}
inline unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}
/// Threads of a block that works on one row: enough for a pack each, whole warps, a function of the row's length alone.
inline unsigned threads_for(std::int64_t cols, int width) {
  const std::int64_t warps = (cols / width + 31) / 32;
  return 32 * static_cast<unsigned>(std::clamp<std::int64_t>(warps, 1, 8));
}
/// Launches an element-wise kernel over rows x cols, `width` values per thread: body(grid, threads, first row), blockIdx.y a row.
/// A grid has at most 65535 of those, hence the loop.
template <class Body>
void over_rows(std::int64_t rows, std::int64_t cols, int width, Body body) {
  constexpr std::int64_t kMostRows = 65535;
  if (cols == 0) return;
  const unsigned threads = threads_for(cols, width);
  for (std::int64_t first = 0; first < rows; first += kMostRows) {
    body(gpu::Dim(blocks_for(cols, threads * width), static_cast<unsigned>(std::min(kMostRows, rows - first))), threads, first);
  }
}

}  // namespace patchbay::PATCHBAY_GPU

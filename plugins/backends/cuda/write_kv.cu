// A step's keys and values into the cache of a layer, in its number format: one warp per row (of a token and head), its slab found in
// the step's table. Rows with a scale are rounded as the host's format int8 rounds them, (I1) to (I3) of plugins/kv_formats/int8.
#include "cuda_ops.h"
#include "patchbay/gpu_kv_cache.cuh"
#include "patchbay/gpu/warp.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

/// One row of D values, by the lanes of a warp.
template <class T, class S>
__device__ void write_plain(const T* row, int size, std::byte* out) {
  for (int d = threadIdx.x; d < size; d += 32) reinterpret_cast<S*>(out)[d] = gpu::from_float<S>(gpu::to_float(row[d]));
}

template <class T>
__device__ void write_int8(const T* row, int size, std::byte* out, __half* scale) {
  float largest = 0;
  bool poisoned = false;
  for (int d = threadIdx.x; d < size; d += 32) {
    const float value = gpu::to_float(row[d]);
    largest = fmaxf(largest, fabsf(value));  // a NaN is passed over here
    poisoned |= isnan(value);                // and found here
  }
  largest = gpu::warp_max(largest);
  poisoned = __any_sync(0xFFFFFFFFu, poisoned);
  const __half stored = gpu::from_float<__half>(fminf(largest / 127.0f, 65504.0f));
  const float factor = gpu::to_float(stored);
  if (threadIdx.x == 0) *scale = poisoned ? gpu::from_float<__half>(NAN) : stored;
  for (int d = threadIdx.x; d < size; d += 32) {
    std::int8_t code = 0;
    if (!poisoned && factor != 0) {
      const float ratio = fminf(fmaxf(gpu::to_float(row[d]) / factor, -127.0f), 127.0f);
      code = static_cast<std::int8_t>(ratio + copysignf(0.5f, ratio));
    }
    reinterpret_cast<std::int8_t*>(out)[d] = code;
  }
}

template <class T>
__device__ void write_row(DType stored, const T* row, int size, std::byte* out, __half* scale) {
  switch (stored) {
    case DType::f32: return write_plain<T, float>(row, size, out);
    case DType::f16: return write_plain<T, __half>(row, size, out);
    case DType::bf16: return write_plain<T, __nv_bfloat16>(row, size, out);
    case DType::f8_e4m3: return write_plain<T, __nv_fp8_e4m3>(row, size, out);
    case DType::f8_e5m2: return write_plain<T, __nv_fp8_e5m2>(row, size, out);
    default: return write_int8(row, size, out, scale);
  }
}

/// k and v (T,G,D) with heads adjacent. blockIdx: (row, head, 0 for keys and 1 for values).
template <class T>
__global__ void write_kv_kernel(Rows<const T> k, Rows<const T> v, gpu::LayerStep step, int size) {
  const int row = blockIdx.x, head = blockIdx.y;
  const gpu::Place at = step.place(step.row_sequence[row], step.row_slot[row]);
  const bool values = blockIdx.z == 1;
  const Rows<const T> from = values ? v : k;
  auto* const out = const_cast<std::byte*>(values ? step.value(at, head) : step.key(at, head));
  auto* const scale = const_cast<__half*>(step.scale(at, head, values ? step.v_scales : step.k_scales));
  write_row(step.stored, from.data + row * from.stride + head * size, size, out, scale);
}

/// x(T,G,D) as rows of all heads.
template <class T>
Rows<const T> all_heads(const TensorRef& x, std::int64_t rows) {
  require(x.rank == 3 && x.shape[0] == rows && (x.strides[1] == x.shape[2] || x.shape[1] == 1) && x.strides[2] == 1, "write_kv",
          "keys and values are not (rows, heads, size) with adjacent heads");
  return {static_cast<const T*>(x.data), x.strides[0]};
}

}  // namespace

void write_kv(TensorRef k, TensorRef v, const GpuStep& step, int layer, gpu::Stream stream) {
  const KvLayout& layout = step.shape.layout;
  const bool known = layout.scaled ? layout.dtype == DType::i8 : layout.dtype != DType::i8 && layout.dtype != DType::u8 && layout.dtype != DType::i32;
  require(known, "write_kv", "no kernel writes rows of " + std::string(name_of(layout.dtype)) + (layout.scaled ? " with scales" : ""));
  if (step.rows == 0) return;
  with_type(k.dtype, "write_kv", [&]<class T>(std::type_identity<T>) {
    gpu::launch(gpu::Dim(step.rows, k.shape[1], 2), 32, 0, stream, write_kv_kernel<T>, all_heads<T>(k, step.rows),
                all_heads<T>(v, step.rows), gpu::layer_step(step, layer), static_cast<int>(k.shape[2]));
  });
}

}  // namespace patchbay::PATCHBAY_GPU

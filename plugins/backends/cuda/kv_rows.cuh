/// @file kv_rows.cuh
/// Rows of keys and values into the cache's number formats, shared by
/// write_kv.cu and rope_write_kv.cu.
#pragma once
#include "patchbay/gpu/warp.cuh"
#include "patchbay/gpu_kv_cache.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {

/// Lanes of a group that share the D values of a row: a warp, or a thread
/// alone.
template <int kLanes>
struct Group {
  static __device__ int lane() { return kLanes == 1 ? 0 : static_cast<int>(threadIdx.x % kLanes); }
  static __device__ float max(float value) {
    if constexpr (kLanes == 1)
      return value;
    else
      return gpu::warp_max(value);
  }
  static __device__ bool any(bool value) {
    if constexpr (kLanes == 1)
      return value;
    else
      return __any_sync(~0u, value) != 0;
  }
};

/// value(d) for all d, as floats of type S.
template <class S, int kLanes, class Value>
__device__ void write_floats(Value value, int size, std::byte* out) {
  for (int d = Group<kLanes>::lane(); d < size; d += kLanes) reinterpret_cast<S*>(out)[d] = gpu::from_float<S>(value(d));
}

/// As the host's format int8 rounds: (I1) to (I3) of plugins/kv_formats/int8.
template <int kLanes, class Value>
__device__ void write_int8(Value value, int size, std::byte* out, __half* scale) {
  float largest = 0;
  bool poisoned = false;
  for (int d = Group<kLanes>::lane(); d < size; d += kLanes) {
    largest = fmaxf(largest, fabsf(value(d)));  // a NaN is passed over here
    poisoned |= value(d) != value(d);           // and found here
  }
  largest = Group<kLanes>::max(largest);
  poisoned = Group<kLanes>::any(poisoned);
  const __half stored = gpu::from_float<__half>(fminf(largest / 127.0f, 65504.0f));
  const float factor = gpu::to_float(stored);
  if (Group<kLanes>::lane() == 0) *scale = poisoned ? __ushort_as_half(0x7E00) : stored;  // NaN, as the host writes it
  for (int d = Group<kLanes>::lane(); d < size; d += kLanes) {
    const float ratio = poisoned || factor == 0 ? 0.0f : fminf(fmaxf(value(d) / factor, -127.0f), 127.0f);
    reinterpret_cast<std::int8_t*>(out)[d] = static_cast<std::int8_t>(ratio + copysignf(0.5f, ratio));
  }
}

/// One cached row of a step's row `row`, key/value head `head`, by a group of
/// kLanes.
template <int kLanes, class Value>
__device__ void write_row(const gpu::LayerStep& step, int row, int head, bool values, int size, Value value) {
  const gpu::Place at = step.place(step.row_sequence[row], step.row_slot[row]);
  auto* const out = const_cast<std::byte*>(values ? step.value(at, head) : step.key(at, head));
  switch (step.stored) {
    case DType::f32:
      return write_floats<float, kLanes>(value, size, out);
    case DType::f16:
      return write_floats<__half, kLanes>(value, size, out);
    case DType::bf16:
      return write_floats<__nv_bfloat16, kLanes>(value, size, out);
    case DType::f8_e4m3:
      return write_floats<__nv_fp8_e4m3, kLanes>(value, size, out);
    case DType::f8_e5m2:
      return write_floats<__nv_fp8_e5m2, kLanes>(value, size, out);
    default:
      return write_int8<kLanes>(value, size, out,
                                const_cast<__half*>(step.scale(at, head, values ? step.v_scales : step.k_scales)));
  }
}

/// @throws Error for a layout that no kernel writes.
inline void require_layout(const KvLayout& layout, const char* operation) {
  const bool integers = layout.dtype == DType::u8 || layout.dtype == DType::i32;
  require(layout.scaled == (layout.dtype == DType::i8) && !integers, operation,
          "no kernel writes rows of " + std::string(name_of(layout.dtype)) + (layout.scaled ? " with scales" : ""));
}

}  // namespace patchbay::PATCHBAY_GPU

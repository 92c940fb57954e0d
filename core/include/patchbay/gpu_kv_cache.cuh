/// @file gpu_kv_cache.cuh
/// The KV cache and the rows of a step as kernels see them: GpuStep (attention.h) for one layer, and where a slot's bytes are.
/// Every kernel reads through the table of slabs: a contiguous cache has one slab per sequence, a paged one a slab per block.
#pragma once
#include "patchbay/attention.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"

namespace patchbay::gpu {
inline namespace PATCHBAY_GPU_WORLD {

/// Which slots a row sees: all that lie in [begin, end), but for a tree's tentative ones, which are looked up.
struct Sight {
  int begin, end;  ///< nothing outside is seen
  int committed;
  const std::uint8_t* tree;       ///< the row's line of a tree of drafts; null: causal
  const std::int32_t* positions;  ///< of the tentative slots, where there is a tree
  int lowest;                     ///< positions below are out of the window

  __device__ bool sees(int slot) const {
    if (slot < begin || slot >= end) return false;
    if (!tree) return true;
    if (slot < committed) return slot >= lowest;
    return tree[slot - committed] != 0 && positions[slot - committed] >= lowest;
  }
  /// Whether the row sees all of [first, last): then a tile needs no mask.
  __device__ bool sees_all(int first, int last) const {
    return first >= begin && last <= end && (!tree || (last <= committed && first >= lowest));
  }
};

/// A slab and a token in it.
struct Place {
  const std::byte* slab;
  int token;
};

/// One layer of a step. Trivially copyable: an argument of kernels.
struct LayerStep {
  const std::int32_t *row_sequence, *row_slot, *row_position, *first_row, *sequence_rows, *committed;
  const std::uint8_t* tree;
  std::int64_t tree_width;
  std::byte* const* slabs;
  std::int64_t slabs_per_sequence, layer_bytes;  ///< layer_bytes: from layer 0's slabs to this layer's
  std::int64_t token_stride, head_stride, v_offset, k_scales, v_scales;
  int slab_tokens, window;
  bool scaled;
  DType stored;
  __device__ Place place(int sequence, int slot) const {
    const int slab = slot / slab_tokens;
    return {slabs[sequence * slabs_per_sequence + slab] + layer_bytes, slot - slab * slab_tokens};
  }
  __device__ const std::byte* key(Place at, int head) const { return at.slab + at.token * token_stride + head * head_stride; }
  __device__ const std::byte* value(Place at, int head) const { return key(at, head) + v_offset; }
  __device__ const __half* scale(Place at, int head, std::int64_t scales) const {
    return reinterpret_cast<const __half*>(at.slab + scales) + std::int64_t{head} * slab_tokens + at.token;
  }
  __device__ float key_scale(Place at, int head) const { return scaled ? to_float(*scale(at, head, k_scales)) : 1.0f; }
  __device__ float value_scale(Place at, int head) const { return scaled ? to_float(*scale(at, head, v_scales)) : 1.0f; }

  __device__ Sight sight(int row) const {
    const int sequence = row_sequence[row], final = committed[sequence], position = row_position[row];
    const int lowest = window > 0 && position >= window ? position - window + 1 : 0;
    if (!tree) return {lowest, row_slot[row] + 1, final, nullptr, nullptr, lowest};
    return {lowest < final ? lowest : final, final + sequence_rows[sequence],    final,
            tree + row * tree_width,         row_position + first_row[sequence], lowest};
  }
  /// The slots that any of these rows of one sequence may see: what a block of rows has to walk through.
  __device__ void range(int first, int last, int& begin, int& end) const {
    const Sight early = sight(first);
    begin = early.begin;
    end = sight(last).end;
    if (tree && window > 0)
      begin = early.committed >= window ? early.committed - window + 1 : 0;  // positions do not ascend in a tree
  }
};

inline LayerStep layer_step(const GpuStep& step, int layer, std::int64_t window = 0) {
  const KvSlabShape& shape = step.shape;
  return {step.row_sequence,
          step.row_slot,
          step.row_position,
          step.first_row,
          step.sequence_rows,
          step.committed,
          step.tree,
          step.tree_width,
          step.slabs,
          step.slabs_per_sequence,
          layer * shape.layer_bytes,
          shape.token_stride,
          shape.head_stride,
          shape.v_offset,
          shape.k_scales,
          shape.v_scales,
          static_cast<int>(shape.tokens),
          static_cast<int>(window),
          shape.layout.scaled,
          shape.layout.dtype};
}

/// Value d of a cached row, whatever its type, before its scale: for kernels that look at one value at a time.
__device__ inline float stored_value(DType type, const std::byte* row, int d) {
  switch (type) {
    case DType::f32:
      return reinterpret_cast<const float*>(row)[d];
    case DType::f16:
      return to_float(reinterpret_cast<const __half*>(row)[d]);
    case DType::bf16:
      return to_float(reinterpret_cast<const __nv_bfloat16*>(row)[d]);
    case DType::f8_e4m3:
      return to_float(reinterpret_cast<const __nv_fp8_e4m3*>(row)[d]);
    case DType::f8_e5m2:
      return to_float(reinterpret_cast<const __nv_fp8_e5m2*>(row)[d]);
    default:
      return to_float(reinterpret_cast<const std::int8_t*>(row)[d]);
  }
}

/// q or out (T,H,D) as kernels take it: adjacent values, the type known at run time where loads are few.
struct QueryRows {
  void* data;
  std::int64_t row_stride, head_stride;
  DType type;

  __device__ std::int64_t at(int row, int head) const { return row * row_stride + head * head_stride; }
  __device__ float load(int row, int head, int d) const {
    const std::int64_t i = at(row, head) + d;
    if (type == DType::f32) return static_cast<const float*>(data)[i];
    return type == DType::f16 ? to_float(static_cast<const __half*>(data)[i])
                              : to_float(static_cast<const __nv_bfloat16*>(data)[i]);
  }
  /// Values d to d + 7 in loads of 16 bytes; the launcher has seen to it that addresses allow them.
  __device__ void load_pack(int row, int head, int d, float (&to)[8]) const {
    const std::int64_t i = at(row, head) + d;
    const auto get = [&](auto pack) {
      for (int j = 0; j < 8; ++j) to[j] = to_float(pack.at[j]);
    };
    if (type == DType::f32)
      get(gpu::load_pack<8>(static_cast<const float*>(data) + i));
    else if (type == DType::f16)
      get(gpu::load_pack<8>(static_cast<const __half*>(data) + i));
    else
      get(gpu::load_pack<8>(static_cast<const __nv_bfloat16*>(data) + i));
  }
  __device__ void store(int row, int head, int d, float value) const {
    const std::int64_t i = at(row, head) + d;
    if (type == DType::f32)
      static_cast<float*>(data)[i] = value;
    else if (type == DType::f16)
      static_cast<__half*>(data)[i] = from_float<__half>(value);
    else
      static_cast<__nv_bfloat16*>(data)[i] = from_float<__nv_bfloat16>(value);
  }
};
inline QueryRows query_rows(const TensorRef& x) { return {x.data, x.strides[0], x.strides[1], x.dtype}; }

/// AttentionSpec as kernels take it.
struct Scoring {
  float scale, soft_cap;
  /// A product of query and key as a score: capped, and finite, so that no difference of two is inf - inf.
  __device__ float operator()(float product) const {
    float s = product * scale;
    if (soft_cap > 0) s = soft_cap * tanhf(s / soft_cap);
    constexpr float kLargest = 3.402823466e38f;
    return s > kLargest ? kLargest : s < -kLargest ? -kLargest : s;
  }
};

}  // namespace PATCHBAY_GPU_WORLD
}  // namespace patchbay::gpu

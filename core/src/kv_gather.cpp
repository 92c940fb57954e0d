// Cached rows in memory: slabs of tokens, what a layout's bytes mean, and the copy to fp32 that works for every store and format.
#include <cstring>

#include "patchbay/fp8.h"
#include "patchbay/half.h"
#include "patchbay/kv_rows.h"

namespace patchbay {
namespace {

template <class Element, class Convert>
void decode_elements(const std::byte* in, View<float, 1> row, Convert convert) {
  const auto* elements = reinterpret_cast<const Element*>(in);
  for (std::int64_t d = 0; d < row.shape[0]; ++d) row[d] = convert(elements[d]);
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

void decode_row(const KvLayout& layout, const std::byte* in, Half scale, View<float, 1> row) {
  switch (layout.dtype) {
    case DType::f32:
      decode_elements<float>(in, row, [](float x) { return x; });
      break;
    case DType::f16:
      decode_elements<Half>(in, row, [](Half x) { return to_float(x); });
      break;
    case DType::bf16:
      decode_elements<BFloat16>(in, row, [](BFloat16 x) { return to_float(x); });
      break;
    case DType::i8:
      decode_elements<std::int8_t>(in, row, [](std::int8_t x) { return static_cast<float>(x); });
      break;
    case DType::f8_e4m3:
      decode_elements<std::uint8_t>(in, row, [](std::uint8_t x) { return decode_fp8(x, kE4M3); });
      break;
    case DType::f8_e5m2:
      decode_elements<std::uint8_t>(in, row, [](std::uint8_t x) { return decode_fp8(x, kE5M2); });
      break;
    default:
      throw Error("kv cache", "rows of " + std::string(name_of(layout.dtype)) + " have no meaning", "f32, f16, bf16, i8, f8_e4m3, f8_e5m2");
  }
  if (!layout.scaled) return;
  const float factor = to_float(scale);
  for (std::int64_t d = 0; d < row.shape[0]; ++d) row[d] *= factor;
}

KvSlab::KvSlab(const KvFormat& format, const KvSpec& spec, std::int64_t tokens)
    : format_(&format),
      kv_heads_(spec.kv_heads),
      tokens_(tokens),
      row_bytes_(format.row_bytes(spec.head_size)),
      scale_bytes_(format.layout().scaled ? bytes_of(DType::f16) : 0),
      rows_bytes_(aligned(kv_heads_ * tokens * row_bytes_)),
      scales_bytes_(aligned(kv_heads_ * tokens * scale_bytes_)) {}

void KvSlab::store(std::byte* slab, std::int64_t at, View<const float, 2> k, View<const float, 2> v) const {
  auto* scales = reinterpret_cast<Half*>(slab + 2 * rows_bytes_);
  for (std::int64_t g = 0; g < kv_heads_; ++g) {
    const std::int64_t row = g * tokens_ + at;
    format_->encode(k[g], slab + row * row_bytes_, scales + row);
    format_->encode(v[g], slab + rows_bytes_ + row * row_bytes_, scales + scales_bytes_ / 2 + row);
  }
}

void KvSlab::move(const std::byte* from_slab, std::int64_t from, std::byte* to_slab, std::int64_t to) const {
  for (std::int64_t g = 0; g < kv_heads_; ++g) {
    const std::int64_t source = g * tokens_ + from, target = g * tokens_ + to;
    for (const std::int64_t array : {std::int64_t{0}, rows_bytes_}) {
      std::memmove(to_slab + array + target * row_bytes_, from_slab + array + source * row_bytes_, row_bytes_);
    }
    for (const std::int64_t array : {2 * rows_bytes_, 2 * rows_bytes_ + scales_bytes_}) {
      std::memmove(to_slab + array + target * scale_bytes_, from_slab + array + source * scale_bytes_, scale_bytes_);
    }
  }
}

void KvSlab::move(const std::byte* from_slab, std::int64_t from, std::byte* to_slab, std::int64_t to, std::int64_t count,
                  Device& device) const {
  if (device.is_host()) {
    for (std::int64_t t = 0; t < count; ++t) move(from_slab, from + t, to_slab, to + t);
    return;
  }
  // `count` tokens of every head, `bytes` each, of the array that begins at `first`.
  const auto part = [&](const std::byte* slab, std::int64_t first, std::int64_t token, std::int64_t bytes) {
    TensorRef rows = View<const std::uint8_t, 2>(reinterpret_cast<const std::uint8_t*>(slab) + first + token * bytes,
                                                 {kv_heads_, count * bytes}, {tokens_ * bytes, 1});
    rows.device = 1;
    return rows;
  };
  const auto copy = [&](std::int64_t first, std::int64_t bytes) {
    if (bytes > 0) device.copy(part(from_slab, first, from, bytes), part(to_slab, first, to, bytes));
  };
  copy(0, row_bytes_);
  copy(rows_bytes_, row_bytes_);
  copy(2 * rows_bytes_, scale_bytes_);
  copy(2 * rows_bytes_ + scales_bytes_, scale_bytes_);
}

KvSlabShape KvSlab::shape() const {
  return {format_->layout(), tokens_, bytes(), row_bytes_, tokens_ * row_bytes_, rows_bytes_, 2 * rows_bytes_,
          2 * rows_bytes_ + scales_bytes_};
}

KvSegment KvSlab::segment(const std::byte* slab, std::int64_t first, std::int64_t count) const {
  KvSegment segment;
  segment.first = first;
  segment.count = count;
  segment.k = slab;
  segment.v = slab + rows_bytes_;
  segment.token_stride = row_bytes_;
  segment.head_stride = tokens_ * row_bytes_;
  if (scale_bytes_ == 0) return segment;
  segment.k_scales = reinterpret_cast<const Half*>(slab + 2 * rows_bytes_);
  segment.v_scales = segment.k_scales + scales_bytes_ / 2;
  segment.scale_token_stride = 1;
  segment.scale_head_stride = tokens_;
  return segment;
}

void check_rows(const CachedSequence& sequence, const KvSpec& spec, View<const float, 3> rows) {
  if (rows.shape[0] == sequence.tentative && rows.shape[1] == spec.kv_heads && rows.shape[2] == spec.head_size) return;
  throw Error("kv store",
              "write of " + std::to_string(rows.shape[0]) + " tokens, " + std::to_string(rows.shape[1]) + " heads of " +
                  std::to_string(rows.shape[2]),
              std::to_string(sequence.tentative) + " tokens (as grown), " + std::to_string(spec.kv_heads) + " heads of " +
                  std::to_string(spec.head_size));
}

void check_path(const CachedSequence& sequence, std::span<const std::int32_t> path) {
  std::int64_t before = -1;
  for (const std::int32_t index : path) {
    if (index <= before || index >= sequence.tentative) {
      throw Error("kv store", "commit of tentative token " + std::to_string(index) + " after " + std::to_string(before),
                  "ascending indices below " + std::to_string(sequence.tentative));
    }
    before = index;
  }
}

void check_truncate(const CachedSequence& sequence, std::int64_t n) {
  if (n >= 0 && n <= sequence.committed) return;
  throw Error("kv store", "truncate by " + std::to_string(n), "0 to " + std::to_string(sequence.committed) + " committed tokens");
}

void gather(const KvView& view, const KvFormat& format, View<float, 3> k, View<float, 3> v) {
  const std::int64_t kv_heads = k.shape[1];
  for (const KvSegment& segment : view.segments) {
    for (std::int64_t t = 0; t < segment.count; ++t) {
      for (std::int64_t g = 0; g < kv_heads; ++g) {
        const std::int64_t row = t * segment.token_stride + g * segment.head_stride;
        const std::int64_t scale = t * segment.scale_token_stride + g * segment.scale_head_stride;
        const Half k_scale = segment.k_scales ? segment.k_scales[scale] : Half{};
        const Half v_scale = segment.v_scales ? segment.v_scales[scale] : Half{};
        format.decode(segment.k + row, k_scale, k[segment.first + t][g]);
        format.decode(segment.v + row, v_scale, v[segment.first + t][g]);
      }
    }
  }
}

void gather(const KvView& view, const KvFormat& format, View<float, 3> k, View<float, 3> v, Device& device) {
  if (device.is_host()) return gather(view, format, k, v);
  const std::int64_t heads = k.shape[1];
  std::vector<std::byte> memory;
  const auto fetch = [&](const void* from, std::int64_t stride, std::int64_t bytes, std::byte* to) {
    TensorRef rows = View<const std::uint8_t, 2>(static_cast<const std::uint8_t*>(from), {heads, bytes}, {stride, 1});
    rows.device = 1;
    device.copy(rows, View<std::uint8_t, 2>(reinterpret_cast<std::uint8_t*>(to), {heads, bytes}));
  };
  for (const KvSegment& segment : view.segments) {  // into the same shape on the host, heads close together
    const std::int64_t rows = segment.count * segment.token_stride, scales = segment.count * bytes_of(DType::f16);
    memory.resize(static_cast<std::size_t>(2 * heads * (rows + scales)));
    KvSegment here = segment;
    std::byte* const k_rows = memory.data();
    std::byte* const v_rows = k_rows + heads * rows;
    std::byte* const k_scales = v_rows + heads * rows;
    std::byte* const v_scales = k_scales + heads * scales;
    fetch(segment.k, segment.head_stride, rows, k_rows);
    fetch(segment.v, segment.head_stride, rows, v_rows);
    here.k = k_rows;
    here.v = v_rows;
    here.head_stride = rows;
    if (segment.k_scales) {
      fetch(segment.k_scales, segment.scale_head_stride * bytes_of(DType::f16), scales, k_scales);
      fetch(segment.v_scales, segment.scale_head_stride * bytes_of(DType::f16), scales, v_scales);
      here.k_scales = reinterpret_cast<const Half*>(k_scales);
      here.v_scales = reinterpret_cast<const Half*>(v_scales);
      here.scale_head_stride = segment.count;
    }
    gather({view.layout, std::span<const KvSegment>(&here, 1), view.length}, format, k, v);
  }
}

}  // namespace patchbay

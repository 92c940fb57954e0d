/// @file kv_store.h
/// Interfaces of the KV cache: the number format of its rows (KvFormat), where the bytes are (KvStore).
/// S cached tokens, G key/value heads, D head size.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "patchbay/backend.h"
#include "patchbay/tensor.h"

namespace patchbay {

using SeqId = std::int32_t;

/// How one cached row (the D values of one token and head) is stored. Attention kernels compare this to what they read natively,
/// and a GPU's kernel writes by it (Ops::write_kv).
struct KvLayout {
  DType dtype = DType::f32;    ///< element type as stored
  bool scaled = false;         ///< true: one fp16 scale per row, value = scale * element
  bool operator==(const KvLayout&) const = default;
};

/// Number format of cached rows. Stateless.
class PATCHBAY_API KvFormat {
 public:
  virtual ~KvFormat();
  virtual KvLayout layout() const = 0;
  /// Bytes of one row's elements, its scale apart.
  virtual std::int64_t row_bytes(std::int64_t head_size) const = 0;
  /// Stores row[D]; `scale` is written when layout().scaled.
  virtual void encode(View<const float, 1> row, std::byte* out, Half* scale) const = 0;
  virtual void decode(const std::byte* in, Half scale, View<float, 1> row) const = 0;
  virtual std::string_view name() const = 0;
};

/// What a store is to hold.
struct KvSpec {
  int layers = 0, kv_heads = 0, head_size = 0;
  std::int64_t max_tokens = 0;  ///< tokens of the longest sequence
  int max_sequences = 1;
};

/// A run of cached tokens that lie evenly spaced in memory. Token t of head g has its keys at
/// k + t * token_stride + g * head_stride (bytes), its scales at k_scales[t * scale_token_stride + g * scale_head_stride].
struct KvSegment {
  std::int64_t first = 0, count = 0;  ///< slots [first, first + count) of the sequence
  const std::byte* k = nullptr;
  const std::byte* v = nullptr;
  std::int64_t token_stride = 0, head_stride = 0;
  const Half* k_scales = nullptr;  ///< null when not scaled
  const Half* v_scales = nullptr;
  std::int64_t scale_token_stride = 0, scale_head_stride = 0;
};

/// One sequence's cache in one layer: committed tokens, then the tentative ones of this step, in slot order.
struct KvView {
  KvLayout layout;
  std::span<const KvSegment> segments;
  std::int64_t length = 0;
};

/// How the slabs of a cache are laid out, in bytes; see KvSlab. The keys of token t and head g of a slab are at
/// t * token_stride + g * head_stride, its values v_offset further on; key scales (fp16) at k_scales + 2 * (g * tokens + t), value
/// scales likewise.
struct KvSlabShape {
  KvLayout layout;
  std::int64_t tokens = 0;       ///< of one slab
  std::int64_t layer_bytes = 0;  ///< from a slab to the next layer's
  std::int64_t token_stride = 0, head_stride = 0, v_offset = 0, k_scales = 0, v_scales = 0;
};
/// A sequence's slabs: slot s of layer l lies in slabs[s / shape.tokens] + l * shape.layer_bytes, at token s % shape.tokens.
struct KvSlabs {
  KvSlabShape shape;
  std::span<std::byte* const> slabs;
};

struct KvUsage {
  std::int64_t bytes_reserved = 0;     ///< held by the store
  std::int64_t bytes_used = 0;         ///< of them, holding tokens of open sequences (shared blocks counted once)
  std::int64_t bytes_per_token = 0;    ///< all layers, keys and values, scales included
  std::int64_t blocks_total = 0, blocks_free = 0;  ///< 0 for stores without blocks
};

/// Thread rule: one thread at a time, but write() and gather() may be called for different layers in any order.
/// On a GPU the bytes lie there: write() is not called, and what view() and slabs() point to is for kernels and Device::copy alone.
class PATCHBAY_API KvStore {
 public:
  virtual ~KvStore();
  /// Reserves memory. Called once, before all else.
  virtual void configure(const KvSpec& spec, Device& device) = 0;
  virtual void open(SeqId seq) = 0;
  /// A new sequence `child` that begins as a copy of `parent`'s committed tokens (shared until one of them writes).
  virtual void fork(SeqId parent, SeqId child) = 0;
  virtual void close(SeqId seq) = 0;
  /// Makes room for n tentative tokens after the committed ones. False: full, an ordinary answer; nothing changed.
  virtual bool grow(SeqId seq, std::int64_t n) = 0;
  /// Stores the keys and values k, v (n,G,D) of the n tentative tokens in `layer`.
  virtual void write(int layer, SeqId seq, TensorRef k, TensorRef v) = 0;
  /// Makes final the tentative tokens named by `path` (ascending indices among them), in that order; drops the others.
  virtual void commit(SeqId seq, std::span<const std::int32_t> path) = 0;
  /// Drops the last n committed tokens.
  virtual void truncate(SeqId seq, std::int64_t n) = 0;
  /// Valid until the next call that is not view().
  virtual KvView view(int layer, SeqId seq) = 0;
  /// What a GPU's kernels need in place of views. Valid as a view is. @throws Error for a store that is not made of slabs.
  virtual KvSlabs slabs(SeqId seq);
  /// Committed tokens.
  virtual std::int64_t length(SeqId seq) const = 0;
  virtual KvUsage usage() const = 0;
  virtual const KvFormat& format() const = 0;
};

/// Decodes one sequence's cache of one layer into k, v (S,G,D) fp32 of the host: works for every store and format.
PATCHBAY_API void gather(const KvView& view, const KvFormat& format, View<float, 3> k, View<float, 3> v);
/// The same for a cache that lies on `device`.
PATCHBAY_API void gather(const KvView& view, const KvFormat& format, View<float, 3> k, View<float, 3> v, Device& device);

}  // namespace patchbay

/// @file kv_rows.h
/// What every store and every reader of cached rows needs: where the rows of a run of tokens lie, and what a layout's bytes mean.
/// G key/value heads, D head size.
#pragma once
#include <unordered_map>

#include "patchbay/kv_store.h"

namespace patchbay {

/// Decodes one row as its layout says (any type but u8 and i32; times the scale when scaled): the plain definition.
PATCHBAY_API void decode_row(const KvLayout& layout, const std::byte* in, Half scale, View<float, 1> row);

/// The shape of a slab: the rows of up to `tokens` tokens of one layer, as four arrays one after the other, each aligned to 64
/// bytes: keys [G][tokens][row], values [G][tokens][row], key scales [G][tokens], value scales [G][tokens] (none if not scaled).
/// A contiguous cache is one slab per sequence and layer, a paged one has a slab per block and layer.
class PATCHBAY_API KvSlab {
 public:
  KvSlab() = default;
  KvSlab(const KvFormat& format, const KvSpec& spec, std::int64_t tokens);
  /// What a GPU's kernels need to know; slabs of one sequence's layers lie one after the other.
  KvSlabShape shape() const;

  /// Bytes of the slab, alignment included.
  std::int64_t bytes() const { return 2 * (rows_bytes_ + scales_bytes_); }
  /// Bytes that one token needs in one layer: keys, values and scales.
  std::int64_t bytes_per_token() const { return 2 * kv_heads_ * (row_bytes_ + scale_bytes_); }
  std::int64_t tokens() const { return tokens_; }

  /// Encodes k, v (G,D) into the place of token `at`. Only in host memory.
  void store(std::byte* slab, std::int64_t at, View<const float, 2> k, View<const float, 2> v) const;
  /// Copies a token, as it is stored, from one place to another; the slabs may be the same. They lie on the device, or on the host.
  void move(const std::byte* from_slab, std::int64_t from, std::byte* to_slab, std::int64_t to) const;
  void move(const std::byte* from_slab, std::int64_t from, std::byte* to_slab, std::int64_t to, std::int64_t count, Device& device) const;
  /// The slab's first `count` tokens, which are slots first .. first + count of a sequence.
  KvSegment segment(const std::byte* slab, std::int64_t first, std::int64_t count) const;

 private:
  const KvFormat* format_ = nullptr;
  std::int64_t kv_heads_ = 0, tokens_ = 0, row_bytes_ = 0, scale_bytes_ = 0;
  std::int64_t rows_bytes_ = 0, scales_bytes_ = 0;  ///< of the keys' array (the values' is as large), of the key scales'
};

/// Tokens of one sequence: those that are final, and those of the present step behind them.
struct CachedSequence {
  std::int64_t committed = 0, tentative = 0;
};
/// A store's open sequences. State is what the store keeps of each, derived from CachedSequence. References stay valid until
/// remove.
template <class State>
class SequenceTable {
 public:
  State& add(SeqId seq) {
    const auto [entry, added] = states_.try_emplace(seq);
    if (!added) throw Error("kv store", "sequence " + std::to_string(seq) + " is open already");
    return entry->second;
  }
  State& at(SeqId seq) {
    const auto entry = states_.find(seq);
    if (entry == states_.end()) throw Error("kv store", "sequence " + std::to_string(seq) + " is not open");
    return entry->second;
  }
  const State& at(SeqId seq) const { return const_cast<SequenceTable*>(this)->at(seq); }
  void remove(SeqId seq) { states_.erase(seq); }
  std::int64_t size() const { return static_cast<std::int64_t>(states_.size()); }
  auto begin() const { return states_.begin(); }
  auto end() const { return states_.end(); }

 private:
  std::unordered_map<SeqId, State> states_;
};

/// The rules every store shares. @throws Error for k or v that are not (n,G,D) with n tentative tokens,
/// a path that does not ascend among the tentative tokens, or more tokens to drop than there are.
PATCHBAY_API void check_rows(const CachedSequence& sequence, const KvSpec& spec, View<const float, 3> rows);
PATCHBAY_API void check_path(const CachedSequence& sequence, std::span<const std::int32_t> path);
PATCHBAY_API void check_truncate(const CachedSequence& sequence, std::int64_t n);

}  // namespace patchbay

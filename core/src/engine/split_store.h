/// @file split_store.h
/// One KV cache whose layers lie on several devices: a store for each, with the same sequences in all.
#pragma once
#include <vector>

#include "patchbay/kv_store.h"

namespace patchbay {

/// The stores are borrowed and configured by their owner; all hold the same number format. view() and slabs() are asked of the parts.
class SplitStore final : public KvStore {
 public:
  explicit SplitStore(std::vector<KvStore*> parts) : parts_(std::move(parts)) {}

  void configure(const KvSpec&, Device&) override { no_part("configure"); }
  void open(SeqId seq) override { for (KvStore* part : parts_) part->open(seq); }
  void fork(SeqId parent, SeqId child) override { for (KvStore* part : parts_) part->fork(parent, child); }
  void close(SeqId seq) override { for (KvStore* part : parts_) part->close(seq); }
  /// All or none.
  bool grow(SeqId seq, std::int64_t n) override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i]->grow(seq, n)) continue;
      for (std::size_t done = 0; done < i; ++done) parts_[done]->commit(seq, {});  // give back what was reserved
      return false;
    }
    return true;
  }
  void write(int, SeqId, TensorRef, TensorRef) override { no_part("write"); }
  void commit(SeqId seq, std::span<const std::int32_t> path) override { for (KvStore* part : parts_) part->commit(seq, path); }
  void truncate(SeqId seq, std::int64_t n) override { for (KvStore* part : parts_) part->truncate(seq, n); }
  KvView view(int, SeqId) override { no_part("view"); }
  std::int64_t length(SeqId seq) const override { return parts_.front()->length(seq); }
  KvUsage usage() const override {
    KvUsage all;
    for (const KvStore* part : parts_) {
      const KvUsage one = part->usage();
      all.bytes_reserved += one.bytes_reserved;
      all.bytes_used += one.bytes_used;
      all.bytes_per_token += one.bytes_per_token;
      all.blocks_total += one.blocks_total;
      all.blocks_free += one.blocks_free;
    }
    return all;
  }
  const KvFormat& format() const override { return parts_.front()->format(); }

 private:
  [[noreturn]] static void no_part(const char* call) { throw Error("kv_store", std::string(call) + " is asked of a cache in several parts"); }
  std::vector<KvStore*> parts_;
};

}  // namespace patchbay

// Paged KV store: memory in blocks of a few tokens, a table of blocks per sequence, blocks shared until one of the owners writes.
#include <algorithm>

#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

using BlockId = std::int32_t;

/// The blocks: one slab per layer each, taken from the device when first used and kept for reuse; on a GPU, where taking memory
/// takes time, all at once.
class BlockPool {
 public:
  BlockPool() = default;
  BlockPool(std::int64_t blocks, int layers, const KvSlab& slab, Device& device)
      : layers_(layers), slab_(slab), device_(&device), memory_(blocks), owners_(blocks, 0) {
    for (BlockId block = static_cast<BlockId>(blocks); block-- > 0;) free_.push_back(block);
    if (device.is_host()) return;
    parts_.push_back(device.allocate(blocks * layers_ * slab_.bytes()));
    for (std::int64_t block = 0; block < blocks; ++block) memory_[block] = parts_.back().data() + block * layers_ * slab_.bytes();
    touched_ = blocks;
  }

  std::int64_t total() const { return static_cast<std::int64_t>(memory_.size()); }
  std::int64_t free() const { return static_cast<std::int64_t>(free_.size()); }
  std::int64_t bytes() const { return touched_ * layers_ * slab_.bytes(); }
  bool shared(BlockId block) const { return owners_[block] > 1; }
  std::byte* slab(BlockId block, int layer) const { return memory_[block] + layer * slab_.bytes(); }
  Device& device() const { return *device_; }

  /// A block of one's own. The caller has seen that one is free.
  BlockId take() {
    const BlockId block = free_.back();
    if (!memory_[block]) {
      parts_.push_back(device_->allocate(layers_ * slab_.bytes()));
      memory_[block] = parts_.back().data();
      ++touched_;
    }
    free_.pop_back();
    owners_[block] = 1;
    return block;
  }
  void share(BlockId block) { ++owners_[block]; }
  void release(BlockId block) {
    if (--owners_[block] == 0) free_.push_back(block);
  }

 private:
  std::int64_t layers_ = 0, touched_ = 0;
  KvSlab slab_;
  Device* device_ = nullptr;
  std::vector<std::byte*> memory_;    ///< of each block; null: not taken yet
  std::vector<Buffer> parts_;         ///< what owns it
  std::vector<std::int32_t> owners_;  ///< sequences whose tables name the block
  std::vector<BlockId> free_;         ///< the last one freed is the next one taken: its memory is there already
};

class Paged final : public KvStore {
 public:
  struct Params {
    PluginSpec format{"fp16", nullptr};
    int block_size = 16;
    std::int64_t blocks = 0;
    void visit(Fields& f) {
      f.plugin("format", format, "kv_formats", {"how cached rows are stored"});
      f.integer("block_size", block_size, 1, 4096, {"tokens in one block", "token"});
      f.integer("blocks", blocks, 0, 1 << 20, {"blocks in the pool; 0: enough for every sequence at its longest"});
    }
  };
  explicit Paged(const Params& params)
      : format_(make<KvFormat>(params.format)), block_size_(params.block_size), blocks_(params.blocks) {}

  void configure(const KvSpec& spec, Device& device) override {
    spec_ = spec;
    slab_ = KvSlab(*format_, spec, block_size_);
    const std::int64_t blocks = blocks_ > 0 ? blocks_ : spec.max_sequences * blocks_for(spec.max_tokens);
    pool_ = BlockPool(blocks, spec.layers, slab_, device);
  }

  void open(SeqId seq) override { sequences_.add(seq).segments.resize(spec_.layers); }

  void fork(SeqId parent, SeqId child) override {
    const Sequence& from = sequences_.at(parent);
    Sequence& to = sequences_.add(child);
    to.segments.resize(spec_.layers);
    to.committed = from.committed;
    to.table.assign(from.table.begin(), from.table.begin() + blocks_for(from.committed));
    for (const BlockId block : to.table) pool_.share(block);
  }

  void close(SeqId seq) override {
    shrink(sequences_.at(seq), 0);
    sequences_.remove(seq);
  }

  bool grow(SeqId seq, std::int64_t n) override {
    Sequence& sequence = sequences_.at(seq);
    const std::int64_t tokens = sequence.committed + n, tail = sequence.committed / block_size_;
    if (tokens > spec_.max_tokens) return false;
    const std::int64_t have = static_cast<std::int64_t>(sequence.table.size());
    const bool copy_tail = n > 0 && sequence.committed % block_size_ != 0 && pool_.shared(sequence.table[tail]);
    if (std::max<std::int64_t>(blocks_for(tokens) - have, 0) + copy_tail > pool_.free()) return false;
    if (copy_tail) own(sequence, tail);
    while (static_cast<std::int64_t>(sequence.table.size()) < blocks_for(tokens)) sequence.table.push_back(pool_.take());
    shrink(sequence, tokens);  // an earlier, larger growth that was never committed
    sequence.tentative = n;
    return true;
  }

  void write(int layer, SeqId seq, TensorRef k, TensorRef v) override {
    const Sequence& sequence = sequences_.at(seq);
    const auto keys = k.as<const float, 3>(), values = v.as<const float, 3>();
    check_rows(sequence, spec_, keys);
    check_rows(sequence, spec_, values);
    for (std::int64_t t = 0; t < sequence.tentative; ++t) {
      const std::int64_t slot = sequence.committed + t;
      slab_.store(slab_of(sequence, slot, layer), slot % block_size_, keys[t], values[t]);
    }
  }

  void commit(SeqId seq, std::span<const std::int32_t> path) override {
    Sequence& sequence = sequences_.at(seq);
    check_path(sequence, path);
    for (std::size_t i = 0; i < path.size(); ++i) {
      const std::int64_t from = sequence.committed + path[i], to = sequence.committed + static_cast<std::int64_t>(i);
      if (from == to) continue;
      for (int layer = 0; layer < spec_.layers; ++layer) {
        slab_.move(slab_of(sequence, from, layer), from % block_size_, slab_of(sequence, to, layer), to % block_size_, 1,
                   pool_.device());
      }
    }
    sequence.committed += static_cast<std::int64_t>(path.size());
    sequence.tentative = 0;
    shrink(sequence, sequence.committed);
  }

  void truncate(SeqId seq, std::int64_t n) override {
    Sequence& sequence = sequences_.at(seq);
    check_truncate(sequence, n);
    sequence.committed -= n;
    sequence.tentative = 0;
    shrink(sequence, sequence.committed);
  }

  KvView view(int layer, SeqId seq) override {
    Sequence& sequence = sequences_.at(seq);
    std::vector<KvSegment>& segments = sequence.segments[layer];
    segments.clear();
    const std::int64_t length = sequence.committed + sequence.tentative;
    for (std::int64_t first = 0; first < length; first += block_size_) {
      const std::int64_t count = std::min<std::int64_t>(block_size_, length - first);
      segments.push_back(slab_.segment(slab_of(sequence, first, layer), first, count));
    }
    return {format_->layout(), segments, length};
  }

  KvSlabs slabs(SeqId seq) override {
    Sequence& sequence = sequences_.at(seq);
    sequence.slabs.clear();
    for (const BlockId block : sequence.table) sequence.slabs.push_back(pool_.slab(block, 0));
    return {slab_.shape(), sequence.slabs};
  }

  std::int64_t length(SeqId seq) const override { return sequences_.at(seq).committed; }

  KvUsage usage() const override {
    std::vector<std::int64_t> filled(pool_.total(), 0);  // tokens per block; sharers may differ in how far they reach
    for (const auto& [id, sequence] : sequences_) {
      for (std::int64_t i = 0; i < blocks_for(sequence.committed); ++i) {
        const std::int64_t tokens = std::min<std::int64_t>(block_size_, sequence.committed - i * block_size_);
        filled[sequence.table[i]] = std::max(filled[sequence.table[i]], tokens);
      }
    }
    KvUsage usage;
    usage.bytes_reserved = pool_.bytes();
    usage.bytes_per_token = spec_.layers * slab_.bytes_per_token();
    for (const std::int64_t tokens : filled) usage.bytes_used += tokens * usage.bytes_per_token;
    usage.blocks_total = pool_.total();
    usage.blocks_free = pool_.free();
    return usage;
  }

  const KvFormat& format() const override { return *format_; }

 private:
  struct Sequence : CachedSequence {
    std::vector<BlockId> table;                    ///< slot s lies in block table[s / block_size]
    std::vector<std::vector<KvSegment>> segments;  ///< per layer, behind the views that were handed out
    std::vector<std::byte*> slabs;                 ///< likewise, behind slabs()
  };

  std::int64_t blocks_for(std::int64_t tokens) const { return (tokens + block_size_ - 1) / block_size_; }  // (P1)

  std::byte* slab_of(const Sequence& sequence, std::int64_t slot, int layer) const {
    return pool_.slab(sequence.table[slot / block_size_], layer);
  }

  /// Copy on write: puts a block of the sequence's own in the place of a shared one.
  void own(Sequence& sequence, std::int64_t index) {
    const BlockId shared = sequence.table[index], copy = pool_.take();
    const std::int64_t tokens = std::min<std::int64_t>(block_size_, sequence.committed - index * block_size_);
    for (int layer = 0; layer < spec_.layers; ++layer) {
      slab_.move(pool_.slab(shared, layer), 0, pool_.slab(copy, layer), 0, tokens, pool_.device());
    }
    sequence.table[index] = copy;
    pool_.release(shared);
  }

  /// Gives back the blocks that `tokens` tokens do not need.
  void shrink(Sequence& sequence, std::int64_t tokens) {
    while (static_cast<std::int64_t>(sequence.table.size()) > blocks_for(tokens)) {
      pool_.release(sequence.table.back());
      sequence.table.pop_back();
    }
  }

  std::shared_ptr<KvFormat> format_;
  std::int64_t block_size_, blocks_;
  KvSpec spec_;
  KvSlab slab_;
  BlockPool pool_;
  SequenceTable<Sequence> sequences_;
};

}  // namespace

PATCHBAY_PLUGIN(KvStore, Paged, "paged", "memory in blocks, a table per sequence, shared blocks copied when written",
                "Kwon et al. 2023, Efficient Memory Management for Large Language Model Serving with PagedAttention")

}  // namespace patchbay

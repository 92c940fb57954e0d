// Contiguous KV store: each sequence owns room for the longest one from the start, in one run of memory per layer.
#include <cstring>

#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class Contiguous final : public KvStore {
 public:
  struct Params {
    PluginSpec format{"fp16", nullptr};
    void visit(Fields& f) { f.plugin("format", format, "kv_formats", {"how cached rows are stored"}); }
  };
  explicit Contiguous(const Params& params) : format_(make<KvFormat>(params.format)) {}

  void configure(const KvSpec& spec, Device& device) override {
    spec_ = spec;
    device_ = &device;
    slab_ = KvSlab(*format_, spec, spec.max_tokens);
    memory_ = device.allocate(spec.max_sequences * spec.layers * slab_.bytes());  // (C1)
    for (int place = spec.max_sequences; place-- > 0;) free_places_.push_back(place);
  }

  void open(SeqId seq) override { add(seq); }

  void fork(SeqId parent, SeqId child) override {
    const Sequence& from = sequences_.at(parent);
    Sequence& to = add(child);
    to.committed = from.committed;
    if (from.committed == 0) return;
    for (int layer = 0; layer < spec_.layers; ++layer) {
      slab_.move(slab(from, layer), 0, slab(to, layer), 0, from.committed, *device_);
    }
  }

  void close(SeqId seq) override {
    free_places_.push_back(sequences_.at(seq).place);
    sequences_.remove(seq);
  }

  bool grow(SeqId seq, std::int64_t n) override {
    Sequence& sequence = sequences_.at(seq);
    if (sequence.committed + n > spec_.max_tokens) return false;
    sequence.tentative = n;
    return true;
  }

  void write(int layer, SeqId seq, TensorRef k, TensorRef v) override {
    const Sequence& sequence = sequences_.at(seq);
    const auto keys = k.as<const float, 3>(), values = v.as<const float, 3>();
    check_rows(sequence, spec_, keys);
    check_rows(sequence, spec_, values);
    for (std::int64_t t = 0; t < sequence.tentative; ++t) {
      slab_.store(slab(sequence, layer), sequence.committed + t, keys[t], values[t]);
    }
  }

  void commit(SeqId seq, std::span<const std::int32_t> path) override {
    Sequence& sequence = sequences_.at(seq);
    check_path(sequence, path);
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] == static_cast<std::int32_t>(i)) continue;  // a prefix of the draft lies where it should
      for (int layer = 0; layer < spec_.layers; ++layer) {
        slab_.move(slab(sequence, layer), sequence.committed + path[i], slab(sequence, layer), sequence.committed + i, 1, *device_);
      }
    }
    sequence.committed += static_cast<std::int64_t>(path.size());
    sequence.tentative = 0;
  }

  void truncate(SeqId seq, std::int64_t n) override {
    Sequence& sequence = sequences_.at(seq);
    check_truncate(sequence, n);
    sequence.committed -= n;
    sequence.tentative = 0;
  }

  KvView view(int layer, SeqId seq) override {
    Sequence& sequence = sequences_.at(seq);
    const std::int64_t length = sequence.committed + sequence.tentative;
    KvSegment& segment = sequence.segments[layer];
    segment = slab_.segment(slab(sequence, layer), 0, length);
    return {format_->layout(), std::span<const KvSegment>(&segment, length > 0 ? 1 : 0), length};
  }

  KvSlabs slabs(SeqId seq) override { return {slab_.shape(), std::span<std::byte* const>(&sequences_.at(seq).slab, 1)}; }

  std::int64_t length(SeqId seq) const override { return sequences_.at(seq).committed; }

  KvUsage usage() const override {
    KvUsage usage;
    usage.bytes_reserved = memory_.size();
    usage.bytes_per_token = spec_.layers * slab_.bytes_per_token();
    for (const auto& [id, sequence] : sequences_) usage.bytes_used += sequence.committed * usage.bytes_per_token;
    return usage;
  }

  const KvFormat& format() const override { return *format_; }

 private:
  struct Sequence : CachedSequence {
    int place = 0;                    ///< which of the max_sequences regions
    std::byte* slab = nullptr;        ///< its first layer's
    std::vector<KvSegment> segments;  ///< one per layer, behind the views that were handed out
  };

  Sequence& add(SeqId seq) {
    if (free_places_.empty()) {
      throw Error("kv_store contiguous", std::to_string(sequences_.size()) + " sequences are open and each place is taken",
                  std::to_string(spec_.max_sequences) + " at once", "close one first, or reserve room for more");
    }
    Sequence& sequence = sequences_.add(seq);
    sequence.place = free_places_.back();
    free_places_.pop_back();
    sequence.slab = slab(sequence, 0);
    sequence.segments.resize(spec_.layers);
    return sequence;
  }

  std::byte* slab(const Sequence& sequence, int layer) const {
    return memory_.data() + (std::int64_t{sequence.place} * spec_.layers + layer) * slab_.bytes();
  }

  std::shared_ptr<KvFormat> format_;
  KvSpec spec_;
  Device* device_ = nullptr;
  KvSlab slab_;
  Buffer memory_;
  std::vector<int> free_places_;
  SequenceTable<Sequence> sequences_;
};

}  // namespace

PATCHBAY_PLUGIN(KvStore, Contiguous, "contiguous", "each sequence reserves room for the longest one, in one run of memory", "")

}  // namespace patchbay

// growing: each sequence owns one run of memory, which is replaced by one twice as large when it is full. Formulas: README.md.
#include <algorithm>
#include <cstring>

#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class Growing final : public KvStore {
 public:
  struct Params {
    PluginSpec format{"fp16", nullptr};
    void visit(Fields& f) { f.plugin("format", format, "kv_formats", {"how cached rows are stored"}); }
  };
  explicit Growing(const Params& params) : format_(make<KvFormat>(params.format)) {}

  void configure(const KvSpec& spec, Device& device) override {
    spec_ = spec;
    device_ = &device;
  }

  void open(SeqId seq) override { add(seq); }

  void fork(SeqId parent, SeqId child) override {
    const Sequence& from = sequences_.at(parent);
    Sequence& to = add(child);
    reserve(to, from.committed);
    move_tokens(from, to, from.committed);
    to.committed = from.committed;
  }

  void close(SeqId seq) override {
    sequences_.at(seq);  // an error where it is not open
    sequences_.remove(seq);
  }

  bool grow(SeqId seq, std::int64_t n) override {
    Sequence& sequence = sequences_.at(seq);
    if (sequence.committed + n > spec_.max_tokens) return false;
    reserve(sequence, sequence.committed + n);
    sequence.tentative = n;
    return true;
  }

  void write(int layer, SeqId seq, TensorRef k, TensorRef v) override {
    const Sequence& sequence = sequences_.at(seq);
    const auto keys = k.as<const float, 3>(), values = v.as<const float, 3>();
    check_rows(sequence, spec_, keys);
    check_rows(sequence, spec_, values);
    for (std::int64_t t = 0; t < sequence.tentative; ++t) {
      sequence.slab.store(slab(sequence, layer), sequence.committed + t, keys[t], values[t]);
    }
  }

  void commit(SeqId seq, std::span<const std::int32_t> path) override {
    Sequence& sequence = sequences_.at(seq);
    check_path(sequence, path);
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] == static_cast<std::int32_t>(i)) continue;  // a prefix of the draft lies where it should
      for (int layer = 0; layer < spec_.layers; ++layer) {
        sequence.slab.move(slab(sequence, layer), sequence.committed + path[i], slab(sequence, layer), sequence.committed + i);
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
    segment = sequence.slab.segment(slab(sequence, layer), 0, length);
    return {format_->layout(), std::span<const KvSegment>(&segment, length > 0 ? 1 : 0), length};
  }

  std::int64_t length(SeqId seq) const override { return sequences_.at(seq).committed; }

  KvUsage usage() const override {
    KvUsage usage;
    usage.bytes_per_token = spec_.layers * KvSlab(*format_, spec_, 1).bytes_per_token();
    for (const auto& [id, sequence] : sequences_) {
      usage.bytes_reserved += sequence.memory.size();
      usage.bytes_used += sequence.committed * usage.bytes_per_token;
    }
    return usage;
  }

  const KvFormat& format() const override { return *format_; }

 private:
  struct Sequence : CachedSequence {
    KvSlab slab;                      ///< of as many tokens as there is room for
    Buffer memory;                    ///< a slab per layer
    std::vector<KvSegment> segments;  ///< one per layer, behind the views that were handed out
  };

  Sequence& add(SeqId seq) {
    if (sequences_.size() == spec_.max_sequences) {
      throw Error("kv_store growing", std::to_string(sequences_.size()) + " sequences are open and each place is taken",
                  std::to_string(spec_.max_sequences) + " at once", "close one first, or reserve room for more");
    }
    Sequence& sequence = sequences_.add(seq);
    sequence.segments.resize(spec_.layers);
    return sequence;
  }

  /// Room for n tokens: at least twice what there was, so that each token is moved once or twice in its life. (G1)
  void reserve(Sequence& sequence, std::int64_t n) {
    const std::int64_t room = sequence.slab.tokens();
    if (n <= room) return;
    Sequence larger;
    larger.slab = KvSlab(*format_, spec_, std::min(spec_.max_tokens, std::max(n, 2 * room)));
    larger.memory = device_->allocate(spec_.layers * larger.slab.bytes());
    move_tokens(sequence, larger, sequence.committed);
    sequence.slab = larger.slab;
    sequence.memory = std::move(larger.memory);
  }

  /// Copies n tokens as they are stored. KvSlab::move serves slabs of one shape; here the heads lie apart differently.
  void move_tokens(const Sequence& from, Sequence& to, std::int64_t n) const {
    for (int layer = 0; layer < spec_.layers && n > 0; ++layer) {
      const KvSegment old = from.slab.segment(slab(from, layer), 0, n), made = to.slab.segment(slab(to, layer), 0, n);
      for (int g = 0; g < spec_.kv_heads; ++g) {
        for (std::int64_t t = 0; t < n; ++t) {
          const std::int64_t source = t * old.token_stride + g * old.head_stride, target = t * made.token_stride + g * made.head_stride;
          const std::size_t row = format_->row_bytes(spec_.head_size);
          std::memcpy(const_cast<std::byte*>(made.k) + target, old.k + source, row);
          std::memcpy(const_cast<std::byte*>(made.v) + target, old.v + source, row);
          if (old.k_scales == nullptr) continue;
          const std::int64_t from_scale = t * old.scale_token_stride + g * old.scale_head_stride;
          const std::int64_t to_scale = t * made.scale_token_stride + g * made.scale_head_stride;
          const_cast<Half*>(made.k_scales)[to_scale] = old.k_scales[from_scale];
          const_cast<Half*>(made.v_scales)[to_scale] = old.v_scales[from_scale];
        }
      }
    }
  }

  std::byte* slab(const Sequence& sequence, int layer) const { return sequence.memory.data() + layer * sequence.slab.bytes(); }

  std::shared_ptr<KvFormat> format_;
  KvSpec spec_;
  Device* device_ = nullptr;
  SequenceTable<Sequence> sequences_;
};

}  // namespace

PATCHBAY_PLUGIN(KvStore, Growing, "growing",
                "each sequence in one run of memory that doubles as the text grows", "")

}  // namespace patchbay

// Flash attention: the softmax is computed tile by tile of keys and values, so that no row of scores is ever whole in memory.
#include "flash.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "patchbay/attention.h"
#include "patchbay/half.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

using flash::kAlignment, flash::kRowGroup, flash::kTile, flash::TileKernels;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kQueryRows = 96;        // query rows (positions x heads of a group) that share one decoded tile
constexpr std::int64_t kSerialWork = 1 << 18;  // multiply-adds below which waking other threads costs more than it saves

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}
bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

constexpr KernelInfo kKernels[] = {
    {"plain", "cpu", "both", "4 floats at a time, as any machine can: the definition"},
    {"avx2", "cpu", "both", "8 floats per instruction, fused multiply-add, halves decoded by the processor", has_avx2},
    {"avx512", "cpu", "both", "16 floats per instruction: half the instructions", has_avx512},
};

const TileKernels& kernels_named(std::string_view name) {
  return name == "avx512" ? flash::kAvx512 : name == "avx2" ? flash::kAvx2 : flash::kPlain;
}

std::int64_t aligned(std::int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

/// One piece of work: some positions of a sequence, with all query heads of one key/value head.
struct Item {
  std::int64_t sequence = 0, kv_head = 0, first_row = 0, rows = 0;
};

/// A worker's memory, in floats. Rows are (position, head of the group), position first.
struct Scratch {
  float *q, *output, *maximum, *sum, *scores, *k_rows, *k_columns, *v;
  std::int64_t stride = 0;  ///< of rows of q, output, k_rows and v

  static std::int64_t size(std::int64_t rows, std::int64_t d) {
    return 2 * rows * aligned(d) + 2 * aligned(rows) + kRowGroup * kTile + 3 * kTile * aligned(d);
  }
  Scratch(float* memory, std::int64_t rows, std::int64_t d) : stride(aligned(d)) {
    const auto take = [&](std::int64_t floats) { return std::exchange(memory, memory + floats); };
    q = take(rows * stride);
    output = take(rows * stride);
    maximum = take(aligned(rows));
    sum = take(aligned(rows));
    scores = take(kRowGroup * kTile);
    k_rows = take(kTile * stride);
    k_columns = take(kTile * stride);
    v = take(kTile * stride);
  }
};

/// The slots that a row may see: all of [begin, end), but for the branches of a tree that are not its own.
struct Visible {
  std::int64_t begin = 0, end = 0;
};
Visible visible(const AttentionSpec& spec, const StepSequence& sequence, std::int64_t row) {
  const std::int64_t slot = sequence.committed + row;
  return {spec.window > 0 ? std::max<std::int64_t>(0, slot - spec.window + 1) : 0,
          sequence.tree.empty() ? slot + 1 : sequence.committed + sequence.rows};
}

/// Masks the scores of one row in the tile at `first`.
void mask(const StepSequence& sequence, std::int64_t row, Visible range, std::int64_t first, float* scores) {
  const std::int64_t begin = std::clamp<std::int64_t>(range.begin - first, 0, kTile);
  const std::int64_t end = std::clamp<std::int64_t>(range.end - first, 0, kTile);
  std::fill(scores, scores + begin, -kInfinity);
  std::fill(scores + end, scores + kTile, -kInfinity);
  if (sequence.tree.empty()) return;
  for (std::int64_t t = std::max<std::int64_t>(begin, sequence.committed - first); t < end; ++t) {
    if (!sequence.sees(row, first + t - sequence.committed)) scores[t] = -kInfinity;
  }
}

/// Decodes the slots [first, first + count) of one head: keys transposed to (D, kTile), values (kTile, D). The rest of the tile
/// keeps what was there: its scores are masked and its values not read.
void load_tile(const TileKernels& kernels, const KvView& view, std::int64_t kv_head, std::int64_t first, std::int64_t count,
               std::int64_t d, const Scratch& scratch) {
  auto segment = std::partition_point(view.segments.begin(), view.segments.end(),
                                      [&](const KvSegment& s) { return s.first + s.count <= first; });
  for (std::int64_t t = 0; t < count; ++t) {
    while (first + t >= segment->first + segment->count) ++segment;
    const std::int64_t token = first + t - segment->first;
    const std::int64_t row = token * segment->token_stride + kv_head * segment->head_stride;
    const std::int64_t scale = token * segment->scale_token_stride + kv_head * segment->scale_head_stride;
    const float k_scale = view.layout.scaled ? to_float(segment->k_scales[scale]) : 1.0f;
    const float v_scale = view.layout.scaled ? to_float(segment->v_scales[scale]) : 1.0f;
    kernels.decode(view.layout.dtype, segment->k + row, k_scale, d, scratch.k_rows + t * scratch.stride);
    kernels.decode(view.layout.dtype, segment->v + row, v_scale, d, scratch.v + t * scratch.stride);
  }
  kernels.transpose(scratch.k_rows, scratch.stride, (count + 7) / 8 * 8, d, scratch.k_columns);
}

class Flash final : public Attention {
 public:
  struct Params {
    KernelChoice kernel;
    void visit(Fields& f) { f.kernel("kernel", kernel, kKernels, {"instruction set of the tile operations"}); }
  };
  explicit Flash(const Params& params)
      : prefill_(pick_kernel(params.kernel.prefill, kKernels, "flash", "prefill").name),
        decode_(pick_kernel(params.kernel.decode, kKernels, "flash", "decode").name) {}

  bool reads(const KvLayout& layout) const override {
    return layout == KvLayout{DType::f32, false} || layout == KvLayout{DType::f16, false} || layout == KvLayout{DType::i8, true};
  }

  void run(const AttentionSpec& spec, std::span<const StepSequence> sequences, std::span<const KvView> views, TensorRef q,
           TensorRef out, Device& device) override {
    const auto queries = q.as<const float, 3>();
    const auto outputs = out.as<float, 3>();
    const std::int64_t work = plan(spec, sequences, views);
    const std::int64_t rows = std::max<std::int64_t>(kQueryRows, spec.heads / spec.kv_heads);
    const std::int64_t size = Scratch::size(rows, spec.head_size);
    const std::int64_t bytes = size * device.concurrency() * bytes_of(DType::f32);
    if (memory_.size() < bytes) memory_ = device.allocate(bytes);
    const std::int64_t items = static_cast<std::int64_t>(items_.size());
    device.parallel_for(items, work < kSerialWork ? items : 1, [&](std::int64_t begin, std::int64_t end, int worker) {
      const Scratch scratch(reinterpret_cast<float*>(memory_.data()) + worker * size, rows, spec.head_size);
      for (std::int64_t i = begin; i < end; ++i) {
        const Item& item = items_[i];
        attend(spec, sequences[item.sequence], views[item.sequence], item, queries, outputs, scratch);
      }
    });
  }

  std::string path() const override {
    std::string text = "flash:";
    text += prefill_;
    return prefill_ == decode_ ? text : text.append("+").append(decode_);
  }

 private:
  /// Cuts the step into items, long ones first; returns its multiply-adds.
  std::int64_t plan(const AttentionSpec& spec, std::span<const StepSequence> sequences, std::span<const KvView> views) {
    const std::int64_t step = std::max<std::int64_t>(1, kQueryRows / (spec.heads / spec.kv_heads));
    items_.clear();
    std::int64_t work = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (!reads(views[i].layout)) throw Error("attention flash", "cannot read this cache's layout", "f32, f16, i8 with scales");
      work += 2 * sequences[i].rows * views[i].length * spec.heads * spec.head_size;
      for (std::int64_t end = sequences[i].rows; end > 0; end -= std::min(end, step)) {
        const std::int64_t begin = std::max<std::int64_t>(0, end - step);
        for (std::int64_t g = 0; g < spec.kv_heads; ++g) items_.push_back({static_cast<std::int64_t>(i), g, begin, end - begin});
      }
    }
    return work;
  }

  void attend(const AttentionSpec& spec, const StepSequence& sequence, const KvView& view, const Item& item,
              View<const float, 3> queries, View<float, 3> outputs, const Scratch& scratch) const {
    const TileKernels& kernels = kernels_named(sequence.rows == 1 ? decode_ : prefill_);
    const std::int64_t group = spec.heads / spec.kv_heads, rows = item.rows * group;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto query = queries[sequence.first_row + item.first_row + r / group][item.kv_head * group + r % group];
      for (std::int64_t d = 0; d < spec.head_size; ++d) scratch.q[r * scratch.stride + d] = query[d] * spec.scale;
    }
    std::fill_n(scratch.output, rows * scratch.stride, 0.0f);
    std::fill_n(scratch.maximum, rows, -kInfinity);
    std::fill_n(scratch.sum, rows, 0.0f);

    const std::int64_t begin = visible(spec, sequence, item.first_row).begin;
    const std::int64_t end = visible(spec, sequence, item.first_row + item.rows - 1).end;
    for (std::int64_t first = begin / kTile * kTile; first < end; first += kTile) {
      load_tile(kernels, view, item.kv_head, first, std::min(kTile, end - first), spec.head_size, scratch);
      for (std::int64_t r = 0; r < rows; r += kRowGroup) {
        take_tile(kernels, spec, sequence, item, first, r, std::min(kRowGroup, rows - r), scratch);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto output = outputs[sequence.first_row + item.first_row + r / group][item.kv_head * group + r % group];
      const float factor = scratch.sum[r] == 0.0f ? 0.0f : 1.0f / scratch.sum[r];  // a row that saw nothing: zeros
      for (std::int64_t d = 0; d < spec.head_size; ++d) output[d] = scratch.output[r * scratch.stride + d] * factor;  // (F6)
    }
  }

  /// The tile at slot `first` for `rows` rows from row `r` of the item. Slots that none of them sees are not computed; a slot
  /// that only some see has weight 0 in the others, which changes no bit of their sums.
  void take_tile(const TileKernels& kernels, const AttentionSpec& spec, const StepSequence& sequence, const Item& item,
                 std::int64_t first, std::int64_t r, std::int64_t rows, const Scratch& scratch) const {
    const std::int64_t group = spec.heads / spec.kv_heads, cols = round_up(spec.head_size, kernels.columns);
    const auto position = [&](std::int64_t row) { return item.first_row + row / group; };
    const std::int64_t begin = std::max<std::int64_t>(0, visible(spec, sequence, position(r)).begin - first);
    const std::int64_t end = std::min(kTile, visible(spec, sequence, position(r + rows - 1)).end - first);
    if (begin >= end) return;
    float* const scores = scratch.scores;
    float* const output = scratch.output + r * scratch.stride;
    std::fill_n(scores, rows * kTile, 0.0f);
    kernels.multiply_add(scratch.q + r * scratch.stride, scratch.stride, scratch.k_columns, kTile, scores, kTile, rows,
                         spec.head_size, round_up(end, kernels.columns));  // (F1)
    for (std::int64_t i = 0; i < rows; ++i) {
      float* const row_scores = scores + i * kTile;
      kernels.finish_scores(row_scores, spec.soft_cap);
      mask(sequence, position(r + i), visible(spec, sequence, position(r + i)), first, row_scores);
      kernels.softmax_step(row_scores, scratch.maximum[r + i], scratch.sum[r + i], output + i * scratch.stride, cols);
    }
    kernels.multiply_add(scores + begin, kTile, scratch.v + begin * scratch.stride, scratch.stride, output, scratch.stride, rows,
                         end - begin, cols);  // (F4), its second half
  }

  static std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

  std::string_view prefill_, decode_;
  std::vector<Item> items_;  ///< of this step; kept for its memory
  Buffer memory_;            ///< one Scratch per worker
};

}  // namespace

PATCHBAY_PLUGIN(Attention, Flash, "flash", "softmax computed online over tiles of keys and values, shared by heads and rows",
                "Dao et al. 2022, FlashAttention; Milakov and Gimelshein 2018, Online normalizer calculation for softmax")

}  // namespace patchbay

// Attention by its definition: all scores of a row, their softmax, the weighted mean of the values. Other attentions equal this.
#include <algorithm>
#include <cmath>
#include <limits>

#include "naive_gpu.h"
#include "patchbay/attention.h"
#include "patchbay/gpu_device.h"
#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

/// One sequence's cache in fp32, (S,G,D) each.
struct Cache {
  View<float, 3> k, v;
};

void decode_cache(const KvView& view, Cache& cache) {
  for (const KvSegment& segment : view.segments) {
    for (std::int64_t t = 0; t < segment.count; ++t) {
      for (std::int64_t g = 0; g < cache.k.shape[1]; ++g) {
        const std::int64_t row = t * segment.token_stride + g * segment.head_stride;
        const std::int64_t scale = t * segment.scale_token_stride + g * segment.scale_head_stride;
        decode_row(view.layout, segment.k + row, segment.k_scales ? segment.k_scales[scale] : Half{},
                   cache.k[segment.first + t][g]);
        decode_row(view.layout, segment.v + row, segment.v_scales ? segment.v_scales[scale] : Half{},
                   cache.v[segment.first + t][g]);
      }
    }
  }
}

/// Whether a row sees a slot of its sequence. The window counts positions: those of a tree's branches are not its slots.
bool visible(const AttentionSpec& spec, const StepSequence& sequence, std::int64_t row, std::int64_t slot) {
  const std::int64_t tentative = slot - sequence.committed;
  if (tentative >= 0 && !sequence.sees(row, tentative)) return false;
  if (spec.window == 0) return true;
  return (tentative < 0 ? tentative : sequence.depth(tentative)) > sequence.depth(row) - spec.window;
}

/// (N1), (N2): q k^T * scale, capped. Kept finite, so that no difference of two scores is inf - inf.
float score(const AttentionSpec& spec, View<const float, 1> q, View<const float, 1> k) {
  double sum = 0;
  for (std::int64_t d = 0; d < q.shape[0]; ++d) sum += double{q[d]} * k[d];
  float s = static_cast<float>(sum * spec.scale);
  if (spec.soft_cap > 0) s = spec.soft_cap * std::tanh(s / spec.soft_cap);
  return std::clamp(s, -kLargest, kLargest);
}

/// One query head of one row: out(D).
void attend(const AttentionSpec& spec, const StepSequence& sequence, std::int64_t row, std::int64_t kv_head, const Cache& cache,
            View<const float, 1> q, View<float, 1> out, std::vector<float>& scores, std::vector<double>& sums) {
  const std::int64_t slots = cache.k.shape[0];
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    if (!visible(spec, sequence, row, slot)) continue;
    scores[slot] = score(spec, q, cache.k[slot][kv_head]);
    largest = std::max(largest, scores[slot]);
  }
  double weights = 0;
  std::fill(sums.begin(), sums.end(), 0.0);
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    if (!visible(spec, sequence, row, slot)) continue;
    const double weight = std::exp(double{scores[slot]} - largest);  // (N3)
    weights += weight;
    for (std::int64_t d = 0; d < out.shape[0]; ++d) sums[d] += weight * cache.v(slot, kv_head, d);
  }
  // (N4). The largest score has weight 1, so weights is 0 only for a row that sees nothing: zeros by definition.
  for (std::int64_t d = 0; d < out.shape[0]; ++d) out[d] = weights > 0 ? static_cast<float>(sums[d] / weights) : 0.0f;
}

constexpr KernelInfo kKernels[] = {
    {"plain", "cpu", "both", "two loops over the slots, sums in double: the definition"},
    {"block", "cuda", "both", "a block of 64 threads per row and query head, its scores in shared memory: the definition"},
};

class Naive final : public Attention {
 public:
  struct Params {
    KernelChoice kernel;
    void visit(Fields& f) { f.kernel("kernel", kernel, kKernels, {"where it is computed: one kernel per backend, since it is the definition"}); }
  };
  explicit Naive(const Params& params) : asked_(params.kernel) {}

  void prepare(Device& device) override {
    on_host_ = device.is_host();
    for (const auto& [phase, asked] : {std::pair{"prefill", asked_.prefill}, std::pair{"decode", asked_.decode}})
      kernel_ = pick_kernel(asked, kKernels, "naive", phase, on_host_ ? "cpu" : "cuda").name;
  }

  bool reads(const KvLayout& layout) const override { return layout.dtype != DType::u8 && layout.dtype != DType::i32; }

  void run(const AttentionSpec& spec, std::span<const StepSequence> sequences, std::span<const KvView> views, TensorRef q,
           TensorRef out, Device& device) override {
    const auto queries = q.as<const float, 3>();
    const auto outputs = out.as<float, 3>();
    const std::int64_t group = spec.heads / spec.kv_heads;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const StepSequence& sequence = sequences[i];
      const std::int64_t slots = views[i].length, size = slots * spec.kv_heads * spec.head_size;
      decoded_.resize(std::max<std::size_t>(decoded_.size(), 2 * size));
      Cache cache{View<float, 3>(decoded_.data(), {slots, spec.kv_heads, spec.head_size}),
                  View<float, 3>(decoded_.data() + size, {slots, spec.kv_heads, spec.head_size})};
      decode_cache(views[i], cache);
      device.parallel_for(sequence.rows * spec.heads, 1, [&](std::int64_t begin, std::int64_t end, int) {
        std::vector<float> scores(slots);
        std::vector<double> sums(spec.head_size);
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t row = item / spec.heads, head = item % spec.heads, at = sequence.first_row + row;
          attend(spec, sequence, row, head / group, cache, queries[at][head], outputs[at][head], scores, sums);
        }
      });
    }
  }

  void run_on_gpu(const AttentionSpec& spec, const GpuStep& step, int layer, TensorRef q, TensorRef out,
                  Device& device) override {
    gpu::pick(gpu_launchers::naive_attention, gpu::world_of(device))(spec, step, layer, q, out, gpu::stream_of(device));
  }

  std::string path() const override { return "naive:" + std::string(kernel_); }

 private:
  KernelChoice asked_;
  std::string_view kernel_ = kKernels[0].name;
  std::vector<float> decoded_;  ///< kept from step to step
  bool on_host_ = true;
};

}  // namespace

PATCHBAY_PLUGIN(Attention, Naive, "naive", "softmax(q k^T * scale) v row by row, as it is defined",
                "Vaswani et al. 2017, Attention Is All You Need")

}  // namespace patchbay

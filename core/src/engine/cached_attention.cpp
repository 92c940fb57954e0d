#include "engine/cached_attention.h"

#include <array>

namespace patchbay {

void CachedAttention::write(const StepPlan& plan, const StepInputs& inputs, int layer, TensorRef k, TensorRef v) {
  if (!ops_.device().is_host()) return ops_.write_kv(k, v, inputs.gpu(), layer);
  for (const StepSequence& s : plan.sequences) {
    store_.write(layer, s.seq, k.rows(s.first_row, s.first_row + s.rows), v.rows(s.first_row, s.first_row + s.rows));
  }
}

void CachedAttention::attend(const AttentionSpec& spec, const StepPlan& plan, const StepInputs& inputs, int layer, TensorRef q,
                             TensorRef out) {
  Device& device = ops_.device();
  if (!device.is_host()) return attention_.run_on_gpu(spec, inputs.gpu(), layer, q, out, device);
  attention_.run(spec, plan.sequences, views(spec, plan, layer), q, out, device);
}

std::span<const KvView> CachedAttention::views(const AttentionSpec& spec, const StepPlan& plan, int layer) {
  views_.clear();
  for (const StepSequence& sequence : plan.sequences) views_.push_back(store_.view(layer, sequence.seq));
  if (views_.empty() || attention_.reads(views_.front().layout)) return views_;
  const std::int64_t heads = spec.kv_heads, size = spec.head_size;
  gathered_.resize(views_.size());
  gathered_segments_.resize(views_.size());
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const std::int64_t length = views_[i].length, values = length * heads * size;
    gathered_[i].resize(static_cast<std::size_t>(2 * values));
    float* k = gathered_[i].data();
    gather(views_[i], store_.format(), View<float, 3>(k, {length, heads, size}), View<float, 3>(k + values, {length, heads, size}));
    KvSegment& all = gathered_segments_[i] = {};
    all.count = length;
    all.k = reinterpret_cast<const std::byte*>(k);
    all.v = reinterpret_cast<const std::byte*>(k + values);
    all.token_stride = heads * size * bytes_of(DType::f32);
    all.head_stride = size * bytes_of(DType::f32);
    views_[i] = {KvLayout{DType::f32, false}, std::span<const KvSegment>(&all, 1), length};
  }
  return views_;
}

void CachedAttention::show(const AttentionSpec& spec, const StepPlan& plan, int layer, FunctionRef<void(TensorRef, TensorRef)> sees) {
  for (const StepSequence& sequence : plan.sequences) {
    const KvView view = store_.view(layer, sequence.seq);
    const std::array<std::int64_t, 3> shape = {view.length, spec.kv_heads, spec.head_size};
    std::vector<float> memory(static_cast<std::size_t>(2 * shape[0] * shape[1] * shape[2]));
    const View<float, 3> k(memory.data(), shape), v(memory.data() + k.size(), shape);
    gather(view, store_.format(), k, v, ops_.device());
    sees(k, v);
  }
}

std::string CachedAttention::kv_path() const {
  const KvFormat& format = store_.format();
  return std::string(format.name()) + (attention_.reads(format.layout()) ? ", read natively" : ", gathered to fp32");
}

}  // namespace patchbay

/// @file attention_scene.h
/// A step over a KV cache on the device, for the tests of attention's kernels: sequences of any length, causal or trees,
/// in slabs of any size and order, in any layout, with NaN wherever no token is; and what attention over it is, in double.
#pragma once
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "gpu/device_tensor.h"
#include "patchbay/attention.h"

namespace patchbay::test {

struct AttentionScene {
  AttentionSpec spec;
  DType activations = DType::f16;
  KvLayout layout{DType::f16, false};
  std::int64_t slab_tokens = 0;  ///< of a paged cache; 0: one slab for each sequence
  std::vector<std::int64_t> committed, rows;
  std::vector<std::vector<std::uint8_t>> trees;  ///< (rows, rows) each; empty: causal
  std::uint32_t seed = 1;
  float spread = 1.0f;  ///< of queries and keys
  bool opposed = false;  ///< each query points away from every key: all scores far below 0
};

inline AttentionSpec attention_spec(int heads, int kv_heads, int head_size, std::int64_t window = 0, float soft_cap = 0) {
  return {heads, kv_heads, head_size, 1.0f / std::sqrt(static_cast<float>(head_size)), window, soft_cap};
}
inline std::string describe(const AttentionScene& s) {
  std::string text = "H " + std::to_string(s.spec.heads) + " G " + std::to_string(s.spec.kv_heads) + " D " +
                     std::to_string(s.spec.head_size) + " window " + std::to_string(s.spec.window) + " cap " +
                     std::to_string(s.spec.soft_cap) + " activations " + std::string(name_of(s.activations)) + " cache " +
                     std::string(name_of(s.layout.dtype)) + " slabs of " + std::to_string(s.slab_tokens) +
                     (s.trees.empty() ? "" : " trees") + (s.opposed ? " opposed" : "") + " sequences";
  for (std::size_t i = 0; i < s.rows.size(); ++i) text += " " + std::to_string(s.committed[i]) + "+" + std::to_string(s.rows[i]);
  return text;
}
/// A tree of n drafts: each follows a random earlier one, or the committed tokens.
inline std::vector<std::uint8_t> random_tree(std::mt19937& random, std::int64_t n) {
  std::vector<std::uint8_t> tree(n * n, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t parent = static_cast<std::int64_t>(random() % (i + 1)) - 1;
    if (parent >= 0) std::copy_n(tree.begin() + parent * n, n, tree.begin() + i * n);
    tree[i * n + i] = 1;
  }
  return tree;
}

/// The scene on the device.
class StagedAttention {
 public:
  static constexpr int kLayer = 1;  ///< of 2: the other layer's slabs hold NaN

  explicit StagedAttention(const AttentionScene& scene) : scene_(scene), random_(scene.seed) {
    lay_out();
    fill();
    upload_rows();
  }
  const GpuStep& step() const { return step_; }
  TensorRef q() const { return q_->ref(); }
  std::int64_t total_rows() const { return step_.rows; }

  /// Calls kernel(spec, step, layer, q, out) and returns out (T,H,D).
  std::vector<float> run(
      const std::function<void(const AttentionSpec&, const GpuStep&, int, TensorRef, TensorRef)>& kernel) const {
    const DeviceTensor out(scene_.activations, {step_.rows, scene_.spec.heads, scene_.spec.head_size}, 8);
    kernel(scene_.spec, step_, kLayer, q_->ref(), out.ref());
    if (!out.gaps_intact()) throw Error("attention scene", "a kernel wrote between rows");
    return out.values();
  }
  /// The definition, in double, on the values as they are stored.
  std::vector<float> expected() const;

 private:
  struct Cached {
    std::vector<float> k, v;
  };  // of one sequence, (S,G,D), as stored

  std::int64_t slots(std::size_t s) const { return scene_.committed[s] + scene_.rows[s]; }
  void lay_out();
  void fill();
  void upload_rows();
  std::vector<float> encode(const std::vector<float>& row, std::byte* to, std::byte* scale) const;
  template <class T>
  T* keep(const std::vector<T>& values) {
    auto array = std::make_shared<DeviceArray<T>>(values);
    memory_.push_back(array);
    return array->data();
  }

  AttentionScene scene_;
  std::mt19937 random_;
  GpuStep step_;
  std::vector<StepSequence> host_;
  std::vector<Cached> cached_;
  std::vector<float> queries_;
  std::unique_ptr<DeviceTensor> q_;
  std::vector<std::byte> bytes_;
  std::vector<std::vector<std::int64_t>> slab_at_;  // per sequence: the slabs' offsets in bytes_
  std::vector<std::shared_ptr<void>> memory_;
};

inline void StagedAttention::lay_out() {
  const std::int64_t heads = scene_.spec.kv_heads, row = scene_.spec.head_size * bytes_of(scene_.layout.dtype);
  std::int64_t longest = 1;
  for (std::size_t s = 0; s < scene_.rows.size(); ++s) longest = std::max(longest, slots(s));
  step_.longest = 1;
  while (step_.longest < longest) step_.longest *= 2;
  KvSlabShape& shape = step_.shape;
  shape.layout = scene_.layout;
  shape.tokens = scene_.slab_tokens > 0 ? scene_.slab_tokens : step_.longest;
  const auto aligned = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
  shape.token_stride = row;
  shape.head_stride = shape.tokens * row;
  shape.v_offset = aligned(heads * shape.tokens * row);
  shape.k_scales = 2 * shape.v_offset;
  shape.v_scales = shape.k_scales + aligned(2 * heads * shape.tokens);
  shape.layer_bytes = scene_.layout.scaled ? 2 * shape.v_scales - shape.k_scales : shape.k_scales;
  // Slabs in drawn order, as blocks that were freed and taken again lie.
  std::int64_t count = 0;
  for (std::size_t s = 0; s < scene_.rows.size(); ++s) count += (slots(s) + shape.tokens - 1) / shape.tokens;
  std::vector<std::int64_t> places(count);
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), random_);
  std::iter_swap(places.end() - 1, std::max_element(places.begin(), places.end()));  // the first slab lies last: behind a full one is nothing
  bytes_.assign(count * 2 * shape.layer_bytes, std::byte{0xFF});
  for (std::size_t s = 0; s < scene_.rows.size(); ++s) {
    slab_at_.emplace_back();
    for (std::int64_t slot = 0; slot < slots(s); slot += shape.tokens) {
      slab_at_[s].push_back(places[--count] * 2 * shape.layer_bytes);
      step_.slabs_per_sequence = std::max<std::int64_t>(step_.slabs_per_sequence, static_cast<std::int64_t>(slab_at_[s].size()));
    }
  }
}

/// Stores a row of D values; returns what is left of them.
inline std::vector<float> StagedAttention::encode(const std::vector<float>& row, std::byte* to, std::byte* scale) const {
  std::vector<float> kept = row;
  const DType type = scene_.layout.dtype;
  float factor = 1;
  if (scene_.layout.scaled) {
    float largest = 0;
    for (const float value : row) largest = std::max(largest, std::fabs(value));
    const Half stored = to_half(largest / 127.0f);
    factor = to_float(stored);
    std::memcpy(scale, &stored, sizeof stored);
  }
  for (std::size_t d = 0; d < row.size(); ++d) {
    const auto eight = [&](auto stored) {
      to[d] = std::bit_cast<std::byte>(stored.__x);
      kept[d] = static_cast<float>(stored);
    };
    if (type == DType::f8_e4m3)
      eight(__nv_fp8_e4m3(row[d]));
    else if (type == DType::f8_e5m2)
      eight(__nv_fp8_e5m2(row[d]));
    else {
      const float code = scene_.layout.scaled ? std::round(row[d] / factor) : row[d];
      store_value(type, code, to + d * bytes_of(type));
      kept[d] = factor * load_value(type, to + d * bytes_of(type));
    }
  }
  return kept;
}

inline void StagedAttention::fill() {
  const KvSlabShape& shape = step_.shape;
  const std::int64_t heads = scene_.spec.kv_heads, size = scene_.spec.head_size;
  for (std::size_t s = 0; s < scene_.rows.size(); ++s) {
    cached_.emplace_back();
    std::mt19937 own(scene_.seed * 1000 + static_cast<std::uint32_t>(s));  // a sequence's tokens do not depend on the others
    for (std::int64_t slot = 0; slot < slots(s); ++slot) {
      for (std::int64_t g = 0; g < heads; ++g) {
        const std::int64_t token = slot % shape.tokens, row = token * shape.token_stride + g * shape.head_stride;
        std::byte* const slab = &bytes_[slab_at_[s][slot / shape.tokens] + kLayer * shape.layer_bytes];
        std::byte* const scale = slab + 2 * (g * shape.tokens + token);
        const auto k = encode(random_values(own, size, scene_.opposed ? 0.9f * scene_.spread : -scene_.spread, scene_.spread), slab + row, scale + shape.k_scales);
        const auto v = encode(random_values(own, size), slab + shape.v_offset + row, scale + shape.v_scales);
        cached_[s].k.insert(cached_[s].k.end(), k.begin(), k.end());
        cached_[s].v.insert(cached_[s].v.end(), v.begin(), v.end());
      }
    }
  }
}

inline void StagedAttention::upload_rows() {
  std::vector<std::int32_t> row_sequence, row_slot, row_position, first_row, sequence_rows, committed;
  for (std::size_t s = 0; s < scene_.rows.size(); ++s) {
    const StepSequence sequence{static_cast<SeqId>(s), step_.rows, scene_.rows[s], scene_.committed[s],
                                scene_.trees.empty() ? std::vector<std::uint8_t>{} : scene_.trees[s]};
    first_row.push_back(static_cast<std::int32_t>(step_.rows));
    sequence_rows.push_back(static_cast<std::int32_t>(sequence.rows));
    committed.push_back(static_cast<std::int32_t>(sequence.committed));
    for (std::int64_t i = 0; i < sequence.rows; ++i) {
      row_sequence.push_back(static_cast<std::int32_t>(s));
      row_slot.push_back(static_cast<std::int32_t>(sequence.committed + i));
      row_position.push_back(static_cast<std::int32_t>(sequence.committed + sequence.depth(i)));
    }
    step_.rows += sequence.rows;
    step_.tree_width = std::max(step_.tree_width, sequence.rows);
    host_.push_back(sequence);
  }
  step_.sequences = static_cast<std::int64_t>(host_.size());
  step_.host = host_;
  step_.row_sequence = keep(row_sequence);
  step_.row_slot = keep(row_slot);
  step_.row_position = keep(row_position);
  step_.first_row = keep(first_row);
  step_.sequence_rows = keep(sequence_rows);
  step_.committed = keep(committed);
  if (!scene_.trees.empty()) {
    std::vector<std::uint8_t> tree(step_.rows * step_.tree_width, 0);
    for (const StepSequence& sequence : host_) {
      for (std::int64_t i = 0; i < sequence.rows; ++i)
        for (std::int64_t j = 0; j < sequence.rows; ++j)
          tree[(sequence.first_row + i) * step_.tree_width + j] = sequence.sees(i, j);
    }
    step_.tree = keep(tree);
  } else {
    step_.tree_width = 0;
  }
  std::byte* const memory = keep(bytes_);
  std::vector<std::byte*> slabs(step_.sequences * step_.slabs_per_sequence, nullptr);
  for (std::size_t s = 0; s < slab_at_.size(); ++s) {
    for (std::size_t i = 0; i < slab_at_[s].size(); ++i) slabs[s * step_.slabs_per_sequence + i] = memory + slab_at_[s][i];
  }
  step_.slabs = keep(slabs);
  for (const StepSequence& sequence : host_) {
    std::mt19937 own(scene_.seed * 1000 + 500 + static_cast<std::uint32_t>(sequence.seq));
    const std::int64_t n = sequence.rows * scene_.spec.heads * scene_.spec.head_size;
    const float most = scene_.opposed ? -0.9f * scene_.spread : scene_.spread;
    const auto values = rounded(scene_.activations, random_values(own, n, -scene_.spread, most));
    queries_.insert(queries_.end(), values.begin(), values.end());
  }
  q_ = std::make_unique<DeviceTensor>(
      scene_.activations, std::vector<std::int64_t>{step_.rows, scene_.spec.heads, scene_.spec.head_size}, queries_, 8);
}

inline std::vector<float> StagedAttention::expected() const {
  const AttentionSpec& spec = scene_.spec;
  const std::int64_t size = spec.head_size, group = spec.heads / spec.kv_heads;
  std::vector<float> out;
  for (const StepSequence& sequence : host_) {
    const Cached& cache = cached_[sequence.seq];
    const std::int64_t slots = sequence.committed + sequence.rows;
    for (std::int64_t item = 0; item < sequence.rows * spec.heads; ++item) {
      const std::int64_t row = item / spec.heads, head = item % spec.heads;
      const float* query = &queries_[((sequence.first_row + row) * spec.heads + head) * size];
      std::vector<double> scores(slots, -INFINITY), sums(size, 0.0);
      for (std::int64_t slot = 0; slot < slots; ++slot) {
        const std::int64_t tentative = slot - sequence.committed,
                           position = tentative < 0 ? tentative : sequence.depth(tentative);
        if (tentative >= 0 && !sequence.sees(row, tentative)) continue;
        if (spec.window > 0 && position <= sequence.depth(row) - spec.window) continue;
        scores[slot] = 0;
        for (std::int64_t d = 0; d < size; ++d)
          scores[slot] += double{query[d]} * cache.k[(slot * spec.kv_heads + head / group) * size + d];
        scores[slot] *= spec.scale;
        if (spec.soft_cap > 0) scores[slot] = spec.soft_cap * std::tanh(scores[slot] / spec.soft_cap);
      }
      const double largest = *std::max_element(scores.begin(), scores.end());
      double total = 0;
      for (std::int64_t slot = 0; slot < slots; ++slot) {
        if (scores[slot] == -INFINITY) continue;
        const double weight = std::exp(scores[slot] - largest);
        total += weight;
        for (std::int64_t d = 0; d < size; ++d) sums[d] += weight * cache.v[(slot * spec.kv_heads + head / group) * size + d];
      }
      for (const double sum : sums) out.push_back(total > 0 ? static_cast<float>(sum / total) : 0.0f);
    }
  }
  return out;
}

}  // namespace patchbay::test

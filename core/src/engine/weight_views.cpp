// What a session holds, tensor by tensor, readable as floats: see Session::weights.
#include <algorithm>

#include "quantize/quantized_model.h"
#include "weights.h"

namespace patchbay {
namespace {

constexpr std::string_view kSuffix = ".weight";

WeightView view_of(const VectorWeight& weight, const std::string& name) {
  const Buffer& values = weight.values;
  const auto row = values.view<const float, 1>({values.size() / bytes_of(DType::f32)});
  const auto copy = [row](std::int64_t, View<float, 2> out) { std::copy_n(row.data, out.size(), out.data); };
  return {name, "fp32", 1, row.shape[0], row.data, copy};
}

/// Collects what a model has of its possible weights.
class Viewer {
 public:
  explicit Viewer(const ModelSpec& spec) : spec_(spec) {}
  void add(const Linear& linear) {
    if (!linear.format) return;
    const auto decode = [&linear](std::int64_t first_row, View<float, 2> out) {
      linear.format->decode(linear.packed, first_row, out);
    };
    views.push_back({linear.packed.name, linear.format->label(), linear.packed.rows, linear.packed.cols,
                     linear.packed.parts[0].data, decode});
    if (linear.bias.size() > 0) views.push_back(view_of(linear.bias, bias_name(linear.packed.name)));
  }
  void add(const FeedForwardWeights& part) {
    add(part.gate);
    add(part.up);
    add(part.down);
  }
  void add(const NormWeights& norm, Role role, int layer = -1) {
    add(norm.weight, role, layer);
    add(norm.bias, role, layer, ".bias");
  }
  void add(const VectorWeight& values, Role role, int layer, std::string_view suffix = kSuffix) {
    if (values.size() > 0) views.push_back(view_of(values, tensor_label(*spec_.place(role), layer, suffix)));
  }

  std::vector<WeightView> views;

 private:
  const ModelSpec& spec_;
};

}  // namespace

std::vector<WeightView> weight_views(const ModelWeights& weights, const ModelSpec& spec) {
  Viewer viewer(spec);
  viewer.add(weights.embedding);
  viewer.add(weights.position_embedding);
  for (int layer = 0; layer < spec.layers; ++layer) {
    const BlockWeights& block = weights.blocks[layer];
    viewer.add(block.attention_norm, Role::attention_norm, layer);
    for (const Linear* linear : {&block.q, &block.k, &block.v}) viewer.add(*linear);
    viewer.add(block.q_norm, Role::q_norm, layer);
    viewer.add(block.k_norm, Role::k_norm, layer);
    viewer.add(block.attention_output);
    viewer.add(block.attention_post_norm, Role::attention_post_norm, layer);
    viewer.add(block.ffn_norm, Role::ffn_norm, layer);
    viewer.add(block.ffn);
    viewer.add(block.router);
    for (const FeedForwardWeights& expert : block.experts) viewer.add(expert);
    viewer.add(block.shared_router, Role::shared_router, layer);
    viewer.add(block.shared);
    viewer.add(block.ffn_post_norm, Role::ffn_post_norm, layer);
  }
  viewer.add(weights.output_norm, Role::output_norm);
  if (!spec.tied_head) viewer.add(weights.head);
  return std::move(viewer.views);
}

}  // namespace patchbay

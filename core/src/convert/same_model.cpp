#include "convert/same_model.h"

#include <cmath>
#include <utility>

namespace patchbay {
namespace {

constexpr float kTolerance = 1e-5f;  // metadata in fp32, and frequencies that are divided twice

bool near(float a, float b) { return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b)); }

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!near(a[i], b[i])) return false;
  }
  return true;
}

bool same(const Rope& a, const Rope& b) {
  return a.dims == b.dims && near(a.frequencies, b.frequencies) && near(a.long_frequencies, b.long_frequencies) && near(a.magnitude, b.magnitude) &&
         a.dynamic_factor == b.dynamic_factor && a.original_context == b.original_context;
}

/// The rope that each layer turns by: files may list one that no layer uses.
bool same_ropes(const ModelSpec& a, const ModelSpec& b) {
  if (a.rope_of_layer.size() != b.rope_of_layer.size()) return false;
  for (std::size_t layer = 0; layer < a.rope_of_layer.size(); ++layer) {
    const int left = a.rope_of_layer[layer], right = b.rope_of_layer[layer];
    if ((left < 0) != (right < 0)) return false;
    if (left >= 0 && !same(a.ropes[static_cast<std::size_t>(left)], b.ropes[static_cast<std::size_t>(right)])) return false;
  }
  return true;
}

}  // namespace

std::string model_difference(const ModelSpec& a, const ModelSpec& b) {
  const Experts &x = a.experts, &y = b.experts;
  const bool experts = x.count == y.count && x.used == y.used && x.ffn == y.ffn && x.shared_ffn == y.shared_ffn && x.normalized == y.normalized &&
                       a.expert_layer == b.expert_layer;
  const bool caps = near(a.attention_soft_cap, b.attention_soft_cap) && near(a.logit_soft_cap, b.logit_soft_cap);
  const std::pair<const char*, bool> properties[] = {
      {"layers", a.layers == b.layers},
      {"hidden size", a.hidden == b.hidden},
      {"heads", a.heads == b.heads && a.kv_heads == b.kv_heads && a.head_size == b.head_size},
      {"feed-forward size", x.count > 0 || a.ffn == b.ffn},
      {"vocabulary", a.vocabulary == b.vocabulary},
      {"context", a.context == b.context},
      {"norms", a.norm == b.norm && near(a.norm_epsilon, b.norm_epsilon)},
      {"scale of attention", near(a.attention_scale, b.attention_scale)},
      {"soft caps", caps},
      {"scale of embeddings", near(a.embedding_scale, b.embedding_scale)},
      {"activation", a.gate == b.gate && a.gated == b.gated},
      {"windows", a.windows == b.windows},
      {"RoPE", same_ropes(a, b)},
      {"experts", experts},
      {"tied head", a.tied_head == b.tied_head},
  };
  for (const auto& [name, equal] : properties) {
    if (!equal) return name;
  }
  return {};
}

}  // namespace patchbay

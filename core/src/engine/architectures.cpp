#include "engine/architectures.h"

namespace patchbay {
namespace {

constexpr Need kAlways = Need::always, kOptional = Need::optional, kDense = Need::dense, kExperts = Need::experts;

constexpr TensorRule kEnds[] = {
    {"token_embd.weight", "EV", kAlways, Role::embedding},
    {"output_norm.weight", "E", kAlways, Role::output_norm},
    {"output.weight", "EV", kOptional, Role::head},  // absent: the head is the embedding
};
constexpr TensorRule kBlockNorms[] = {
    {"blk.*.attn_norm.weight", "E", kAlways, Role::attention_norm},
    {"blk.*.ffn_norm.weight", "E", kAlways, Role::ffn_norm},
};
constexpr TensorRule kSandwichNorms[] = {  // before and after each part; the converter stores 1 + w for Gemma's norm weights w
    {"blk.*.attn_norm.weight", "E", kAlways, Role::attention_norm},
    {"blk.*.post_attention_norm.weight", "E", kAlways, Role::attention_post_norm},
    {"blk.*.ffn_norm.weight", "E", kAlways, Role::ffn_norm},
    {"blk.*.post_ffw_norm.weight", "E", kAlways, Role::ffn_post_norm},
};

constexpr TensorRule kAttention[] = {
    {"blk.*.attn_q.weight", "EQ", kAlways, Role::q},
    {"blk.*.attn_k.weight", "EK", kAlways, Role::k},
    {"blk.*.attn_v.weight", "EW", kAlways, Role::v},
    {"blk.*.attn_output.weight", "AE", kAlways, Role::attention_output},
};
constexpr TensorRule kFusedAttention[] = {
    {"blk.*.attn_qkv.weight", "EJ", kAlways, Role::q, "", "Q"},
    {"blk.*.attn_qkv.weight", "EJ", kAlways, Role::k, "Q", "K"},
    {"blk.*.attn_qkv.weight", "EJ", kAlways, Role::v, "QK", "W"},
    {"blk.*.attn_output.weight", "AE", kAlways, Role::attention_output},
};
constexpr TensorRule kQkvBiases[] = {
    {"blk.*.attn_q.bias", "Q", kAlways},
    {"blk.*.attn_k.bias", "K", kAlways},
    {"blk.*.attn_v.bias", "W", kAlways},
};
constexpr TensorRule kQkNorms[] = {
    {"blk.*.attn_q_norm.weight", "D", kAlways, Role::q_norm},
    {"blk.*.attn_k_norm.weight", "D", kAlways, Role::k_norm},
};

constexpr TensorRule kGatedFfn[] = {
    {"blk.*.ffn_gate.weight", "EF", kDense, Role::gate},
    {"blk.*.ffn_up.weight", "EF", kDense, Role::up},
    {"blk.*.ffn_down.weight", "FE", kDense, Role::down},
};
constexpr TensorRule kFusedGateFfn[] = {
    {"blk.*.ffn_up.weight", "EG", kAlways, Role::gate, "", "F"},
    {"blk.*.ffn_up.weight", "EG", kAlways, Role::up, "F", "F"},
    {"blk.*.ffn_down.weight", "FE", kAlways, Role::down},
};
constexpr TensorRule kExpertFfn[] = {
    {"blk.*.ffn_gate_inp.weight", "EX", kExperts, Role::router},
    {"blk.*.ffn_gate_exps.weight", "EMX", kExperts, Role::expert_gate, "", "M"},
    {"blk.*.ffn_up_exps.weight", "EMX", kExperts, Role::expert_up, "", "M"},
    {"blk.*.ffn_down_exps.weight", "MEX", kExperts, Role::expert_down, "", "E"},
};
constexpr TensorRule kSharedExpert[] = {
    {"blk.*.ffn_gate_inp_shexp.weight", "E", kExperts, Role::shared_router},
    {"blk.*.ffn_gate_shexp.weight", "ES", kExperts, Role::shared_gate},
    {"blk.*.ffn_up_shexp.weight", "ES", kExperts, Role::shared_up},
    {"blk.*.ffn_down_shexp.weight", "SE", kExperts, Role::shared_down},
};

// Llama with `attention_bias` and `mlp_bias`, and the divisors of Llama 3's RoPE.
constexpr TensorRule kLlamaExtras[] = {
    {"rope_freqs.weight", "R", kOptional},       {"blk.*.attn_q.bias", "Q", kOptional},
    {"blk.*.attn_k.bias", "K", kOptional},       {"blk.*.attn_v.bias", "W", kOptional},
    {"blk.*.attn_output.bias", "E", kOptional},  {"blk.*.ffn_gate.bias", "F", kOptional},
    {"blk.*.ffn_up.bias", "F", kOptional},       {"blk.*.ffn_down.bias", "E", kOptional},
};
constexpr TensorRule kPhi3Extras[] = {
    {"rope_factors_long.weight", "R", kOptional},
    {"rope_factors_short.weight", "R", kOptional},
};
constexpr TensorRule kGpt2Extras[] = {
    {"position_embd.weight", "EP", kAlways, Role::position_embedding},
    {"output_norm.bias", "E", kAlways},
    {"blk.*.attn_norm.bias", "E", kAlways},
    {"blk.*.attn_qkv.bias", "J", kAlways},
    {"blk.*.attn_output.bias", "E", kAlways},
    {"blk.*.ffn_norm.bias", "E", kAlways},
    {"blk.*.ffn_up.weight", "EF", kAlways, Role::up},
    {"blk.*.ffn_up.bias", "F", kAlways},
    {"blk.*.ffn_down.weight", "FE", kAlways, Role::down},
    {"blk.*.ffn_down.bias", "E", kAlways},
};

constexpr ArchitectureRule kArchitectures[] = {
    // Mistral too, and with experts Mixtral. q and k lie reordered for neighbouring pairs.
    {.name = "llama",
     .tensors = {kEnds, kBlockNorms, kAttention, kGatedFfn, kExpertFfn, kLlamaExtras},
     .interleaved = true,
     .normalized_experts = true},
    {.name = "smollm3", .tensors = {kEnds, kBlockNorms, kAttention, kGatedFfn, kLlamaExtras}, .interleaved = true, .rope_period = 4},
    {.name = "qwen2", .tensors = {kEnds, kBlockNorms, kAttention, kQkvBiases, kGatedFfn}},
    {.name = "qwen2moe", .tensors = {kEnds, kBlockNorms, kAttention, kQkvBiases, kExpertFfn, kSharedExpert}, .experts = true},
    {.name = "qwen3", .tensors = {kEnds, kBlockNorms, kAttention, kQkNorms, kGatedFfn}},
    {.name = "qwen3moe",
     .tensors = {kEnds, kBlockNorms, kAttention, kQkNorms, kExpertFfn},
     .experts = true,
     .normalized_experts = true},
    {.name = "gemma2",
     .tensors = {kEnds, kSandwichNorms, kAttention, kGatedFfn},
     .gate = Gate::gelu_tanh,
     .scaled_embedding = true,
     .leaves_fp16 = true,
     .window_period = 2,
     .wide_scale_layers = 46},  // 27B
    {.name = "gemma3",
     .tensors = {kEnds, kSandwichNorms, kAttention, kQkNorms, kGatedFfn},
     .gate = Gate::gelu_tanh,
     .scaled_embedding = true,
     .leaves_fp16 = true,
     .window_period = 6,
     .local_rope_base = 10000.0,
     .wide_scale_layers = 62},  // 27B
    {.name = "phi3", .tensors = {kEnds, kBlockNorms, kFusedAttention, kFusedGateFfn, kPhi3Extras}},
    {.name = "gpt2",
     .tensors = {kEnds, kBlockNorms, kFusedAttention, kGpt2Extras},
     .norm = Norm::layer,
     .gate = Gate::gelu_tanh,
     .gated = false,
     .rope = false},
};

}  // namespace

const ArchitectureRule* find_architecture(std::string_view name) {
  for (const ArchitectureRule& known : kArchitectures) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

std::string architecture_names() {
  std::string names;
  for (const ArchitectureRule& known : kArchitectures) names.append(names.empty() ? "" : ", ").append(known.name);
  return names;
}

}  // namespace patchbay

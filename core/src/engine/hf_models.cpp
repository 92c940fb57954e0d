#include "engine/hf_models.h"

namespace patchbay {
namespace {

constexpr HfTensor kEnds[] = {{Role::embedding, "model.embed_tokens", "token_embd"},
                              {Role::output_norm, "model.norm", "output_norm"}};
constexpr HfTensor kNorms[] = {{Role::attention_norm, "model.layers.*.input_layernorm", "blk.*.attn_norm"},
                               {Role::ffn_norm, "model.layers.*.post_attention_layernorm", "blk.*.ffn_norm"}};
constexpr HfTensor kSandwichNorms[] = {
    {Role::attention_norm, "model.layers.*.input_layernorm", "blk.*.attn_norm"},
    {Role::attention_post_norm, "model.layers.*.post_attention_layernorm", "blk.*.post_attention_norm"},
    {Role::ffn_norm, "model.layers.*.pre_feedforward_layernorm", "blk.*.ffn_norm"},
    {Role::ffn_post_norm, "model.layers.*.post_feedforward_layernorm", "blk.*.post_ffw_norm"}};
constexpr HfTensor kAttention[] = {{Role::q, "model.layers.*.self_attn.q_proj", "blk.*.attn_q"},
                                   {Role::k, "model.layers.*.self_attn.k_proj", "blk.*.attn_k"},
                                   {Role::v, "model.layers.*.self_attn.v_proj", "blk.*.attn_v"},
                                   {Role::attention_output, "model.layers.*.self_attn.o_proj", "blk.*.attn_output"}};
constexpr HfTensor kBiasedAttention[] = {{Role::q, "model.layers.*.self_attn.q_proj", "blk.*.attn_q", ' ', true},
                                         {Role::k, "model.layers.*.self_attn.k_proj", "blk.*.attn_k", ' ', true},
                                         {Role::v, "model.layers.*.self_attn.v_proj", "blk.*.attn_v", ' ', true},
                                         {Role::attention_output, "model.layers.*.self_attn.o_proj", "blk.*.attn_output"}};
constexpr HfTensor kQkNorms[] = {{Role::q_norm, "model.layers.*.self_attn.q_norm", "blk.*.attn_q_norm"},
                                 {Role::k_norm, "model.layers.*.self_attn.k_norm", "blk.*.attn_k_norm"}};
constexpr HfTensor kFfn[] = {{Role::gate, "model.layers.*.mlp.gate_proj", "blk.*.ffn_gate"},
                             {Role::up, "model.layers.*.mlp.up_proj", "blk.*.ffn_up"},
                             {Role::down, "model.layers.*.mlp.down_proj", "blk.*.ffn_down"}};
constexpr HfTensor kExperts[] = {{Role::router, "model.layers.*.mlp.gate", "blk.*.ffn_gate_inp"},
                                 {Role::expert_gate, "model.layers.*.mlp.experts.#.gate_proj", "blk.*.ffn_gate_exps"},
                                 {Role::expert_up, "model.layers.*.mlp.experts.#.up_proj", "blk.*.ffn_up_exps"},
                                 {Role::expert_down, "model.layers.*.mlp.experts.#.down_proj", "blk.*.ffn_down_exps"}};
constexpr HfTensor kSharedExpert[] = {{Role::shared_router, "model.layers.*.mlp.shared_expert_gate", "blk.*.ffn_gate_inp_shexp"},
                                      {Role::shared_gate, "model.layers.*.mlp.shared_expert.gate_proj", "blk.*.ffn_gate_shexp"},
                                      {Role::shared_up, "model.layers.*.mlp.shared_expert.up_proj", "blk.*.ffn_up_shexp"},
                                      {Role::shared_down, "model.layers.*.mlp.shared_expert.down_proj", "blk.*.ffn_down_shexp"}};
constexpr HfTensor kMixtralExperts[] = {
    {Role::router, "model.layers.*.block_sparse_moe.gate", "blk.*.ffn_gate_inp"},
    {Role::expert_gate, "model.layers.*.block_sparse_moe.experts.#.w1", "blk.*.ffn_gate_exps"},
    {Role::expert_up, "model.layers.*.block_sparse_moe.experts.#.w3", "blk.*.ffn_up_exps"},
    {Role::expert_down, "model.layers.*.block_sparse_moe.experts.#.w2", "blk.*.ffn_down_exps"}};
constexpr HfTensor kPhi3[] = {{Role::q, "model.layers.*.self_attn.qkv_proj", "blk.*.attn_qkv", 'q'},
                              {Role::k, "model.layers.*.self_attn.qkv_proj", "blk.*.attn_qkv", 'k'},
                              {Role::v, "model.layers.*.self_attn.qkv_proj", "blk.*.attn_qkv", 'v'},
                              {Role::attention_output, "model.layers.*.self_attn.o_proj", "blk.*.attn_output"},
                              {Role::gate, "model.layers.*.mlp.gate_up_proj", "blk.*.ffn_up", 'g'},
                              {Role::up, "model.layers.*.mlp.gate_up_proj", "blk.*.ffn_up", 'u'},
                              {Role::down, "model.layers.*.mlp.down_proj", "blk.*.ffn_down"}};
// As transformers saves them; some folders leave "transformer." out.
constexpr HfTensor kGpt2[] = {{Role::embedding, "transformer.wte", "token_embd"},
                              {Role::position_embedding, "transformer.wpe", "position_embd"},
                              {Role::output_norm, "transformer.ln_f", "output_norm", ' ', true},
                              {Role::attention_norm, "transformer.h.*.ln_1", "blk.*.attn_norm", ' ', true},
                              {Role::q, "transformer.h.*.attn.c_attn", "blk.*.attn_qkv", 'q', true},
                              {Role::k, "transformer.h.*.attn.c_attn", "blk.*.attn_qkv", 'k', true},
                              {Role::v, "transformer.h.*.attn.c_attn", "blk.*.attn_qkv", 'v', true},
                              {Role::attention_output, "transformer.h.*.attn.c_proj", "blk.*.attn_output", ' ', true},
                              {Role::ffn_norm, "transformer.h.*.ln_2", "blk.*.ffn_norm", ' ', true},
                              {Role::up, "transformer.h.*.mlp.c_fc", "blk.*.ffn_up", ' ', true},
                              {Role::down, "transformer.h.*.mlp.c_proj", "blk.*.ffn_down", ' ', true}};

constexpr HfModel kModels[] = {
    {.model_type = "llama", .class_name = "LlamaForCausalLM", .gguf = "llama", .tensors = {kEnds, kNorms, kAttention, kFfn}},
    {.model_type = "mistral",
     .class_name = "MistralForCausalLM",
     .gguf = "llama",
     .tensors = {kEnds, kNorms, kAttention, kFfn},
     .windows = Windows::all},
    {.model_type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .gguf = "llama",
     .tensors = {kEnds, kNorms, kAttention, kMixtralExperts},
     .windows = Windows::all},
    {.model_type = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .gguf = "smollm3",
     .tensors = {kEnds, kNorms, kAttention, kFfn},
     .windows = Windows::without_rope,
     .tied = true},
    {.model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .gguf = "qwen2",
     .tensors = {kEnds, kNorms, kBiasedAttention, kFfn},
     .windows = Windows::late},
    {.model_type = "qwen2_moe",
     .class_name = "Qwen2MoeForCausalLM",
     .gguf = "qwen2moe",
     .tensors = {kEnds, kNorms, kBiasedAttention, kFfn, kExperts, kSharedExpert},
     .windows = Windows::late},
    {.model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .gguf = "qwen3",
     .tensors = {kEnds, kNorms, kAttention, kQkNorms, kFfn},
     .windows = Windows::late,
     .explicit_head_size = true},
    {.model_type = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .gguf = "qwen3moe",
     .tensors = {kEnds, kNorms, kAttention, kQkNorms, kFfn, kExperts},
     .windows = Windows::used},
    {.model_type = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .gguf = "gemma2",
     .tensors = {kEnds, kSandwichNorms, kAttention, kFfn},
     .activation_key = "hidden_activation",
     .windows = Windows::alternating,
     .full_period = 2,
     .explicit_head_size = true,
     .tied = true,
     .gemma = true},
    {.model_type = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .gguf = "gemma3",
     .tensors = {kEnds, kSandwichNorms, kAttention, kQkNorms, kFfn},
     .activation_key = "hidden_activation",
     .windows = Windows::alternating,
     .full_period = 6,
     .explicit_head_size = true,
     .tied = true,
     .gemma = true},
    {.model_type = "phi3", .class_name = "Phi3ForCausalLM", .gguf = "phi3", .tensors = {kEnds, kNorms, kPhi3}, .windows = Windows::all},
    {.model_type = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .gguf = "gpt2",
     .tensors = {kGpt2},
     .activation_key = "activation_function",
     .tied = true,
     .gpt2 = true},
};

}  // namespace

const HfModel* find_hf_model(std::string_view model_type) {
  for (const HfModel& model : kModels) {
    if (model.model_type == model_type) return &model;
  }
  return nullptr;
}

std::string hf_model_names() {
  std::string names;
  for (const HfModel& model : kModels) names.append(names.empty() ? "" : ", ").append(model.model_type);
  return names;
}

}  // namespace patchbay

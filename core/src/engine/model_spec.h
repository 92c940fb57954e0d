/// @file model_spec.h
/// A transformer's architecture as data: what the one forward pass of transformer.cpp needs to know of a model.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "model_file.h"
#include "patchbay/backend.h"

namespace patchbay {

/// What one linear layer or norm of a block is called in the file, after "blk.N.".
struct LayerTensors {
  std::string attention_norm = "attn_norm", q = "attn_q", k = "attn_k", v = "attn_v", attention_output = "attn_output";
  std::string ffn_norm = "ffn_norm", gate = "ffn_gate", up = "ffn_up", down = "ffn_down";
};

struct ModelSpec {
  std::string architecture;
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0, vocabulary = 0;
  std::int64_t context = 0;
  float norm_epsilon = 1e-5f;
  float attention_scale = 0;                  ///< on q k^T, usually 1/sqrt(head_size)
  Gate gate = Gate::silu;
  int rope_dims = 0;
  bool rope_interleaved = true;               ///< GGUF stores Llama's q and k for neighbouring pairs
  std::vector<float> rope_frequencies;        ///< (rope_dims / 2), radians per position
  std::vector<std::int64_t> windows;          ///< per layer; 0: full attention
  bool tied_head = false;                     ///< the head is the embedding
  LayerTensors names;
};

/// Reads the architecture from a file's metadata. @throws Error for an architecture, RoPE scaling or tensor it does not know.
PATCHBAY_API ModelSpec read_model_spec(const ModelFile& file);

/// "blk.3.attn_q.weight"
std::string block_tensor(int layer, const std::string& name);

}  // namespace patchbay

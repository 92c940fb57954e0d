/// @file model_spec.h
/// A transformer's architecture as data: all that the one forward pass of transformer.cpp needs to know of a model.
/// A reader per file form fills it (model_spec_gguf.cpp, model_spec_folder.cpp). Nothing after the reader knows the form or the
/// architecture's name: a tensor is asked for by its role and layer, and `places` says where the file keeps it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model_file.h"
#include "patchbay/backend.h"

namespace patchbay {

/// What a tensor is in the computation, whatever a file calls it.
enum class Role {
  embedding, position_embedding, output_norm, head,
  attention_norm, q, k, v, attention_output, q_norm, k_norm, attention_post_norm,
  ffn_norm, gate, up, down, ffn_post_norm,
  router, expert_gate, expert_up, expert_down,
  shared_router, shared_gate, shared_up, shared_down,
};

/// Where a file keeps the tensor of a role: rows [first_row, first_row + rows) of a stored matrix. Fused tensors (q, k and v in
/// one; gate and up in one) are one place per role with the same name. Where the file has a bias of that name, it is added.
struct TensorPlace {
  Role role;
  std::string name;            ///< in the file; "*" is the layer's number, "#" the expert's: "model.layers.*.self_attn.q_proj"
  std::string label;           ///< in rules, records and messages, whatever the file form: GGUF's name, "blk.*.attn_q"
  std::int64_t first_row = 0, rows = 0;  ///< rows 0: the whole tensor. Without "#", expert e begins e * rows further on
  bool needs_bias = false;     ///< a file without the bias is another model
  bool transposed = false;     ///< the file holds in x out (GPT-2 of Hugging Face); rows count outputs all the same
};

enum class Norm { rms, layer };  ///< layer: the mean is taken off first, and a bias added

/// Rotary position embedding of some layers. Pair i turns by position * frequencies[i]; scaling is already in these numbers.
struct Rope {
  int dims = 0;                           ///< the first dims values of each head turn
  bool interleaved = false;               ///< pairs (2i, 2i+1), as GGUF stores Llama's q and k; else halves (i, i + dims/2)
  std::vector<float> frequencies;         ///< (dims/2), radians per position
  float magnitude = 1.0f;                 ///< factor on the turned values (YaRN, LongRoPE)
  std::int64_t original_context = 0;      ///< of LongRoPE and dynamic NTK
  std::vector<float> long_frequencies;    ///< LongRoPE: in place of frequencies when sequences may pass original_context
  double dynamic_factor = 0, base = 0;    ///< dynamic NTK: 0 for all others; see dynamic_frequencies()
};

/// Mixture of experts: the `used` best of `count` feed-forward parts, by the softmax of the router, and one that all tokens
/// share.
struct Experts {
  int count = 0, used = 0, ffn = 0, shared_ffn = 0;  ///< count 0: dense
  bool normalized = false;                ///< the chosen experts' weights are divided by their sum
};

struct ModelSpec {
  std::string architecture;               ///< for messages only
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0, ffn = 0, vocabulary = 0;
  std::int64_t context = 0;
  Norm norm = Norm::rms;
  float norm_epsilon = 1e-5f;
  float norm_offset = 0;                  ///< added to norm weights at loading (Gemma's, in files that store w of 1 + w)
  float attention_scale = 0;              ///< on q k^T, usually 1/sqrt(head_size)
  float attention_soft_cap = 0, logit_soft_cap = 0;  ///< 0: none
  float embedding_scale = 1;
  Gate gate = Gate::silu;
  bool gated = true;                      ///< false: down(act(up)) without a gate
  std::vector<Rope> ropes;                ///< the kinds that layers use
  std::vector<int> rope_of_layer;         ///< index into ropes; -1: the layer has no RoPE
  std::vector<std::int64_t> windows;      ///< per layer; 0: full attention
  std::vector<bool> expert_layer;         ///< per layer: experts instead of a dense feed-forward part
  Experts experts;
  bool tied_head = false;                 ///< the head is the embedding
  /// The 16-bit type that the model's activations were trained in: bf16 where the file says so, or its architecture is known to leave
  /// fp16's range (65504).
  DType native_type = DType::f16;
  std::vector<TensorPlace> places;

  PATCHBAY_API const TensorPlace* place(Role role) const;  ///< null: the model has no such tensor
  /// Calls body(place, layer, expert) for each tensor that the model has; layer -1 outside the blocks. Fused ones come once per
  /// role.
  PATCHBAY_API void for_each_tensor(FunctionRef<void(const TensorPlace&, int layer, int expert)> body) const;
};

/// Rows (outputs) and columns (inputs) of a role's matrix; of one expert; {size, 1} of a norm.
struct MatrixShape { std::int64_t rows = 0, cols = 0; };
PATCHBAY_API MatrixShape matrix_shape(const ModelSpec& spec, Role role);

/// Reads the architecture from a file's metadata, or from its folder's config.json. @throws Error for an architecture, RoPE scaling or tensor it does not know.
PATCHBAY_API ModelSpec read_model_spec(const ModelFile& file);

/// Whether a tensor of the file is stored in bf16: its model was trained in that.
bool has_bf16(const ModelFile& file);

/// Settles what depends on how long sequences may grow: LongRoPE takes its long factors for all rows when they may pass the
/// original context, so that a row's result does not depend on the tokens after it.
PATCHBAY_API void fit_to_length(ModelSpec& spec, std::int64_t max_tokens);

/// The name in a file of a place's tensor, "model.layers.3.self_attn.q_proj.weight", and its label, "blk.3.attn_q.weight".
PATCHBAY_API std::string tensor_name(const TensorPlace& place, int layer, int expert = 0, std::string_view suffix = ".weight");
PATCHBAY_API std::string tensor_label(const TensorPlace& place, int layer, std::string_view suffix = ".weight");

}  // namespace patchbay

/// @file architectures.h
/// The architectures of GGUF files as one table: which tensors each has, of which shapes and for what, and what its metadata
/// leave unsaid. Names, conventions and defaults are those of llama.cpp and of the PyPI package gguf.
#pragma once
#include <array>
#include <span>
#include <string_view>

#include "engine/model_spec.h"

namespace patchbay {

enum class Need { always, optional, dense /* without experts */, experts };

/// Extents are letters: E embedding, V vocabulary rows, P positions, Q query heads x head size, K key heads x head size, A heads x
/// value size, W key heads x value size, D head size, R half the rotated dimensions, F feed-forward, G gate and up in one (2F),
/// J queries, keys and values in one (Q + K + W), X experts, M one expert's feed-forward, S the shared expert's.
struct TensorRule {
  std::string_view name;             ///< "blk.*." stands for every block
  std::string_view shape;            ///< as in the file: the first extent varies fastest
  Need need = Need::always;
  std::optional<Role> role = {};     ///< none: read elsewhere, as biases and RoPE factors are
  std::string_view before = {};      ///< of a fused tensor: what comes before this role's rows
  std::string_view rows = {};        ///< and how many these are; of experts: the rows of one
};

struct ArchitectureRule {
  std::string_view name;
  std::array<std::span<const TensorRule>, 6> tensors;  ///< in groups that architectures share
  Norm norm = Norm::rms;
  Gate gate = Gate::silu;
  bool gated = true;
  bool rope = true;
  bool interleaved = false;          ///< the converter has reordered q and k for neighbouring pairs
  bool experts = false;              ///< cannot be without them
  bool normalized_experts = false;   ///< unless expert_weights_norm says otherwise
  bool scaled_embedding = false;     ///< by sqrt(hidden)
  bool leaves_fp16 = false;          ///< activations pass 65504, fp16's largest number
  int window_period = 0;             ///< of n layers the last sees everything; 0: a window holds in all layers
  int rope_period = 0;               ///< of n layers the last has no RoPE; 0: all have it
  double local_rope_base = 0;        ///< RoPE base of layers with a window; 0: that of the others
  int wide_scale_layers = 0;         ///< the size (by its layers) whose scores are scaled by 1/sqrt(hidden / heads)
};

/// Null for an architecture that is not computed.
const ArchitectureRule* find_architecture(std::string_view name);
/// "llama, qwen2, ..."
std::string architecture_names();

}  // namespace patchbay

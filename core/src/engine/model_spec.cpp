#include "model_spec.h"

#include <cmath>
#include <cstring>
#include <set>

namespace patchbay {
namespace {

int small(const ModelFile& file, const std::string& key) {
  const std::uint64_t value = file.integer(key);
  if (value > (1u << 30)) throw Error(file.path(), key + " is " + std::to_string(value), "at most 2^30");
  return static_cast<int>(value);
}

const FileTensor& needed(const ModelFile& file, const std::string& name) {
  const FileTensor* tensor = file.tensor(name);
  if (!tensor) throw Error(file.path(), "tensor " + name + " is missing", "", "the file is not a whole model: fetch it again");
  return *tensor;
}

// RoPE (Su et al. 2021): pair i turns by position * base^(-2i/dims). Llama 3 files bring divisors of these angles as a tensor.
std::vector<float> rope_frequencies(const ModelFile& file, const std::string& arch, int dims) {
  const double base = file.maybe_real(arch + ".rope.freq_base").value_or(10000.0);
  const std::string kind(file.maybe_string(arch + ".rope.scaling.type").value_or("none"));
  if (kind != "none" && kind != "linear") {
    throw Error(file.path(), arch + ".rope.scaling.type is \"" + kind + "\", which is not computed", "none, linear");
  }
  const double factor = kind == "linear" ? file.real(arch + ".rope.scaling.factor") : 1.0;
  if (!(factor > 0)) throw Error(file.path(), arch + ".rope.scaling.factor must be positive");
  std::vector<float> frequencies(dims / 2);
  for (int i = 0; i < dims / 2; ++i) frequencies[i] = static_cast<float>(std::pow(base, -2.0 * i / dims) / factor);
  if (const FileTensor* divisors = file.tensor("rope_freqs.weight")) {
    if (divisors->format != "fp32" || divisors->shape != std::vector<std::int64_t>{dims / 2}) {
      throw Error(file.path(), "tensor rope_freqs.weight does not hold one F32 for each pair", std::to_string(dims / 2) + " values");
    }
    for (int i = 0; i < dims / 2; ++i) {
      float divisor;
      std::memcpy(&divisor, divisors->data + 4 * i, 4);
      frequencies[i] /= divisor;
    }
  }
  return frequencies;
}

// A tensor that the forward pass would ignore (a bias, a norm of q) makes another model: refuse it rather than run without it.
void refuse_strangers(const ModelFile& file, const ModelSpec& spec) {
  std::set<std::string> known = {"token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"};
  const LayerTensors& n = spec.names;
  for (int layer = 0; layer < spec.layers; ++layer) {
    for (const auto& name : {n.attention_norm, n.q, n.k, n.v, n.attention_output, n.ffn_norm, n.gate, n.up, n.down}) {
      known.insert(block_tensor(layer, name));
    }
  }
  for (const FileTensor& tensor : file.tensors()) {
    if (!known.count(std::string(tensor.name))) {
      throw Error(file.path(), "tensor " + std::string(tensor.name) + " has no place in architecture " + spec.architecture, "",
                  "the model is of a kind that is not computed yet");
    }
  }
}

}  // namespace

std::string block_tensor(int layer, const std::string& name) { return "blk." + std::to_string(layer) + "." + name + ".weight"; }

ModelSpec read_model_spec(const ModelFile& file) {
  check_model(file);
  ModelSpec spec;
  spec.architecture = file.string("general.architecture");
  if (spec.architecture != "llama") {
    throw Error(file.path(), "architecture \"" + spec.architecture + "\" is not computed", "llama");
  }
  const std::string arch = spec.architecture;
  if (file.maybe_integer(arch + ".expert_count").value_or(0) > 0) {
    throw Error(file.path(), arch + ".expert_count: mixtures of experts are not computed", "dense models");
  }
  spec.layers = small(file, arch + ".block_count");
  spec.hidden = small(file, arch + ".embedding_length");
  spec.heads = small(file, arch + ".attention.head_count");
  spec.kv_heads = static_cast<int>(file.maybe_integer(arch + ".attention.head_count_kv").value_or(spec.heads));
  spec.head_size = static_cast<int>(file.maybe_integer(arch + ".attention.key_length").value_or(spec.hidden / spec.heads));
  if (file.maybe_integer(arch + ".attention.value_length").value_or(spec.head_size) != spec.head_size) {
    throw Error(file.path(), arch + ".attention.value_length differs from the keys' length, which is not computed");
  }
  spec.ffn = small(file, arch + ".feed_forward_length");
  spec.context = small(file, arch + ".context_length");
  spec.norm_epsilon = static_cast<float>(file.real(arch + ".attention.layer_norm_rms_epsilon"));
  spec.attention_scale = 1.0f / std::sqrt(static_cast<float>(spec.head_size));
  spec.rope_dims = static_cast<int>(file.maybe_integer(arch + ".rope.dimension_count").value_or(spec.head_size));
  if (spec.rope_dims > spec.head_size || spec.rope_dims % 2) {
    throw Error(file.path(), arch + ".rope.dimension_count is " + std::to_string(spec.rope_dims),
                "an even number up to the head size, " + std::to_string(spec.head_size));
  }
  spec.rope_frequencies = rope_frequencies(file, arch, spec.rope_dims);
  spec.windows.assign(spec.layers, 0);
  spec.vocabulary = static_cast<int>(needed(file, "token_embd.weight").shape.at(1));
  spec.tied_head = file.tensor("output.weight") == nullptr;
  refuse_strangers(file, spec);
  return spec;
}

}  // namespace patchbay

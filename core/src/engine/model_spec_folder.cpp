// ModelSpec of a Hugging Face folder: config.json says the model, and the safetensors beside it must be exactly its tensors.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "engine/model_spec_hf.h"
#include "json_file.h"
#include "utf8.h"

namespace patchbay {
namespace {

class FolderCheck {
 public:
  FolderCheck(const ModelFile& file, const ModelSpec& spec) : file_(file), spec_(spec) {
    spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) { expect(place, layer, expert); });
  }

  void run() const {
    for (const auto& [name, shape] : expected_) {
      const FileTensor* tensor = file_.tensor(name);
      if (!tensor) fail(name, "missing tensor: config.json's model has it");
      if (tensor->module && turned_.contains(name)) fail(name, "is quantised, and config.json's model keeps this weight as inputs x outputs: such modules are not read");
      if (tensor->shape == shape) continue;
      fail(name, fmt::format("tensor shape mismatch: {}", shown(tensor->shape)), shown(shape));
    }
    for (const FileTensor& tensor : file_.tensors()) {
      if (expected_.contains(std::string(tensor.name)) || is_buffer(tensor.name) || is_bias_of_module(tensor.name) || is_copy_of_embedding(tensor)) continue;
      fail(tensor.name, fmt::format("unexpected tensor: config.json's model, a {} of {} layers, has none of this name", spec_.architecture, spec_.layers));
    }
  }

 private:
  [[noreturn]] void fail(std::string_view tensor, std::string problem, std::string allowed = {}) const {
    throw Error(fmt::format("{}: tensor '{}'", escaped(file_.folder()), escaped(tensor, 80)), std::move(problem), std::move(allowed));
  }
  /// As safetensors writes it: the last extent varies fastest.
  static std::string shown(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape.rbegin(), shape.rend(), ", ")); }

  void expect(const TensorPlace& place, int layer, int expert) {
    if (place.transposed) turned_.insert(tensor_name(place, layer, expert));
    const auto [outputs, inputs] = matrix_shape(spec_, place.role);
    const std::int64_t rows = place.first_row + outputs;  // of a fused tensor: its last part says how many there are
    std::vector<std::int64_t>& shape = expected_[tensor_name(place, layer, expert)];
    if (place.role == Role::shared_router) {
      shape = {outputs, 1};  // a matrix of one row
    } else if (inputs == 1) {
      shape = {outputs};
    } else if (place.transposed) {
      shape = {std::max(rows, shape.empty() ? 0 : shape[0]), inputs};
    } else {
      shape = {inputs, std::max(rows, shape.empty() ? 0 : shape[1])};
    }
    if (place.needs_bias) expected_[tensor_name(place, layer, expert, ".bias")] = {inputs == 1 || !place.transposed ? shape.back() : shape[0]};
  }

  /// What older versions of transformers saved beside the weights: angles and masks that follow from config.json.
  static bool is_buffer(std::string_view name) {
    return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.masked_bias") || name.ends_with(".attn.bias");
  }
  /// Writers of quantised checkpoints give every module a bias; it is added as any other.
  bool is_bias_of_module(std::string_view name) const {
    if (!name.ends_with(".bias")) return false;
    const FileTensor* weight = file_.tensor(std::string(name.substr(0, name.size() - 5)) + ".weight");
    return weight && weight->module;
  }
  /// A tied head may be written out; if it is not the embedding, this is another model.
  bool is_copy_of_embedding(const FileTensor& tensor) const {
    if (!spec_.tied_head || tensor.name != "lm_head.weight") return false;
    const FileTensor* embedding = file_.tensor(tensor_name(*spec_.place(Role::embedding), -1));
    if (embedding->data && tensor.data && embedding->type_name == tensor.type_name && embedding->shape == tensor.shape &&
        std::memcmp(embedding->data, tensor.data, static_cast<std::size_t>(tensor.bytes)) == 0) return true;
    fail(tensor.name, "differs from the embedding, but config.json ties both", "tie_word_embeddings: false");
  }

  const ModelFile& file_;
  const ModelSpec& spec_;
  std::map<std::string, std::vector<std::int64_t>> expected_;  ///< by name: the shape, as FileTensor has it
  std::set<std::string> turned_;                               ///< of them, those stored as inputs x outputs
};

/// GPT-2's own folder leaves out the name of the part that holds all but the head.
void accept_short_names(const ModelFile& file, ModelSpec& spec) {
  constexpr std::string_view kPrefix = "transformer.";
  const std::string embedding = tensor_name(*spec.place(Role::embedding), -1);
  if (!embedding.starts_with(kPrefix) || file.tensor(embedding) || !file.tensor(embedding.substr(kPrefix.size()))) return;
  for (TensorPlace& place : spec.places) {
    if (place.name.starts_with(kPrefix)) place.name.erase(0, kPrefix.size());
  }
}

}  // namespace

ModelSpec read_folder_model_spec(const ModelFile& file) {
  if (file.folder().empty()) {
    throw Error(escaped(file.path()) + ": config.json", "tensors alone are no model: missing key model_type", "a folder with config.json and model.safetensors",
                "give the model's folder");
  }
  const JsonFile config(file.folder() + "/config.json");
  ModelSpec spec = read_hf_model_spec(config.value(), config.name());
  accept_short_names(file, spec);
  if (has_bf16(file)) spec.native_type = DType::bf16;
  FolderCheck(file, spec).run();
  return spec;
}

}  // namespace patchbay

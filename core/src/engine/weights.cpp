#include "weights.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstring>

#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

std::string stem(std::string_view tensor) {
  constexpr std::string_view kSuffix = ".weight";
  return std::string(tensor.ends_with(kSuffix) ? tensor.substr(0, tensor.size() - kSuffix.size()) : tensor);
}

bool in_block(std::string_view tensor) { return tensor.starts_with("blk."); }

std::shared_ptr<WeightFormat> stored_format(const ModelFile& file, const FileTensor& tensor) {
  if (tensor.format.empty()) {
    throw Error(file.path(), "tensor " + std::string(tensor.name) + " has type " + std::string(tensor.type_name) + ", which is not computed",
                "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0", "requantise the model to one of these");
  }
  return make<WeightFormat>({std::string(tensor.format), nullptr});
}

// Points a format's single part at the file's bytes.
PackedWeight mapped(const std::shared_ptr<const ModelFile>& file, const FileTensor& tensor, const WeightFormat& format) {
  PackedWeight w;
  w.name = tensor.name;
  w.cols = tensor.shape.at(0);
  w.rows = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  w.storage = file;
  const auto layout = format.layout(w.rows, w.cols);
  if (layout.size() != 1 || layout[0].bytes() != tensor.bytes) {
    throw Error(file->path(), "tensor " + w.name + " does not have the bytes that format " + format.label() + " lays out");
  }
  TensorRef part;
  part.data = const_cast<std::byte*>(tensor.data);
  part.dtype = layout[0].dtype;
  part.rank = static_cast<int>(layout[0].shape.size());
  std::int64_t step = 1;
  for (int i = part.rank - 1; i >= 0; --i) {
    part.shape[i] = layout[0].shape[i];
    part.strides[i] = step;
    step *= part.shape[i];
  }
  w.parts = {part};
  return w;
}

Buffer load_norm(const ModelFile& file, const std::string& name, int size, Device& device) {
  const FileTensor* tensor = file.tensor(name);
  if (!tensor || tensor->format != "fp32" || tensor->bytes != 4 * static_cast<std::int64_t>(size)) {
    throw Error(file.path(), "tensor " + name + " is missing or not F32 of " + std::to_string(size));
  }
  Buffer norm = device.allocate(tensor->bytes);
  std::memcpy(norm.data(), tensor->data, static_cast<std::size_t>(tensor->bytes));
  return norm;
}

WeightView view_of(const Linear& linear) {
  const auto decode = [&linear](std::int64_t first_row, View<float, 2> out) { linear.format->decode(linear.packed, first_row, out); };
  return {linear.packed.name, linear.format->label(), linear.packed.rows, linear.packed.cols, linear.packed.parts[0].data, decode};
}

WeightView view_of(const Buffer& norm, const std::string& name) {
  const auto values = norm.view<const float, 1>({norm.size() / bytes_of(DType::f32)});
  const auto copy = [values](std::int64_t, View<float, 2> out) { std::copy_n(values.data, out.size(), out.data); };
  return {name, "fp32", 1, values.shape[0], values.data, copy};
}

/// Loads one matrix after the other and keeps the books.
class Loader {
 public:
  Loader(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, const WeightPlan& plan, Ops& ops)
      : file_(file), config_(config), plan_(plan), ops_(ops) {}

  Linear matrix(const std::string& name) {
    const FileTensor* tensor = file_->tensor(name);
    if (!tensor) throw Error(file_->path(), "tensor " + name + " is missing");
    Linear linear;
    linear.format = stored_format(*file_, *tensor);
    linear.packed = mapped(file_, *tensor, *linear.format);
    const WeightPlan::Choice& choice = plan_.choice(name);
    if (choice.format) quantize(linear, choice);
    linear.kernel = linear.format->prepare(linear.packed, ops_, config_.activations);
    count(linear, choice.format != nullptr);
    paths.push_back({name, linear.format->label(), linear.kernel->path()});
    return linear;
  }

  WeightSizes sizes;
  std::vector<TensorPath> paths;

 private:
  void quantize(Linear& linear, const WeightPlan::Choice& choice) {
    const std::int64_t rows = linear.packed.rows, cols = linear.packed.cols;
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    const View<float, 2> w(values.data(), {rows, cols});
    ops_.device().parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end, int) {
      linear.format->decode(linear.packed, begin, w.rows(begin, end));
    });
    PackedWeight out = choice.format->allocate(linear.packed.name, rows, cols, ops_.device());
    try {
      choice.quantizer->quantize(w, {}, *choice.format, ops_.device(), out);
    } catch (const Error& error) {
      throw error.at(linear.packed.name);
    }
    linear.packed = std::move(out);
    linear.format = choice.format;
  }

  void count(const Linear& linear, bool quantized) {
    const std::int64_t parameters = linear.packed.rows * linear.packed.cols;
    const double bits = linear.format->bits_per_weight(linear.packed.rows, linear.packed.cols) * static_cast<double>(parameters);
    sizes.parameters += parameters;
    sizes.weights_bytes += static_cast<std::int64_t>(bits / 8);
    if (quantized) {
      sizes.quantized_parameters += parameters;
      quantized_bits_ += bits;
      sizes.quantized_bits_per_weight = quantized_bits_ / static_cast<double>(sizes.quantized_parameters);
    }
  }

  const std::shared_ptr<const ModelFile>& file_;
  const RunConfig& config_;
  const WeightPlan& plan_;
  Ops& ops_;
  double quantized_bits_ = 0;
};

}  // namespace

WeightPlan::WeightPlan(const ModelFile& file, const ModelSpec& spec, const RunConfig& config) {
  const auto made = [](const WeightRule& rule) {
    Choice choice;
    choice.quantizer = make<Quantizer>(rule.quantizer);
    if (!choice.quantizer->keeps_stored()) choice.format = make<WeightFormat>(rule.format);
    if (choice.quantizer->needs() != Needs::nothing) {
      throw Error("weights.quantizer", rule.quantizer.type + " needs calibration, which this engine does not run", "none, rtn");
    }
    return choice;
  };
  const Choice by_default = made(config.weights);
  std::vector<Choice> by_rule;
  for (const WeightRule& rule : config.rules) by_rule.push_back(made(rule));
  std::vector<bool> used(config.rules.size());
  for (const FileTensor& tensor : file.tensors()) {
    if (tensor.shape.size() != 2) continue;
    matrices_.push_back(&tensor);
    const std::string name(tensor.name), short_name = stem(tensor.name);
    Choice& choice = choices_[name];
    if (in_block(name) || config.quantize_all) choice = by_default;
    for (std::size_t i = config.rules.size(); i-- > 0;) {  // backwards, so that the first rule has the last word
      if (fnmatch(config.rules[i].match.c_str(), short_name.c_str(), 0) != 0) continue;
      used[i] = true;
      choice = by_rule[i];
    }
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    throw Error("weights.rules[" + std::to_string(i) + "].match", "\"" + config.rules[i].match + "\" matches no weight of the model",
                "names such as blk.0.attn_q, *.ffn_down, token_embd (layers 0 to " + std::to_string(spec.layers - 1) + ")");
  }
}

const WeightPlan::Choice& WeightPlan::choice(const std::string& tensor) const {
  static const Choice kStored;
  const auto found = choices_.find(tensor);
  return found == choices_.end() ? kStored : found->second;
}

void check_weights(const ModelFile& file, const WeightPlan& plan) {
  for (const FileTensor* tensor : plan.matrices()) {
    const auto stored = stored_format(file, *tensor);
    const auto& wanted = plan.choice(std::string(tensor->name)).format;
    try {
      (wanted ? *wanted : *stored).layout(tensor->shape[1], tensor->shape[0]);
    } catch (const Error& error) {
      throw error.at("tensor " + std::string(tensor->name));
    }
  }
}

std::vector<WeightView> weight_views(const ModelWeights& weights, const ModelSpec& spec) {
  std::vector<WeightView> views = {view_of(weights.embedding)};
  for (std::size_t layer = 0; layer < weights.blocks.size(); ++layer) {
    const BlockWeights& block = weights.blocks[layer];
    views.push_back(view_of(block.attention_norm, block_tensor(static_cast<int>(layer), spec.names.attention_norm)));
    for (const Linear* linear : {&block.q, &block.k, &block.v, &block.attention_output}) views.push_back(view_of(*linear));
    views.push_back(view_of(block.ffn_norm, block_tensor(static_cast<int>(layer), spec.names.ffn_norm)));
    for (const Linear* linear : {&block.gate, &block.up, &block.down}) views.push_back(view_of(*linear));
  }
  views.push_back(view_of(weights.output_norm, "output_norm.weight"));
  if (!spec.tied_head) views.push_back(view_of(weights.head));
  return views;
}

ModelWeights load_weights(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config, Ops& ops) {
  const WeightPlan plan(*file, spec, config);
  check_weights(*file, plan);
  Loader loader(file, config, plan, ops);
  ModelWeights weights;
  weights.embedding = loader.matrix("token_embd.weight");
  if (!spec.tied_head) weights.head = loader.matrix("output.weight");
  weights.output_norm = load_norm(*file, "output_norm.weight", spec.hidden, ops.device());
  const LayerTensors& n = spec.names;
  for (int layer = 0; layer < spec.layers; ++layer) {
    BlockWeights block;
    const auto matrix = [&](const std::string& name) { return loader.matrix(block_tensor(layer, name)); };
    block.attention_norm = load_norm(*file, block_tensor(layer, n.attention_norm), spec.hidden, ops.device());
    block.ffn_norm = load_norm(*file, block_tensor(layer, n.ffn_norm), spec.hidden, ops.device());
    block.q = matrix(n.q);
    block.k = matrix(n.k);
    block.v = matrix(n.v);
    block.attention_output = matrix(n.attention_output);
    block.gate = matrix(n.gate);
    block.up = matrix(n.up);
    block.down = matrix(n.down);
    weights.blocks.push_back(std::move(block));
  }
  weights.sizes = loader.sizes;
  const std::int64_t norms = static_cast<std::int64_t>(spec.hidden) * (2 * spec.layers + 1);
  weights.sizes.parameters += norms;
  weights.sizes.weights_bytes += 4 * norms;
  weights.sizes.bits_per_weight = 8.0 * static_cast<double>(weights.sizes.weights_bytes) / static_cast<double>(weights.sizes.parameters);
  weights.paths = std::move(loader.paths);
  file->release_pages();
  return weights;
}

}  // namespace patchbay

#include "weights.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "device_rows.h"
#include "engine/plain_numbers.h"
#include "kernel_choice.h"
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"
#include "quantize/quantize_matrix.h"

namespace patchbay {
namespace {

/// Rows [first, first + count) of a stored matrix.
struct RowRange { std::int64_t first = 0, count = 0; };

/// The values of a tensor of plain numbers as fp32, the format that stands for it.
PackedWeight widened(const FileTensor& tensor, const WeightFormat& fp32, RowRange range, Device& device) {
  const std::int64_t cols = tensor.shape.at(0);
  PackedWeight w = fp32.allocate(std::string(tensor.name), range.count, cols, device);
  const auto values = w.parts.at(0).as<float, 2>();
  device.parallel_for(range.count, 16, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) read_plain_numbers(tensor, (range.first + r) * cols, values[r]);
  });
  return w;
}

/// Points a format's single part at the file's bytes.
PackedWeight mapped(const std::shared_ptr<const ModelFile>& file, const FileTensor& tensor, const WeightFormat& format,
                    RowRange range) {
  if (tensor.module) return tensor.module->read(range.first, range.count);
  PackedWeight w;
  w.name = tensor.name;
  w.cols = tensor.shape.at(0);
  w.rows = range.count;
  w.storage = file;
  const auto layout = format.layout(w.rows, w.cols);
  const std::int64_t all_rows = rows_of(tensor), row_bytes = tensor.bytes / std::max<std::int64_t>(all_rows, 1);
  if (layout.size() != 1 || layout[0].bytes() != row_bytes * w.rows || range.first + range.count > all_rows) {
    throw Error(file->path(), "tensor " + w.name + " does not have the bytes that format " + format.label() + " lays out");
  }
  w.parts = {layout[0].at(const_cast<std::byte*>(tensor.data + range.first * row_bytes))};
  return w;
}

/// Loads one matrix after the other and keeps the books.
class Loader {
 public:
  Loader(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config, const WeightPlan& plan,
         const Placement& placement, const QuantizedModel& quantized)
      : file_(file), spec_(spec), config_(config), plan_(plan), placement_(placement), quantized_(quantized), host_(placement.host->device()) {}

  /// The matrix of a role, with its bias where the file has one; empty when the model has no such role.
  Linear matrix(Role role, int layer, int expert = 0) {
    Linear linear = stored_or_quantised(role, layer, expert);
    if (linear.format) prepare(linear, placement_.of(layer));
    return linear;
  }

  /// A table of rows by token or position, where the first layer is; multiplied only where it is the head too.
  Linear table(Role role, bool is_head) {
    Linear linear = stored_or_quantised(role, -1, 0);
    if (!linear.format) return linear;
    Ops& first = placement_.of(0);
    const bool multiplied = is_head && &first == &placement_.of(spec_.layers);
    if (multiplied || first.device().is_host()) {
      prepare(linear, first);
      return linear;
    }
    choose_kernels(linear, first);
    linear.kernel = linear.format->prepare(linear.packed, first, ActivationMode::fp32);
    const bool there = linear.kernel->takes_rows();
    if (!there) linear.kernel.reset();  // nothing else is asked of it
    list(linear, linear.packed.name, linear.format->label() + ":rows taken on the " + (there ? "device" : "host"));
    return linear;
  }

  /// A head that is the embedding, in another place than this.
  Linear tied_head(const Linear& embedding) {
    Linear linear;
    linear.packed = embedding.packed;
    linear.format = embedding.format;
    linear.spec = embedding.spec;
    choose_kernels(linear, placement_.of(spec_.layers));
    linear.kernel = linear.format->prepare(linear.packed, placement_.of(spec_.layers), ActivationMode::fp32);
    list(linear, linear.packed.name + " (head)", linear.kernel->path());
    return linear;
  }

  /// A head that the file does not have: a transform made another matrix of it than of the embedding.
  Linear untied_head() {
    Linear linear;
    const QuantizedMatrix& head = *quantized_.find(kHeadName);
    take(head, plan_.choice(tensor_label(*spec_.place(Role::embedding), -1)), linear);
    count(linear, head.quantized);
    prepare(linear, placement_.of(spec_.layers));
    return linear;
  }

  FeedForwardWeights feed_forward(Role gate, Role up, Role down, int layer, int expert = 0) {
    return {matrix(gate, layer, expert), matrix(up, layer, expert), matrix(down, layer, expert)};
  }

  /// layer: of the block, or number of blocks for what follows them.
  NormWeights norm(Role role, std::int64_t size, int layer) {
    const TensorPlace* place = spec_.place(role);
    if (!place) return {};
    NormWeights norm;
    const std::string label = tensor_label(*place, layer);
    norm.weight = vector(label, tensor_name(*place, layer), 0, size);
    const auto values = norm.weight.values.view<float, 1>({size});
    const float offset = quantized_.vector(label) ? 0 : spec_.norm_offset;
    for (std::int64_t i = 0; i < size; ++i) values[i] += offset;
    if (spec_.norm == Norm::layer) norm.bias = vector(bias_name(label), tensor_name(*place, layer, 0, ".bias"), 0, size);
    place_on(placement_.of(layer), norm.weight);
    place_on(placement_.of(layer), norm.bias);
    return norm;
  }

  VectorWeight vector(Role role, std::int64_t size, int layer) {
    const TensorPlace* place = spec_.place(role);
    return place ? vector(tensor_label(*place, layer), tensor_name(*place, layer), 0, size) : VectorWeight();
  }

  WeightSizes sizes;
  std::vector<TensorPath> paths;

 private:
  Linear stored_or_quantised(Role role, int layer, int expert) {
    const TensorPlace* place = spec_.place(role);
    if (!place) return {};
    const std::string label = tensor_label(*place, layer);
    const FileTensor& tensor = stored(tensor_name(*place, layer, expert));
    const RowRange range = range_of(role, *place, tensor, expert);
    const std::string name = label + part_of(role, *place, tensor, range, expert);
    const WeightPlan::Choice& choice = plan_.choice(label);
    Linear linear;
    const QuantizedMatrix* done = quantized_.find(name);
    if (done) {
      take(*done, choice, linear);
    } else {
      linear = as_stored(*place, tensor, range);
      linear.packed.name = name;
      if (choice.format) quantize(linear, choice);
    }
    const std::string bias = tensor_name(*place, layer, expert, ".bias");
    if (place->needs_bias || file_->tensor(bias) || quantized_.vector(bias_name(name))) linear.bias = vector(bias_name(name), bias, range.first, range.count);
    count(linear, done ? done->quantized : choice.format != nullptr);
    return linear;
  }

  static void take(const QuantizedMatrix& done, const WeightPlan::Choice& choice, Linear& linear) {
    linear.packed = done.packed;
    linear.format = done.format;
    linear.spec = done.quantized ? choice.spec : PluginSpec{done.format->label(), nullptr};
  }

  Linear as_stored(const TensorPlace& place, const FileTensor& tensor, RowRange range) const {
    Linear linear;
    linear.format = stored_format(*file_, tensor);
    linear.spec = stored_spec(tensor);
    if (place.transposed) transpose(linear, tensor, range);
    else linear.packed = packed(tensor, *linear.format, range);
    return linear;
  }

  /// The format once more, with the kernels that are to run in this place.
  void choose_kernels(Linear& linear, Ops& ops) const {
    if (linear.spec.type.empty()) return;
    linear.format = make<WeightFormat>(format_on(linear.spec, config_, ops.device().is_host() ? "cpu" : "cuda"));
  }

  void prepare(Linear& linear, Ops& ops) {
    choose_kernels(linear, ops);
    const bool host = ops.device().is_host();
    linear.kernel = linear.format->prepare(linear.packed, ops, host ? config_.activations : ActivationMode::fp32);
    place_on(ops, linear.bias);
    list(linear, linear.packed.name, linear.kernel->path());
  }

  /// A tensor in several parts (experts; q, k and v in one) is one line of the record.
  void list(const Linear& linear, const std::string& name, const std::string& path) {
    const std::string label = label_of(name);
    if (!listed_.insert(label).second) return;
    const double bits = linear.format->bits_per_weight(linear.packed.rows, linear.packed.cols);
    paths.push_back({label, linear.format->label(), path, bits, plan_.choice(label).instead_of});
  }

  static void place_on(Ops& ops, VectorWeight& weight) {
    if (weight.size() == 0 || ops.device().is_host()) return;
    const std::int64_t size = weight.size() / bytes_of(DType::f32);
    weight.uploaded = upload_values(weight.values.view<const float, 2>({1, size}), DType::f32, ops.device());
  }

  const FileTensor& stored(const std::string& name) const {
    const FileTensor* tensor = file_->tensor(name);
    if (!tensor) throw Error(file_->path(), "tensor " + name + " is missing");
    return *tensor;
  }

  PackedWeight packed(const FileTensor& tensor, const WeightFormat& format, RowRange range) const {
    return holds_plain_numbers(tensor) ? widened(tensor, format, range, host_) : mapped(file_, tensor, format, range);
  }

  /// The rows that a role has of a tensor. @throws Error unless they are as many and as long as the model wants.
  RowRange range_of(Role role, const TensorPlace& place, const FileTensor& tensor, int expert) const {
    const bool stacked = place.name.find('#') == std::string::npos;  // all experts in one tensor
    const std::int64_t outputs = place.transposed ? tensor.shape.at(0) : rows_of(tensor);
    const std::int64_t inputs = place.transposed ? rows_of(tensor) : tensor.shape.at(0);
    const std::int64_t rows = place.rows > 0 ? place.rows : outputs;
    const RowRange range{place.first_row + (stacked ? expert * rows : 0), rows};
    const MatrixShape wanted = matrix_shape(spec_, role);
    if (rows != wanted.rows || inputs != wanted.cols || range.first + rows > outputs) {
      throw Error(file_->path(),
                  "tensor " + std::string(tensor.name) + " is " + std::to_string(outputs) + " x " + std::to_string(inputs),
                  std::to_string(wanted.rows) + " x " + std::to_string(wanted.cols) +
                      (place.rows > 0 ? " from row " + std::to_string(range.first) : ""));
    }
    return range;
  }

  /// "[64:96]" or "[expert 3]" for a part of a tensor.
  static std::string part_of(Role role, const TensorPlace& place, const FileTensor& tensor, RowRange range, int expert) {
    const bool of_expert = role == Role::expert_gate || role == Role::expert_up || role == Role::expert_down;
    if (of_expert) return "[expert " + std::to_string(expert) + "]";
    const std::int64_t all = place.transposed ? tensor.shape.at(0) : rows_of(tensor);
    return range.count == all ? "" : "[" + std::to_string(range.first) + ":" + std::to_string(range.first + range.count) + "]";
  }

  /// `size` values in fp32: those of `label` where something changed them, else a tensor's from `first` on.
  VectorWeight vector(const std::string& label, const std::string& name, std::int64_t first, std::int64_t size) {
    Buffer buffer = host_.allocate(size * bytes_of(DType::f32));
    sizes.parameters += size;
    sizes.weights_bytes += buffer.size();
    if (const std::vector<float>* changed = quantized_.vector(label)) {
      std::memcpy(buffer.data(), changed->data(), static_cast<std::size_t>(buffer.size()));
      return {std::move(buffer), {}};
    }
    const FileTensor& tensor = stored(name);
    const std::int64_t rows = rows_of(tensor), cols = tensor.shape.at(0);
    if (first + size > rows * cols)
      throw Error(file_->path(), "tensor " + name + " has fewer than " + std::to_string(first + size) + " values");
    std::vector<float> all(static_cast<std::size_t>(rows * cols));
    StoredRows(file_, tensor).read(0, View<float, 2>(all.data(), {rows, cols}));
    std::memcpy(buffer.data(), all.data() + first, static_cast<std::size_t>(buffer.size()));
    return {std::move(buffer), {}};
  }

  /// Rows of the transpose of what the file holds, in fp32.
  void transpose(Linear& linear, const FileTensor& tensor, RowRange range) const {
    const std::int64_t inputs = rows_of(tensor), outputs = tensor.shape.at(0);
    std::vector<float> values(static_cast<std::size_t>(inputs * outputs));
    StoredRows(file_, tensor).read(0, View<float, 2>(values.data(), {inputs, outputs}));
    linear.spec = {"fp32", nullptr};
    linear.format = make<WeightFormat>(linear.spec);
    linear.packed = linear.format->allocate({}, range.count, inputs, host_);
    const auto out = linear.packed.parts.at(0).as<float, 2>();
    for (std::int64_t r = 0; r < range.count; ++r) {
      for (std::int64_t c = 0; c < inputs; ++c) out(r, c) = values[c * outputs + range.first + r];
    }
  }

  void quantize(Linear& linear, const WeightPlan::Choice& choice) {
    const std::vector<float> values = decoded(linear, host_);
    const View<const float, 2> w(values.data(), {linear.packed.rows, linear.packed.cols});
    QuantizedMatrix done = quantize_matrix(linear.packed.name, w, {}, *choice.quantizer, choice.format, host_);
    linear.packed = std::move(done.packed);
    linear.format = std::move(done.format);
    linear.spec = choice.spec;
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
  const ModelSpec& spec_;
  const RunConfig& config_;
  const WeightPlan& plan_;
  const Placement& placement_;
  const QuantizedModel& quantized_;
  Device& host_;
  std::set<std::string> listed_;  ///< in paths
  double quantized_bits_ = 0;
};

BlockWeights block_of(Loader& loader, const ModelSpec& spec, int layer) {
  BlockWeights block;
  block.attention_norm = loader.norm(Role::attention_norm, spec.hidden, layer);
  block.q_norm = loader.norm(Role::q_norm, spec.head_size, layer);
  block.k_norm = loader.norm(Role::k_norm, spec.head_size, layer);
  block.attention_post_norm = loader.norm(Role::attention_post_norm, spec.hidden, layer);
  block.ffn_norm = loader.norm(Role::ffn_norm, spec.hidden, layer);
  block.ffn_post_norm = loader.norm(Role::ffn_post_norm, spec.hidden, layer);
  block.q = loader.matrix(Role::q, layer);
  block.k = loader.matrix(Role::k, layer);
  block.v = loader.matrix(Role::v, layer);
  block.attention_output = loader.matrix(Role::attention_output, layer);
  if (!spec.expert_layer[layer]) {
    block.ffn = loader.feed_forward(Role::gate, Role::up, Role::down, layer);
    return block;
  }
  block.router = loader.matrix(Role::router, layer);
  for (int expert = 0; expert < spec.experts.count; ++expert) {
    block.experts.push_back(loader.feed_forward(Role::expert_gate, Role::expert_up, Role::expert_down, layer, expert));
  }
  block.shared = loader.feed_forward(Role::shared_gate, Role::shared_up, Role::shared_down, layer);
  block.shared_router = loader.vector(Role::shared_router, spec.hidden, layer);
  return block;
}

}  // namespace

StoredRows::StoredRows(const std::shared_ptr<const ModelFile>& file, const FileTensor& tensor) : tensor_(tensor), format_(stored_format(*file, tensor)) {
  if (!holds_plain_numbers(tensor)) packed_ = mapped(file, tensor, *format_, {0, rows_of(tensor)});
}

void StoredRows::read(std::int64_t first_row, View<float, 2> out) const {
  if (!packed_.parts.empty()) return format_->decode(packed_, first_row, out);
  for (std::int64_t r = 0; r < out.shape[0]; ++r) read_plain_numbers(tensor_, (first_row + r) * tensor_.shape.at(0), out[r]);
}

namespace {

void load_outside_of(Loader& loader, const ModelSpec& spec, const Placement& placement, bool untied_head, ModelWeights& weights) {
  const bool one_kernel = spec.tied_head && !untied_head;
  weights.embedding = loader.table(Role::embedding, one_kernel);
  weights.position_embedding = loader.table(Role::position_embedding, false);
  weights.head = untied_head ? loader.untied_head() : loader.matrix(Role::head, spec.layers);
  if (one_kernel && &placement.of(0) != &placement.of(spec.layers)) weights.head = loader.tied_head(weights.embedding);
  weights.output_norm = loader.norm(Role::output_norm, spec.hidden, spec.layers);
}

}  // namespace

ModelWeights load_weights(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config,
                          const Placement& placement, const QuantizedModel& quantized) {
  const WeightPlan plan(*file, spec, config);
  check_weights(*file, plan, config);
  Loader loader(file, spec, config, plan, placement, quantized);
  ModelWeights weights;
  load_outside_of(loader, spec, placement, quantized.untied_head, weights);
  for (int layer = 0; layer < spec.layers; ++layer) weights.blocks.push_back(block_of(loader, spec, layer));
  weights.sizes = loader.sizes;
  weights.sizes.bits_per_weight =
      8.0 * static_cast<double>(weights.sizes.weights_bytes) / static_cast<double>(weights.sizes.parameters);
  weights.paths = std::move(loader.paths);
  file->release_pages();
  return weights;
}

BlockWeights load_block(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config,
                        const Placement& placement, const QuantizedModel& quantized, int layer) {
  const WeightPlan as_stored;
  Loader loader(file, spec, config, as_stored, placement, quantized);
  return block_of(loader, spec, layer);
}

ModelWeights load_outside(const std::shared_ptr<const ModelFile>& file, const ModelSpec& spec, const RunConfig& config,
                          const Placement& placement, const QuantizedModel& quantized) {
  const WeightPlan as_stored;
  Loader loader(file, spec, config, as_stored, placement, quantized);
  ModelWeights weights;
  load_outside_of(loader, spec, placement, quantized.untied_head, weights);
  return weights;
}

}  // namespace patchbay

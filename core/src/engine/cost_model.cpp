#include "engine/cost_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/weights.h"
#include "patchbay/kv_store.h"
#include "patchbay/plugin.h"
#include "quantize/sensitivity_scan.h"
#include "session.h"

namespace patchbay {
namespace {

constexpr double kFloatBytes = 4;
/// One value rounded to 8 bits: its code, and a block's scale and sum (4 bytes each) over 32 columns.
constexpr double kQ8Bytes = 1 + 8.0 / Q8Rows::kBlock;

/// Tokens that T rows see together, causal: row i sees c + i, itself included, but no more than the window. (C4)
double tokens_seen(double rows, double context, double window) {
  const double whole = window > 0 ? std::clamp(window - context, 0.0, rows) : rows;  // rows that the window does not cut
  return whole * context + whole * (whole + 1) / 2 + (rows - whole) * window;
}

PartCost product(const ModelCost& cost, const MatrixCost& matrix, double all_rows) {  // (C3)
  const double rows = all_rows * matrix.share, read = matrix.share < 1 ? 1 - std::pow(1 - matrix.share, all_rows) : 1;
  const double values = static_cast<double>(matrix.rows) * static_cast<double>(matrix.cols);
  PartCost part;
  part.name = matrix.use == MatrixCost::Use::head ? "head" : "products";
  if (rows <= 0) return part;
  const double input = cost.activations == ActivationMode::q8 ? kQ8Bytes : kFloatBytes;
  part.weight_bytes = read * static_cast<double>(matrix.bytes);  // read: how likely any row needs it
  part.activation_bytes = rows * (static_cast<double>(matrix.cols) * input + static_cast<double>(matrix.rows) * kFloatBytes);
  part.operations = 2 * rows * values;
  part.integer = matrix.integer;
  return part;
}

PartCost attention(const ModelCost& cost, const PassShape& pass, int layer) {  // (C4)
  const ModelSpec& spec = cost.spec;
  const double per_token = static_cast<double>(cost.kv_bytes_per_token) / spec.layers;
  const double window = static_cast<double>(spec.windows[layer]), width = static_cast<double>(spec.heads) * spec.head_size;
  double read = pass.context + pass.rows;
  if (window > 0) read = std::min(read, window + pass.rows - 1);
  PartCost part;
  part.name = "attention";
  part.kv_bytes = (read + pass.rows) * per_token;  // read once for all rows; the rows' own written
  part.activation_bytes = 2 * kFloatBytes * pass.rows * width;
  part.operations = 4 * width * tokens_seen(pass.rows, pass.context, window);
  return part;
}

/// Values of a row between the two products of a feed-forward part; of all experts that it goes through.
double ffn_values(const ModelSpec& spec, int layer) {
  if (spec.expert_layer.empty() || !spec.expert_layer[layer]) return spec.ffn;
  return static_cast<double>(spec.experts.used) * spec.experts.ffn + spec.experts.shared_ffn;
}

PartCost elementwise(const ModelCost& cost, const PassShape& pass) {  // (C5)
  const ModelSpec& spec = cost.spec;
  const double hidden = spec.hidden, q = static_cast<double>(spec.heads) * spec.head_size;
  const double k = static_cast<double>(spec.kv_heads) * spec.head_size;
  const double rounding = cost.activations == ActivationMode::q8 ? kFloatBytes + kQ8Bytes : 0;
  const auto has = [&](Role role) { return spec.place(role) ? 1.0 : 0.0; };
  const double norms = 2 * hidden * (2 + has(Role::attention_post_norm) + has(Role::ffn_post_norm)) + 2 * (q * has(Role::q_norm) + k * has(Role::k_norm));
  double blocks = 0;
  for (int layer = 0; layer < spec.layers; ++layer) {
    const double ffn = ffn_values(spec, layer), sums = 6 * hidden, gate = (spec.gated ? 3 : 2) * ffn;
    const double rope = spec.rope_of_layer.empty() || spec.rope_of_layer[layer] < 0 ? 0 : 2 * (q + k);
    blocks += kFloatBytes * (norms + sums + rope + gate) + rounding * (2 * hidden + q + ffn);
  }
  const double embedding = cost.embedding_row_bytes + kFloatBytes * hidden;
  const double logits = kFloatBytes * (2 * hidden + spec.vocabulary) + rounding * hidden;  // the decoder reads them
  PartCost part;
  part.name = "elementwise";
  part.activation_bytes = pass.rows * (embedding + blocks) + pass.logit_rows * logits;
  return part;
}

/// Which of the machine's two bandwidths serves what is used again in each pass, and what passes between operations. (C7)
struct Bandwidths {
  double streamed, activations;
  Bandwidths(const ModelCost& cost, const PassShape& pass, const MachineLimits& machine) {
    const double kept = static_cast<double>(cost.weights_bytes) +
                        (pass.context + pass.rows) * static_cast<double>(cost.kv_bytes_per_token);
    double ffn = 0;
    for (int layer = 0; layer < cost.spec.layers; ++layer) ffn = std::max(ffn, ffn_values(cost.spec, layer));
    const double live = kFloatBytes * pass.rows * (cost.spec.hidden + 2 * ffn);
    const auto of = [&](double bytes) { return 2 * bytes <= machine.cache_bytes ? machine.cache_bytes_per_s : machine.memory_bytes_per_s; };
    streamed = of(kept);
    activations = of(live);
  }
};

std::int64_t kv_bytes(const ModelSpec& spec, const KvFormat& format) {  // (C2)
  const std::int64_t row = format.row_bytes(spec.head_size) + (format.layout().scaled ? bytes_of(DType::f16) : 0);
  return 2 * static_cast<std::int64_t>(spec.layers) * spec.kv_heads * row;
}

bool is_vector(Role role) {
  switch (role) {
    case Role::output_norm: case Role::attention_norm: case Role::attention_post_norm: case Role::ffn_norm: case Role::ffn_post_norm:
    case Role::q_norm: case Role::k_norm: case Role::shared_router: return true;
    default: return false;
  }
}

/// Adds up what each role of a model is in the run.
class Counter {
 public:
  Counter(ModelCost& cost, const ModelFile& file, const RunConfig& config, const WeightPlan& plan, std::span<const TensorPath> paths)
      : cost_(cost), file_(file), plan_(plan), open_(left_to_scan(plan, config)), budget_(config.sensitivity.budget), first_on_device_(first_on_device(cost.spec, config)) {
    for (const TensorPath& tensor : paths) integer_[tensor.tensor] = tensor.path.find(":integer/") != std::string::npos;
  }

  void add(const TensorPlace& place, int layer, int expert) {
    const ModelSpec& spec = cost_.spec;
    const auto [rows, cols] = matrix_shape(spec, place.role);
    on_device_ = (layer >= 0 ? layer : use_of(place.role) == MatrixCost::Use::lookup ? 0 : spec.layers) >= first_on_device_;
    if (is_vector(place.role)) {
      add_floats(rows);
      if (spec.norm == Norm::layer && place.role != Role::shared_router) add_floats(rows);
      return;
    }
    // All experts of a tensor that holds them together come as one place.
    const bool of_expert = place.role == Role::expert_gate || place.role == Role::expert_up || place.role == Role::expert_down;
    const int copies = of_expert && place.name.find('#') == std::string::npos ? spec.experts.count : 1;
    const std::string label = tensor_label(place, layer);
    MatrixCost matrix{rows, cols};
    matrix.bytes = open_.contains(label) ? static_cast<std::int64_t>(budget_ / 8 * static_cast<double>(rows * cols))  // what the scan will leave unused is not known
                                         : format_of(place, label, layer, expert)->packed_bytes(rows, cols);          // (C1)
    matrix.use = use_of(place.role);
    matrix.integer = integer_[label];
    if (of_expert) matrix.share = static_cast<double>(spec.experts.used) / spec.experts.count;
    if (place.role == Role::embedding) cost_.embedding_row_bytes = static_cast<double>(matrix.bytes) / static_cast<double>(rows);
    for (int copy = 0; copy < copies; ++copy) {
      cost_.parameters += rows * cols;
      add_bytes(matrix.bytes);
      cost_.matrices.push_back(matrix);
      if (place.needs_bias || file_.tensor(tensor_name(place, layer, expert, ".bias"))) add_floats(rows);
    }
  }

 private:
  /// Norms and biases are kept in fp32.
  void add_floats(std::int64_t count) {
    cost_.parameters += count;
    add_bytes(count * bytes_of(DType::f32));
  }
  void add_bytes(std::int64_t bytes) {
    cost_.weights_bytes += bytes;
    if (on_device_) cost_.device_bytes += bytes;
  }
  /// As Placement has it: past the head where nothing lies on a device.
  static int first_on_device(const ModelSpec& spec, const RunConfig& config) {
    if (config.device == "cpu" || config.gpu_layers == 0) return spec.layers + 1;
    return config.gpu_layers == kAllLayers ? 0 : spec.layers - config.gpu_layers;
  }
  std::shared_ptr<WeightFormat> format_of(const TensorPlace& place, const std::string& label, int layer, int expert) const {
    if (const auto& chosen = plan_.choice(label).format) return chosen;
    if (place.transposed) return make<WeightFormat>({"fp32", nullptr});  // as the loader leaves it
    const std::string name = tensor_name(place, layer, expert);
    const FileTensor* tensor = file_.tensor(name);
    if (!tensor) throw Error(file_.path(), "tensor " + name + " is missing");
    return stored_format(file_, *tensor);
  }
  MatrixCost::Use use_of(Role role) const {
    if (role == Role::head || (role == Role::embedding && cost_.spec.tied_head)) return MatrixCost::Use::head;
    return role == Role::embedding || role == Role::position_embedding ? MatrixCost::Use::lookup : MatrixCost::Use::block;
  }

  ModelCost& cost_;
  const ModelFile& file_;
  const WeightPlan& plan_;
  const std::set<std::string> open_;     ///< labels of what a scan is to choose a format for
  const double budget_;                  ///< and its bits per weight
  int first_on_device_;
  bool on_device_ = false;               ///< what is counted now
  std::map<std::string, bool> integer_;  ///< by label
};

}  // namespace

ModelCost model_cost(const ModelFile& file, const RunConfig& config, std::span<const TensorPath> paths) {
  ModelCost cost;
  cost.spec = read_model_spec(file);
  cost.activations = config.activations;
  const WeightPlan plan(file, cost.spec, config);
  Counter counter(cost, file, config, plan, paths);
  cost.spec.for_each_tensor([&](const TensorPlace& place, int layer, int expert) { counter.add(place, layer, expert); });
  cost.kv_bytes_per_token = kv_bytes(cost.spec, make<KvStore>(config.kv_store)->format());
  return cost;
}

std::vector<PartCost> pass_parts(const ModelCost& cost, const PassShape& pass) {
  std::vector<PartCost> parts;
  for (const MatrixCost& matrix : cost.matrices) {
    if (matrix.use == MatrixCost::Use::lookup) continue;
    parts.push_back(product(cost, matrix, matrix.use == MatrixCost::Use::head ? pass.logit_rows : pass.rows));
  }
  for (int layer = 0; layer < cost.spec.layers; ++layer) parts.push_back(attention(cost, pass, layer));
  parts.push_back(elementwise(cost, pass));
  return parts;
}

PartCost pass_cost(const ModelCost& cost, const PassShape& pass) {
  PartCost sum;
  sum.name = "pass";
  for (const PartCost& part : pass_parts(cost, pass)) {
    sum.weight_bytes += part.weight_bytes;
    sum.kv_bytes += part.kv_bytes;
    sum.activation_bytes += part.activation_bytes;
    sum.operations += part.operations;
    sum.integer = sum.integer || part.integer;
  }
  return sum;
}

double pass_seconds(const ModelCost& cost, const PassShape& pass, const MachineLimits& machine) {  // (C6)
  const Bandwidths bandwidth(cost, pass, machine);
  double seconds = 0;
  for (const PartCost& part : pass_parts(cost, pass)) {
    const double moving = (part.weight_bytes + part.kv_bytes) / bandwidth.streamed + part.activation_bytes / bandwidth.activations;
    seconds += std::max(moving, part.operations / (part.integer ? machine.int8_ops_per_s : machine.fp32_flops_per_s));
  }
  return seconds;
}

double prefill_seconds(const ModelCost& cost, std::int64_t tokens, std::int64_t chunk, const MachineLimits& machine) {  // (C8)
  double seconds = 0;
  for (std::int64_t done = 0; done < tokens; done += chunk) {
    const auto rows = std::min(chunk, tokens - done);
    seconds += pass_seconds(cost, {static_cast<double>(rows), static_cast<double>(done), done + rows == tokens ? 1.0 : 0.0}, machine);
  }
  return seconds;
}

}  // namespace patchbay

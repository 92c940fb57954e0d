// Tensor by tensor: what quantising by itself makes of a matrix is written and forgotten, so that only one is in memory as floats.
#include "quantize/write_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "config.h"
#include "convert/convert.h"
#include "convert/output_names.h"
#include "engine/weights.h"
#include "patchbay/plugin.h"
#include "quantize/output_formats.h"
#include "quantize/quantize_matrix.h"
#include "utf8.h"
#include "writers/gguf_writer.h"

namespace patchbay {
namespace {

std::string_view bytes_of(const PackedWeight& packed) {
  const TensorRef& part = packed.parts.at(0);
  return {static_cast<const char*>(part.data), static_cast<std::size_t>(part.size() * patchbay::bytes_of(part.dtype))};
}

/// "[64:96]" after 64, "[expert 3]" after 3: the place of a part in its tensor.
std::int64_t place_of(const std::string& name) {
  const auto digit = name.find_first_of("0123456789", std::min(name.find('['), name.size()));
  return digit == std::string::npos ? 0 : std::stoll(name.substr(digit));
}

class GgufQuantizing {
 public:
  GgufQuantizing(std::shared_ptr<const ModelFile> file, const RunConfig& config, Ops& ops, const QuantizeOptions& options)
      : file_(std::move(file)), config_(config), ops_(ops), options_(options), spec_(read_model_spec(*file_)), plan_(*file_, spec_, config) {
    for (const WeightPlan::Matrix& matrix : plan_.matrices()) {
      matrices_[std::string(matrix.tensor->name)] = &matrix;
      const auto& format = plan_.choice(matrix.label).format;
      if (format) require_gguf_holds({*format, "tensor " + matrix.label, {}}, matrix.rows, matrix.cols);
    }
  }

  WrittenModel write(const std::string& path) {
    quantized_ = quantize_model(file_, config_, ops_, options_);
    for (auto& [name, matrix] : quantized_.matrices) parts_[label_of(name)].push_back(&matrix);
    for (auto& [label, parts] : parts_) std::ranges::sort(parts, {}, [](const QuantizedMatrix* part) { return place_of(part->packed.name); });
    add_metadata();
    for (const FileTensor& tensor : file_->tensors()) add(tensor);
    if (quantized_.untied_head) add_parts(kHeadName, parts_.at(kHeadName));
    writer_.write(path);
    written_.calibration = quantized_.calibration;
    written_.warnings = quantized_.warnings;
    return std::move(written_);
  }

 private:
  void add_metadata() {
    const std::set<std::string_view> replaced = {"general.file_type", "general.quantization_version", "general.alignment"};
    for (const MetaEntry& entry : file_->metadata())
      if (!replaced.contains(entry.key) && !entry.key.starts_with("split.") && !entry.key.starts_with("patchbay.")) writer_.entry(entry);
    writer_.u32("general.file_type", gguf_file_type(main_format()));
    writer_.u32("general.quantization_version", 2);
    writer_.text("patchbay.weights", to_json(*effective_settings(config_).find("weights")));
    if (quantized_.calibration.samples > 0) writer_.text("patchbay.calibration.sha256", quantized_.calibration.sha256);
  }

  /// As the settings call it (a mix has a name of its own), or the format of most bytes.
  std::string main_format() const {
    if (gguf_file_type(config_.weights.format.type) != gguf_file_type("")) return config_.weights.format.type;
    std::map<std::string, std::int64_t> bytes;
    for (const auto& [name, matrix] : matrices_) {
      const auto& format = plan_.choice(matrix->label).format;
      bytes[format ? format->label() : std::string(matrix->tensor->format)] += matrix->rows * matrix->cols;
    }
    return std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; })->first;
  }

  void add(const FileTensor& tensor) {
    const auto found = matrices_.find(std::string(tensor.name));
    const std::string label = found == matrices_.end() ? std::string(tensor.name) : found->second->label;
    if (const auto* changed = quantized_.vector(label)) return add_vector(label, *changed);
    if (found != matrices_.end()) list(*found->second);
    if (const auto parts = parts_.find(label); parts != parts_.end()) return add_parts(label, parts->second, tensor.shape);
    if (found != matrices_.end() && plan_.choice(label).format) return add_quantized(*found->second);
    add_as_stored(tensor);
  }

  /// The type that a matrix gets.
  void list(const WeightPlan::Matrix& matrix) {
    const WeightPlan::Choice& choice = plan_.choice(matrix.label);
    const auto parts = parts_.find(matrix.label);
    const auto format = parts != parts_.end() ? parts->second.front()->format : choice.format ? choice.format : stored_format(*file_, *matrix.tensor);
    written_.weights.push_back({matrix.label, format->label(), "", format->bits_per_weight(matrix.rows, matrix.cols), choice.instead_of});
  }

  void add_as_stored(const FileTensor& tensor) {
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.bytes));
    add_tensor({std::string(tensor.name), find_tensor_type(tensor.type), tensor.shape, [bytes](ByteSink out) { out(bytes); }});
  }

  void add_vector(const std::string& name, const std::vector<float>& values) {
    const std::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    add_tensor({name, find_tensor_type("F32"), {std::ssize(values)}, [bytes](ByteSink out) { out(bytes); }});
  }

  void add_parts(const std::string& name, const std::vector<QuantizedMatrix*>& parts, std::vector<std::int64_t> shape = {}) {
    if (shape.empty()) shape = {parts.front()->packed.cols, parts.front()->packed.rows};
    for (const QuantizedMatrix* part : parts)
      if (!part->note.empty()) written_.notes.emplace_back(part->packed.name, part->note);
    written_.quantized_tensors += parts.front()->quantized;
    add_tensor({name, gguf_type_of(*parts.front()->format), shape, [parts](ByteSink out) {
                  for (QuantizedMatrix* part : parts) {
                    out(bytes_of(part->packed));
                    forget_bytes(*part);
                  }
                }});
  }

  /// One that is quantised by itself, when it is written: experts one after the other.
  void add_quantized(const WeightPlan::Matrix& matrix) {
    const WeightPlan::Choice& choice = plan_.choice(matrix.label);
    const FileTensor& tensor = *matrix.tensor;
    ++written_.quantized_tensors;
    add_tensor({matrix.label, gguf_type_of(*choice.format), tensor.shape, [this, &matrix, &tensor, &choice](ByteSink out) {
                  const std::int64_t slices = tensor.shape.size() > 2 ? tensor.shape[2] : 1, rows = matrix.rows / slices;
                  if (options_.progress) options_.progress(static_cast<double>(done_bytes_) / static_cast<double>(file_->file_bytes()), matrix.label);
                  const StoredRows stored(file_, tensor);
                  std::vector<float> values(static_cast<std::size_t>(rows * matrix.cols));
                  const View<float, 2> w(values.data(), {rows, matrix.cols});
                  for (std::int64_t slice = 0; slice < slices; ++slice) {
                    ops_.device().parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end, int) { stored.read(slice * rows + begin, w.rows(begin, end)); });
                    out(bytes_of(quantize_matrix(matrix.label, w, {}, *choice.quantizer, choice.format, ops_.device()).packed));
                  }
                  done_bytes_ += tensor.bytes;
                  file_->release_pages();
                }});
  }

  void add_tensor(TensorOutput tensor) {
    ++written_.tensors;
    written_.weights_bytes += tensor.bytes();
    writer_.tensor(std::move(tensor));
  }

  std::shared_ptr<const ModelFile> file_;
  const RunConfig& config_;
  Ops& ops_;
  const QuantizeOptions& options_;
  const ModelSpec spec_;
  const WeightPlan plan_;
  std::map<std::string, const WeightPlan::Matrix*> matrices_;             ///< by the tensor's name in the file
  std::map<std::string, std::vector<QuantizedMatrix*>> parts_;            ///< by label, in the order of the tensor's rows
  QuantizedModel quantized_;
  GgufWriter writer_;
  WrittenModel written_;
  std::int64_t done_bytes_ = 0;
};

}  // namespace

std::uint32_t gguf_file_type(std::string_view format) {
  // As published with ggml; the K-quants alone have the number of their smallest mix.
  static const std::map<std::string_view, std::uint32_t> numbers = {
      {"fp32", 0},    {"fp16", 1},    {"q4_0", 2},    {"q4_1", 3},    {"q8_0", 7},    {"q5_0", 8},    {"q5_1", 9},    {"q2_k", 10},  {"q3_k", 11},
      {"q3_k_s", 11}, {"q3_k_m", 12}, {"q3_k_l", 13}, {"q4_k", 14},   {"q4_k_s", 14}, {"q4_k_m", 15}, {"q5_k", 16},   {"q5_k_s", 16}, {"q5_k_m", 17},
      {"q6_k", 18},   {"q2_k_s", 21}, {"iq4_nl", 25}, {"iq4_xs", 30}, {"bf16", 32}};
  constexpr std::uint32_t kGuessed = 1024;  // what readers take for "not said"
  const auto found = numbers.find(format);
  return found == numbers.end() ? kGuessed : found->second;
}

WrittenModel write_quantized_gguf(std::shared_ptr<const ModelFile> file, const RunConfig& config, Ops& ops, const std::string& out,
                                 const WriteOptions& options) {
  const std::string target = gguf_target(*file, out, options.force);
  check_quantizing(file, config, ops, target);
  const Beside converted(target);  // a folder becomes GGUF first: names, order of rows and tokenizer are then those of the file to come
  if (file->form() != FileForm::gguf) {
    const std::string path = converted.path + ".gguf";
    struct Remove { std::string path; ~Remove() { std::remove(path.c_str()); } } remove{path};
    const auto notes = convert_model(file, path, {});
    file = ModelFile::open(path);
    WrittenModel written = GgufQuantizing(file, config, ops, options.quantize).write(target);
    written.warnings.insert(written.warnings.begin(), notes.begin(), notes.end());
    return written;
  }
  return GgufQuantizing(file, config, ops, options.quantize).write(target);
}

}  // namespace patchbay

// Module by module: what quantising by itself makes of a weight is written and forgotten, so that only one is in memory as floats.
#include "quantize/write_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "config.h"
#include "convert/convert.h"
#include "convert/folder_files.h"
#include "convert/output_names.h"
#include "engine/weights.h"
#include "files.h"
#include "json_file.h"
#include "layouts/folder_layout.h"
#include "patchbay/half.h"
#include "patchbay/plugin.h"
#include "quantize/output_formats.h"
#include "quantize/quantize_matrix.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// "model.layers.0.mlp.up_proj" of "model.layers.0.mlp.up_proj.weight".
std::string module_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

/// "[64:96]" after 64, "[expert 3]" after 3: the place of a part in its tensor.
std::int64_t place_of(const std::string& name) {
  const auto digit = name.find_first_of("0123456789", std::min(name.find('['), name.size()));
  return digit == std::string::npos ? 0 : std::stoll(name.substr(digit));
}

std::string_view bytes_of(const TensorRef& part) { return {static_cast<const char*>(part.data), static_cast<std::size_t>(part.size() * bytes_of(part.dtype))}; }

/// A folder's own config.json, and what it has beside its weights.
struct CopiedFiles {
  explicit CopiedFiles(const std::string& from) : folder(from), config(Json::parse(read_whole_file(from + "/config.json"))) {
    for (const char* key : {"quantization_config", "compression_config"}) config.erase(key);
  }
  void write(const std::string& to) const {
    constexpr std::string_view kNames[] = {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json",
                                           "merges.txt", "tokenizer.model", "chat_template.jinja", "added_tokens.json"};
    for (const std::string_view name : kNames)
      if (const fs::path file = fs::path(folder) / name; fs::exists(file)) fs::copy_file(file, fs::path(to) / name);
    const std::string more = "/additional_chat_templates";
    if (fs::is_directory(folder + more)) fs::copy(folder + more, to + more);
  }
  std::string folder;
  Json config;
};

class FolderQuantizing {
 public:
  FolderQuantizing(std::shared_ptr<const ModelFile> file, const RunConfig& config, Ops& ops, const WriteOptions& options)
      : file_(std::move(file)), config_(config), ops_(ops), options_(options), spec_(read_model_spec(*file_)), plan_(*file_, spec_, config) {
    check_weights(*file_, plan_, config_);
    check_calibration(*file_, config);
    if (file_->form() == FileForm::gguf) {
      made_.emplace(file_);
      pairs_ = made_->pairs();
    } else {
      copied_.emplace(file_->folder());
      pairs_ = tensor_pairs(spec_, false);
    }
    choose_layout();
    announce();
  }

  WrittenModel write(const std::string& folder, std::int64_t shard_bytes) {
    quantized_ = quantize_model(file_, config_, ops_, options_.quantize);
    for (auto& [name, matrix] : quantized_.matrices) parts_[label_of(name)].push_back(&matrix);
    for (auto& [label, parts] : parts_) std::ranges::sort(parts, {}, [](const QuantizedMatrix* part) { return place_of(part->packed.name); });
    std::error_code code;
    fs::create_directory(folder, code);
    if (code) throw Error(escaped(folder), "making the folder failed: " + code.message());
    add_tensors();
    write_safetensors_shards(folder, std::move(outputs_), shard_bytes);
    write_files(folder);
    read_model_spec(*ModelFile::open(folder));
    written_.calibration = quantized_.calibration;
    written_.warnings.insert(written_.warnings.end(), quantized_.warnings.begin(), quantized_.warnings.end());
    return std::move(written_);
  }

 private:
  /// A weight that is quantised: its module, and the rows of the stored tensor that it is made of.
  struct Module {
    TensorPair pair;
    const WeightPlan::Matrix* matrix = nullptr;
    std::int64_t first_row = 0, rows = 0;
    std::vector<ModuleOutput> made;  ///< in the order in which they are written; empty before and after
  };

  const std::string& stored_name(const TensorPair& pair) const { return made_ ? pair.gguf : pair.folder; }

  const WeightPlan::Matrix* matrix_of(const TensorPair& pair) const {
    const FileTensor* tensor = file_->tensor(stored_name(pair));
    const auto found = std::ranges::find(plan_.matrices(), tensor, &WeightPlan::Matrix::tensor);
    return pair.vector || found == plan_.matrices().end() ? nullptr : &*found;
  }

  /// "weights.format gguf_mix/q4_k_m" where it chose a matrix's format; else "".
  std::string mix_of(const WeightPlan::Choice& choice) const {
    if (choice.by_rule || config_.weights.format.type.empty()) return {};
    const std::string label = make<WeightFormat>(config_.weights.format)->label();
    return label == choice.format->label() ? "" : "weights.format " + label;
  }

  /// Of the first weight that is quantised; all of them are looked at.
  void choose_layout() {
    for (const WeightPlan::Matrix& matrix : plan_.matrices()) {
      const auto& format = plan_.choice(matrix.label).format;
      if (!format) continue;
      require_folder_holds({*format, "tensor " + matrix.label, mix_of(plan_.choice(matrix.label))}, matrix.rows, matrix.cols);
      if (!layout_) layout_ = make_folder_layout(options_.layout, *format, matrix.rows, matrix.cols);
    }
    if (!layout_) throw Error("weights.quantizer", "quantises no weight of this model", "", "name a quantizer, or use patchbay convert");
  }

  void announce() {
    for (const TensorPair& pair : pairs_) {
      const WeightPlan::Matrix* matrix = matrix_of(pair);
      if (!matrix) continue;
      const auto& format = plan_.choice(matrix->label).format;
      const bool in_block = matrix->label.starts_with("blk.");
      if (!format) {
        if (in_block) layout_->keep(module_of(pair.folder));
        continue;
      }
      if (pair.transposed) throw Error(pair.folder, "is a weight of inputs x outputs, which layouts of quantised folders do not have", "", "write a GGUF file, in a format that GGUF has: format.type=q4_0");
      if (pair.role == Role::embedding || pair.role == Role::position_embedding)
        throw Error(pair.folder, "is no linear layer, and layouts of quantised folders quantise nothing else", "", "targets=blocks, and no rule for it");
      Module& module = modules_[pair.folder];
      module.pair = pair;
      module.matrix = matrix;
      const std::int64_t slices = made_ && pair.stacked ? spec_.experts.count : 1;
      module.rows = matrix->rows / slices;
      module.first_row = made_ && pair.stacked ? pair.expert * module.rows : 0;
      shapes_[pair.folder] = layout_->announce(module_of(pair.folder), *format, module.rows, matrix->cols);
    }
  }

  void add_tensors() {
    std::map<std::string, TensorOutput> plain;
    int rounded = 0;
    if (made_)
      for (TensorOutput& tensor : tensors_for_folder(file_, pairs_, nullptr)) plain.emplace(tensor.name, std::move(tensor));
    for (const TensorPair& pair : pairs_) {
      const auto parts = parts_.find(pair.gguf);
      if (modules_.contains(pair.folder)) add_module(modules_.at(pair.folder));
      else if (pair.vector && add_changed_vector(pair)) continue;
      else if (!pair.vector && parts != parts_.end()) add_changed(pair, parts->second);
      else {
        rounded += is_quantised(*file_->tensor(stored_name(pair)));
        add(made_ ? std::move(plain.at(pair.folder)) : as_stored(pair));
      }
    }
    if (quantized_.untied_head) add_untied_head();
    if (rounded > 0) written_.warnings.push_back(rounding_note(rounded, "F16"));
  }

  void add(TensorOutput tensor) {
    ++written_.tensors;
    written_.weights_bytes += tensor.bytes();
    outputs_.push_back(std::move(tensor));
  }

  TensorOutput as_stored(const TensorPair& pair) const {
    const FileTensor& tensor = *file_->tensor(pair.folder);
    if (tensor.module) {  // quantised in the folder that is read, and not to be in this one
      return {pair.folder, find_tensor_type("F16"), tensor.shape, [this, &tensor](ByteSink out) {
                const StoredRows rows(file_, tensor);
                std::vector<float> values(static_cast<std::size_t>(tensor.shape[0]));
                std::vector<Half> halves(values.size());
                for (std::int64_t r = 0; r < tensor.shape[1]; ++r) {
                  rows.read(r, {values.data(), {1, tensor.shape[0]}});
                  std::ranges::transform(values, halves.begin(), to_half);
                  out({reinterpret_cast<const char*>(halves.data()), halves.size() * sizeof(Half)});
                }
              }};
    }
    const TensorType* type = find_tensor_type(tensor.type_name);
    if (!type) throw Error(pair.folder, "is of type " + std::string(tensor.type_name) + ", which is not written");
    const std::string_view bytes(reinterpret_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.bytes));
    return {pair.folder, type, tensor.shape, [bytes](ByteSink out) { out(bytes); }};
  }

  void add_module(Module& module) {
    ++written_.quantized_tensors;
    const std::string name = module_of(module.pair.folder);
    for (const ModuleOutput& shape : shapes_.at(module.pair.folder)) {
      add({name + "." + shape.part, shape.type, shape.shape, [this, &module, name, part = shape.part](ByteSink out) {
             if (module.made.empty()) module.made = layout_->tensors(name, weight_of(module));
             ModuleOutput& made = *std::ranges::find(module.made, part, &ModuleOutput::part);
             out(made.bytes);
             std::string().swap(made.bytes);  // assigning "" would keep its room
           }});
    }
  }

  LayoutWeight weight_of(const Module& module) {
    const TensorPair& pair = module.pair;
    if (options_.quantize.progress) options_.quantize.progress(static_cast<double>(done_) / static_cast<double>(modules_.size()), module.matrix->label);
    ++done_;
    LayoutWeight weight;
    const auto found = parts_.find(module.matrix->label);
    if (found != parts_.end()) {
      for (QuantizedMatrix* part : found->second) {
        const bool other_expert = pair.stacked && place_of(part->packed.name) != pair.expert;
        if (other_expert) continue;
        add_part(weight, *part);
        forget_bytes(*part);  // `weight` has them
      }
    } else {
      add_part(weight, quantized_alone(module));
    }
    if (made_ && pair.head_size > 0)
      for (std::int64_t r = 0; r < module.rows; ++r) weight.row_order.push_back(row_in_gguf(r, pair.head_size));
    return weight;
  }

  void add_part(LayoutWeight& weight, const QuantizedMatrix& part) {
    if (!part.note.empty()) written_.notes.emplace_back(part.packed.name, part.note);
    weight.parts.push_back({part.format, part.packed});
  }

  QuantizedMatrix quantized_alone(const Module& module) {
    const WeightPlan::Choice& choice = plan_.choice(module.matrix->label);
    const StoredRows stored(file_, *module.matrix->tensor);
    std::vector<float> values(static_cast<std::size_t>(module.rows * module.matrix->cols));
    const View<float, 2> w(values.data(), {module.rows, module.matrix->cols});
    ops_.device().parallel_for(module.rows, 64, [&](std::int64_t begin, std::int64_t end, int) { stored.read(module.first_row + begin, w.rows(begin, end)); });
    file_->release_pages();
    return quantize_matrix(module.matrix->label, w, {}, *choice.quantizer, choice.format, ops_.device());
  }

  // What transforms changed ------------------------------------------------------------------------------------------------------

  /// Rows of a GGUF file's queries and keys back in the folder's order.
  std::vector<std::int64_t> row_order(const TensorPair& pair, std::int64_t rows) const {
    std::vector<std::int64_t> order;
    for (std::int64_t r = 0; r < rows; ++r) order.push_back(made_ && pair.head_size > 0 ? row_in_gguf(r, pair.head_size) : r);
    return order;
  }

  bool add_changed_vector(const TensorPair& pair) {
    std::vector<float> values;
    for (const auto& [label, part] : quantized_.vectors) {  // "[0:64]" sorts behind "[128:192]"
      if (label_of(label) != pair.gguf) continue;
      const auto at = static_cast<std::size_t>(place_of(label));
      values.resize(std::max(values.size(), at + part.size()));
      std::ranges::copy(part, values.begin() + static_cast<std::ptrdiff_t>(at));
    }
    if (values.empty()) return false;
    std::string bytes;
    for (const std::int64_t r : row_order(pair, std::ssize(values))) {
      const float value = values[static_cast<std::size_t>(r)] - pair.offset;
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    add({pair.folder, find_tensor_type("F32"), {std::ssize(values)}, [bytes](ByteSink out) { out(bytes); }});
    return true;
  }

  void add_changed(const TensorPair& pair, const std::vector<QuantizedMatrix*>& parts) {
    const std::string format = parts.front()->format->label();
    const TensorType* type = find_tensor_type(format == "fp16" ? "F16" : format == "bf16" ? "BF16" : "F32");
    std::vector<std::string_view> rows;
    for (const QuantizedMatrix* part : parts) {
      if (pair.stacked && place_of(part->packed.name) != pair.expert) continue;
      if (!part->note.empty()) written_.notes.emplace_back(part->packed.name, part->note);
      const std::string_view bytes = bytes_of(part->packed.parts.at(0));
      const std::size_t size = bytes.size() / static_cast<std::size_t>(part->packed.rows);
      for (std::size_t at = 0; at < bytes.size(); at += size) rows.push_back(bytes.substr(at, size));
    }
    const auto order = row_order(pair, std::ssize(rows));
    add({pair.folder, type, {parts.front()->packed.cols, std::ssize(rows)}, [rows, order](ByteSink out) {
           for (const std::int64_t r : order) out(rows[static_cast<std::size_t>(r)]);
         }});
  }

  void add_untied_head() {
    TensorPair pair;
    pair.folder = "lm_head.weight";
    add_changed(pair, parts_.at(kHeadName));
    config()["tie_word_embeddings"] = false;
  }

  // The other files --------------------------------------------------------------------------------------------------------------

  Json& config() { return made_ ? made_->config : copied_->config; }

  void write_files(const std::string& folder) {
    const Json weights = Json::parse(to_json(*effective_settings(config_).find("weights")));
    layout_->made_by(weights.at("quantizer"));
    Json quantization = layout_->config();
    if (layout_->has_config_file()) write_file_atomically(folder + "/quantize_config.json", quantization.dump(2) + "\n");
    Json& config = this->config();
    config["quantization_config"] = std::move(quantization);
    config["patchbay"] = {{"weights", weights}};
    if (quantized_.calibration.samples > 0) config["patchbay"]["calibration_sha256"] = quantized_.calibration.sha256;
    if (!made_) {
      copied_->write(folder);
      return write_file_atomically(folder + "/config.json", config.dump(2) + "\n");
    }
    config["dtype"] = config["torch_dtype"] = torch_type(usual_type(*file_).name);
    for (const std::string& note : made_->write(folder)) written_.warnings.push_back(note);
  }

  std::shared_ptr<const ModelFile> file_;
  const RunConfig& config_;
  Ops& ops_;
  const WriteOptions& options_;
  const ModelSpec spec_;
  const WeightPlan plan_;
  std::optional<FolderFiles> made_;     ///< of a GGUF file
  std::optional<CopiedFiles> copied_;   ///< of a folder
  std::vector<TensorPair> pairs_;       ///< names of the folder to come; gguf: labels
  std::unique_ptr<FolderLayout> layout_;
  std::map<std::string, Module> modules_;                             ///< by the weight's name in the folder
  std::map<std::string, std::vector<ModuleOutput>> shapes_;
  std::map<std::string, std::vector<QuantizedMatrix*>> parts_;        ///< by label, in the order of the tensor's rows
  QuantizedModel quantized_;
  std::vector<TensorOutput> outputs_;
  WrittenModel written_;
  std::size_t done_ = 0;
};

}  // namespace

WrittenModel write_quantized_folder(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const std::string& out, const WriteOptions& options,
                                    std::int64_t shard_bytes) {
  const std::string folder = folder_target(*file, out, options.force);
  if (file->form() == FileForm::safetensors && file->folder().empty()) throw Error(escaped(file->path()), "tensors alone are no model", "a folder with config.json, or a GGUF file");
  FolderQuantizing quantizing(file, config, ops, options);
  check_quantizing(file, config, ops, folder);
  const Beside beside(folder);
  WrittenModel written = as_of(folder, beside, [&] { return quantizing.write(beside.path, shard_bytes); });
  beside.replace_folder(folder);
  return written;
}

}  // namespace patchbay

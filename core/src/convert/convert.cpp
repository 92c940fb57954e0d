#include "convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "convert/chat_forms.h"
#include "convert/folder_files.h"
#include "convert/gguf_metadata.h"
#include "convert/moved_tensors.h"
#include "convert/output_names.h"
#include "convert/tokenizer_forms.h"
#include "engine/architectures.h"
#include "engine/model_spec_hf.h"
#include "experiment/text_table.h"
#include "files.h"
#include "json_file.h"
#include "patchbay/plugin.h"
#include "patchbay/rounded_inputs.h"
#include "path_checks.h"
#include "tokenizer/readers.h"
#include "utf8.h"
#include "writers/safetensors_writer.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFileType = "general.file_type";

/// GGUF's numbers for files whose matrices are mostly of one type.
std::uint32_t file_type(const TensorType& type) { return type.name == "F32" ? 0 : type.name == "F16" ? 1 : 32; }

/// Null for "".
const TensorType* type_named(const std::string& name) {
  if (name.empty()) return nullptr;
  for (const auto& [option, type] : {std::pair("f32", "F32"), std::pair("f16", "F16"), std::pair("bf16", "BF16")}) {
    if (name == option) return find_tensor_type(type);
  }
  throw Error("--type", "unknown type '" + escaped(name, 40) + "'", "f32, f16, bf16");
}

/// Of a quantised folder's module: whether its products round their inputs, too.
bool rounds_inputs(const FileTensor& tensor) {
  return tensor.module && input_rounding_of(make<WeightFormat>(tensor.module->format()).get()).has_value();
}

void note_rounding(const ModelFile& file, const TensorType* type, std::vector<std::string>& notes) {
  const int quantised = count_quantised(file);
  if (const std::string_view name = type ? type->name : "F16"; quantised > 0 && name != "F32") notes.push_back(rounding_note(quantised, name));
  const auto rounding = std::ranges::count_if(file.tensors(), rounds_inputs);
  if (rounding > 0) notes.push_back(fmt::format("the folder rounds the inputs of {} matrices to 8 bits, what is written does not", rounding));
}

// A folder to GGUF ------------------------------------------------------------------------------------------------------------

std::vector<std::string> add_texts(GgufWriter& writer, const std::string& folder, int vocabulary) {
  const std::string file = folder + "/tokenizer.json";
  if (!is_there(file)) return {"the folder has no tokenizer.json: the GGUF file knows no text and no chats"};
  auto notes = add_gguf_tokenizer(writer, read_folder_tokenizer(folder), vocabulary, escaped(file));
  for (std::string& note : add_gguf_chat(writer, folder)) notes.push_back(std::move(note));
  return notes;
}

/// What the written file says. An objection of its reader is one to the model, since the file says what config.json does.
ModelSpec described_by(const std::string& path, const std::string& config) {
  const auto file = ModelFile::open(path);
  try {
    return read_model_spec(*file);
  } catch (const Error& error) {
    std::string place = error.where();
    for (const std::string& name : {path, escaped(path), std::string(": ")}) {
      if (place.starts_with(name)) place.erase(0, name.size());
    }
    throw Error(config, fmt::format("GGUF has no words for this model: {}{}{}", place, place.empty() ? "" : ": ", error.problem()), error.allowed());
  }
}

/// What the file says and llama.cpp does not read: for it the scale of attention follows from the sizes, and the architecture decides about experts.
void note_unread(const ModelSpec& spec, const ArchitectureRule& rule, std::vector<std::string>& notes) {
  const int divisor = spec.layers == rule.wide_scale_layers ? spec.hidden / spec.heads : spec.head_size;
  if (spec.attention_scale != static_cast<float>(1 / std::sqrt(static_cast<double>(divisor))))
    notes.push_back(fmt::format("llama.cpp does not read attention.scale, {}: it takes 1/sqrt({}), so its logits differ", spec.attention_scale, divisor));
  if (spec.experts.count > 0 && spec.experts.normalized != rule.normalized_experts)
    notes.push_back(fmt::format("llama.cpp does not read expert_weights_norm, {}: for it the weights of the chosen experts sum to 1 {}, so its logits differ", spec.experts.normalized,
                                rule.normalized_experts ? "always" : "never"));
}

std::vector<std::string> to_gguf(const std::shared_ptr<const ModelFile>& file, const std::string& out, const ConvertOptions& options) {
  const std::string target = gguf_target(*file, out, options.force);
  const ModelSpec spec = read_model_spec(*file);
  const JsonFile config(file->folder() + "/config.json");
  const std::string architecture = gguf_architecture(config.value().at("model_type"), config.name());
  const TensorType* type = type_named(options.type);
  GgufWriter writer;
  writer.text("general.architecture", architecture);
  writer.text("general.name", fs::absolute(file->folder()).lexically_normal().filename().string());
  writer.u32(kFileType, file_type(type ? *type : usual_type(*file)));
  add_model_metadata(writer, spec, config.value(), architecture, config.name());
  auto notes = add_texts(writer, file->folder(), spec.vocabulary);
  note_unread(spec, *find_architecture(architecture), notes);
  note_rounding(*file, type, notes);
  for (TensorOutput& tensor : tensors_for_gguf(file, tensor_pairs(spec, find_architecture(architecture)->interleaved), type)) writer.tensor(std::move(tensor));
  const Beside beside(target);
  const auto require_described = [&] { require_same_model(spec, described_by(beside.path, config.name()), config.name(), "GGUF"); };
  as_of(out, beside, [&] {
    writer.write_outline(beside.path);
    require_described();
    writer.write(beside.path);
    require_described();
  });
  beside.rename_to(target);
  return notes;
}

// GGUF to a folder ------------------------------------------------------------------------------------------------------------

class FolderWriter {
 public:
  FolderWriter(const std::shared_ptr<const ModelFile>& file, std::string folder) : file_(file), folder_(std::move(folder)), files_(file) {}

  /// `type` null: as stored. Returns notes.
  std::vector<std::string> write(const TensorType* type) {
    files_.config["dtype"] = files_.config["torch_dtype"] = torch_type((type ? *type : usual_type(*file_)).name);
    auto tensors = tensors_for_folder(file_, files_.pairs(), type);
    note_rounding(*file_, type, notes_);
    std::error_code code;
    fs::create_directory(folder_, code);
    if (code) throw Error(escaped(folder_), "making the folder failed: " + code.message());
    for (std::string& note : files_.write(folder_)) notes_.push_back(std::move(note));
    write_safetensors(folder_ + "/model.safetensors", std::move(tensors));
    read_model_spec(*ModelFile::open(folder_));
    return std::move(notes_);
  }

 private:
  std::shared_ptr<const ModelFile> file_;
  std::string folder_;
  FolderFiles files_;
  std::vector<std::string> notes_;
};

std::vector<std::string> to_folder(const std::shared_ptr<const ModelFile>& file, const std::string& out, const ConvertOptions& options) {
  const std::string folder = folder_target(*file, out, options.force);
  const TensorType* type = type_named(options.type);
  const Beside beside(folder);
  auto notes = as_of(folder, beside, [&] { return FolderWriter(file, beside.path).write(type); });
  beside.replace_folder(folder);
  return notes;
}

}  // namespace

std::string rounding_note(int tensors, std::string_view type) {
  return fmt::format("{} {} rounded to {}: patchbay convert --type f32 keeps every value", counted(tensors, "quantised tensor"), tensors == 1 ? "is" : "are", type == "F16" ? "f16" : "bf16");
}

std::vector<std::string> convert_model(const std::shared_ptr<const ModelFile>& file, const std::string& out, const ConvertOptions& options) {
  if (out.empty()) throw Error("OUT", "is empty", "a GGUF file or a folder");
  return file->form() == FileForm::gguf ? to_folder(file, out, options) : to_gguf(file, out, options);
}

}  // namespace patchbay

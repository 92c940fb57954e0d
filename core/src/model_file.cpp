// ModelFile: the look-ups. The bytes are those of mapping.h. Containers are read by gguf_reader.cpp and safetensors_reader.cpp.
#include "model_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <deque>
#include <unordered_map>

#include "gguf_reader.h"
#include "gguf_split.h"
#include "gguf_types.h"
#include "layouts/folded_modules.h"
#include "mapping.h"
#include "safetensors_files.h"
#include "safetensors_reader.h"
#include "utf8.h"

namespace patchbay {
namespace {

std::string type_of(const MetaEntry& entry) {
  return fmt::format("{}{}", entry.array ? "array of " : "", meta_type_name(entry.type));
}

}  // namespace

struct ModelFile::Impl {
  /// One file: the whole model, or a part of it.
  struct Part {
    Part(const std::string& file_path, FileForm form) : path(file_path), shown(escaped(path)), mapping(path) {
      if (form == FileForm::gguf) {
        contents = read_gguf(mapping.bytes(), shown);
        return;
      }
      SafetensorsContents read = read_safetensors(mapping.bytes(), shown);
      texts = std::move(read.texts);
      contents.metadata = std::move(read.metadata);
      contents.tensors = std::move(read.tensors);
      contents.data_end = std::ssize(mapping.bytes());
    }
    std::string path, shown;
    Mapping mapping;
    std::deque<std::string> texts;  ///< that names and metadata of safetensors point into
    GgufContents contents;
  };

  explicit Impl(const std::string& file_path) : path(file_path), form(names_safetensors(path) ? FileForm::safetensors : FileForm::gguf) {
    if (form == FileForm::safetensors) {
      open_safetensors();
    } else {
      open_gguf();
    }
    shown = escaped(folder.empty() ? parts.empty() ? path : parts.front()->path : folder);
    for (const auto& part : parts) tensors.insert(tensors.end(), part->contents.tensors.begin(), part->contents.tensors.end());
    if (!folder.empty()) tensors = folded_modules(folder, std::move(tensors));
    for (const MetaEntry& entry : metadata()) keys.emplace(entry.key, &entry);
    for (const FileTensor& tensor : tensors) names.emplace(tensor.name, &tensor);
  }
  void open_gguf() {
    auto given = std::make_unique<Part>(path, form);
    if (const auto place = split_place(given->contents, given->shown)) {
      open_parts(std::move(given), *place);
    } else {
      parts.push_back(std::move(given));
    }
  }
  void open_safetensors() {
    const SafetensorsFiles files = find_safetensors(path);
    folder = files.folder;
    if (!folder.empty()) describing = described_by(folder);
    if (!files.index.empty()) describing.push_back(files.index);
    std::vector<std::span<const FileTensor>> shards;
    for (const std::string& shard : files.shards) shards.emplace_back(parts.emplace_back(std::make_unique<Part>(shard, form))->contents.tensors);
    check_shards(files, shards);
  }
  void open_parts(std::unique_ptr<Part> given, const SplitPlace& place) {
    const auto paths = paths_of_parts(path, place);
    std::vector<SplitFile> files;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (i != place.number && ::access(paths[i].c_str(), F_OK) != 0) {
        throw Error(escaped(paths[i]), fmt::format("missing shard: part {} of {} is not here", i + 1, paths.size()), "",
                    "fetch it into the folder of the others");
      }
      parts.push_back(i == place.number ? std::move(given) : std::make_unique<Part>(paths[i], form));
      files.push_back({parts.back()->shown, &parts.back()->contents});
    }
    check_parts(files);
  }
  std::span<const MetaEntry> metadata() const { return parts.empty() ? std::span<const MetaEntry>() : parts.front()->contents.metadata; }
  Error wrong_type(const MetaEntry& entry, const char* wanted) const {
    return {fmt::format("{}: {}", shown, entry.key), fmt::format("wrong key type {}", type_of(entry)), wanted};
  }
  const MetaEntry& required(std::string_view key) const {
    const auto found = keys.find(key);
    if (found == keys.end()) throw Error(fmt::format("{}: {}", shown, key), "missing key");
    return *found->second;
  }

  std::string path, shown;                   ///< as given; the folder's or the first part's, for messages
  FileForm form;
  std::string folder;
  std::vector<std::string> describing;       ///< files beside the parts that say what the tensors mean
  std::vector<std::unique_ptr<Part>> parts;  ///< in order; the first has the model's metadata
  std::vector<FileTensor> tensors;           ///< of all parts
  std::unordered_map<std::string_view, const MetaEntry*> keys;
  std::unordered_map<std::string_view, const FileTensor*> names;
};

ModelFile::ModelFile() = default;
ModelFile::~ModelFile() = default;

std::shared_ptr<const ModelFile> ModelFile::open(const std::string& path) {
  std::shared_ptr<ModelFile> file(new ModelFile());
  file->impl_ = std::make_unique<Impl>(path);
  return file;
}

const std::string& ModelFile::path() const { return impl_->path; }
FileForm ModelFile::form() const { return impl_->form; }
const std::string& ModelFile::folder() const { return impl_->folder; }
std::vector<std::string> ModelFile::paths() const {
  std::vector<std::string> paths = impl_->describing;
  for (const auto& part : impl_->parts) paths.push_back(part->path);
  return paths;
}
std::uint32_t ModelFile::version() const { return impl_->parts.empty() ? 0 : impl_->parts.front()->contents.version; }
std::int64_t ModelFile::file_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& part : impl_->parts) bytes += std::ssize(part->mapping.bytes());
  return bytes;
}
std::int64_t ModelFile::trailing_bytes() const {
  std::int64_t bytes = file_bytes();
  for (const auto& part : impl_->parts) bytes -= part->contents.data_end;
  return bytes;
}
std::span<const MetaEntry> ModelFile::metadata() const { return impl_->metadata(); }
std::span<const FileTensor> ModelFile::tensors() const { return impl_->tensors; }

const MetaEntry* ModelFile::find(std::string_view key) const {
  const auto found = impl_->keys.find(key);
  return found == impl_->keys.end() ? nullptr : found->second;
}
const FileTensor* ModelFile::tensor(std::string_view name) const {
  const auto found = impl_->names.find(name);
  return found == impl_->names.end() ? nullptr : found->second;
}

std::uint64_t ModelFile::integer(std::string_view key) const {
  const MetaEntry& entry = impl_->required(key);
  if (const auto* value = std::get_if<std::uint64_t>(&entry.value)) return *value;
  const auto* value = std::get_if<std::int64_t>(&entry.value);
  if (value == nullptr) throw impl_->wrong_type(entry, "an integer");
  if (*value < 0) throw Error(fmt::format("{}: {}", impl_->shown, key), fmt::format("out of range: {}", *value), "0 or more");
  return static_cast<std::uint64_t>(*value);
}

double ModelFile::real(std::string_view key) const {
  const MetaEntry& entry = impl_->required(key);
  if (const auto* value = std::get_if<double>(&entry.value)) return *value;
  throw impl_->wrong_type(entry, "f32 or f64");
}

std::string_view ModelFile::string(std::string_view key) const {
  const MetaEntry& entry = impl_->required(key);
  if (const auto* value = std::get_if<std::string_view>(&entry.value)) return *value;
  throw impl_->wrong_type(entry, "string");
}

std::optional<std::uint64_t> ModelFile::maybe_integer(std::string_view key) const {
  return find(key) ? std::optional(integer(key)) : std::nullopt;
}
std::optional<double> ModelFile::maybe_real(std::string_view key) const {
  return find(key) ? std::optional(real(key)) : std::nullopt;
}
std::optional<bool> ModelFile::maybe_boolean(std::string_view key) const {
  const MetaEntry* entry = find(key);
  if (entry == nullptr) return std::nullopt;
  if (const auto* value = std::get_if<bool>(&entry->value)) return *value;
  throw impl_->wrong_type(*entry, "bool");
}
std::optional<std::string_view> ModelFile::maybe_string(std::string_view key) const {
  return find(key) ? std::optional(string(key)) : std::nullopt;
}

void ModelFile::release_pages() const {
  for (const auto& part : impl_->parts) {
    if (!part->contents.tensors.empty()) part->mapping.release(part->contents.tensors.front().data);
  }
}

}  // namespace patchbay

// ModelFile: the look-ups. The bytes are those of mapping.h. The container is read by gguf_reader.cpp.
#include "model_file.h"

#include <fmt/format.h>

#include <unordered_map>

#include "gguf_reader.h"
#include "gguf_types.h"
#include "mapping.h"
#include "utf8.h"

namespace patchbay {
namespace {

std::string type_of(const MetaEntry& entry) {
  return fmt::format("{}{}", entry.array ? "array of " : "", meta_type_name(entry.type));
}

}  // namespace

struct ModelFile::Impl {
  explicit Impl(const std::string& file_path)
      : path(file_path), shown(escaped(file_path)), mapping(file_path), contents(read_gguf(mapping.bytes(), shown)) {
    for (const MetaEntry& entry : contents.metadata) keys.emplace(entry.key, &entry);
    for (const FileTensor& tensor : contents.tensors) names.emplace(tensor.name, &tensor);
  }
  Error wrong_type(const MetaEntry& entry, const char* wanted) const {
    return {fmt::format("{}: {}", shown, entry.key), fmt::format("wrong key type {}", type_of(entry)), wanted};
  }
  const MetaEntry& required(std::string_view key) const {
    const auto found = keys.find(key);
    if (found == keys.end()) throw Error(fmt::format("{}: {}", shown, key), "missing key");
    return *found->second;
  }

  std::string path, shown;
  Mapping mapping;
  GgufContents contents;
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
std::uint32_t ModelFile::version() const { return impl_->contents.version; }
std::int64_t ModelFile::file_bytes() const { return static_cast<std::int64_t>(impl_->mapping.bytes().size()); }
std::int64_t ModelFile::trailing_bytes() const { return file_bytes() - impl_->contents.data_end; }
std::span<const MetaEntry> ModelFile::metadata() const { return impl_->contents.metadata; }
std::span<const FileTensor> ModelFile::tensors() const { return impl_->contents.tensors; }

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
  if (!tensors().empty()) impl_->mapping.release(tensors().front().data);
}

}  // namespace patchbay

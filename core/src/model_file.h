/// @file model_file.h
/// A model on disk: metadata and tensors, memory-mapped, everything checked before it is used. GGUF v2 and v3, whole or in parts
/// (NAME-00001-of-00003.gguf); safetensors, whole or in the shards of an index; a Hugging Face folder.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "patchbay/params.h"

namespace patchbay {

/// A metadata value. Arrays of strings hold views into the mapped file.
using MetaValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, std::vector<std::uint64_t>,
                               std::vector<std::int64_t>, std::vector<double>, std::vector<bool>, std::vector<std::string_view>>;
struct MetaEntry {
  std::string_view key;
  std::uint32_t type = 0;           ///< GGUF type code; of the elements when `array`
  bool array = false;
  MetaValue value;
};

struct PackedWeight;

/// A weight that a quantised checkpoint keeps in several tensors, in another order than the format that holds it here.
class PATCHBAY_API PackedModule {
 public:
  virtual ~PackedModule() = default;
  virtual const PluginSpec& format() const = 0;  ///< what holds it here
  /// Rows [first_row, first_row + rows) of the weight. @throws Error for numbers that no weight has.
  virtual PackedWeight read(std::int64_t first_row, std::int64_t rows) const = 0;
};

struct FileTensor {
  std::string_view name;
  std::uint32_t type = 0;           ///< GGUF tensor type code; kNoTensorType for a type of safetensors that GGUF lacks
  std::string_view type_name;       ///< "Q4_1"
  /// The weight format plugin's name ("q4_1", "fp32"; "fp32" for integers and F64, too: plain_numbers.h); "" for a type that is known
  /// but not computed.
  std::string_view format;
  std::vector<std::int64_t> shape;  ///< the first varies fastest, as in GGUF (safetensors: turned round). A weight R x C has {C, R}
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;
  /// Of a quantised checkpoint's weight, in place of data; bytes are then those of all its tensors. Null: data has the values.
  std::shared_ptr<const PackedModule> module = nullptr;
};

enum class FileForm { gguf, safetensors };

/// Makes a model file that another program shortens while it is mapped end this process with exit code 1 and a message that names the
/// file, where the system would end it with SIGBUS. For programs, at their start; libraries leave signals alone.
PATCHBAY_API void report_shortened_models();

/// Thread rule: const methods from any thread. Views live as long as the object.
class PATCHBAY_API ModelFile {
 public:
  /// Maps and checks the container, and with any part of a model all of its parts. A path that ends in .safetensors or
  /// .safetensors.index.json, and a folder, is read as safetensors. @throws Error with file, field and offset.
  static std::shared_ptr<const ModelFile> open(const std::string& path);
  ~ModelFile();

  const std::string& path() const;  ///< as given to open
  FileForm form() const;
  /// Where config.json describes the tensors; "" for GGUF, and for safetensors that are no whole model.
  const std::string& folder() const;
  /// Of all files that make the model: in a folder also those that describe it; else the parts, in order.
  std::vector<std::string> paths() const;
  std::uint32_t version() const;  ///< of GGUF
  std::int64_t file_bytes() const;
  /// Bytes after the last tensor: padding, or something that is not part of the model.
  std::int64_t trailing_bytes() const;
  std::span<const MetaEntry> metadata() const;
  std::span<const FileTensor> tensors() const;
  const MetaEntry* find(std::string_view key) const;
  const FileTensor* tensor(std::string_view name) const;  ///< null when absent
  /// Typed look-ups. @throws Error "FILE: KEY: missing key" / wrong type / out of range.
  std::uint64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  std::string_view string(std::string_view key) const;
  std::optional<std::uint64_t> maybe_integer(std::string_view key) const;
  std::optional<double> maybe_real(std::string_view key) const;
  std::optional<bool> maybe_boolean(std::string_view key) const;
  std::optional<std::string_view> maybe_string(std::string_view key) const;
  /// Tells the system that the tensors' pages are not needed soon (after repacking): keeps resident memory low.
  void release_pages() const;

 private:
  ModelFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Checks the rules that tie metadata and tensors of a model together (head counts, shapes, vocabulary), where the file has
/// model keys or tensors, or config.json describes it. @throws Error.
PATCHBAY_API void check_model(const ModelFile& file);

/// True for the content of a file of configs/models: it has keys that no experiment has.
PATCHBAY_API bool describes_model(const Settings& yaml);
/// The model that a file of configs/models describes. @throws Error for a faulty description, or saying how to fetch what is not here.
PATCHBAY_API std::string find_described_model(const std::string& description);

/// `--model`: a path of a file or folder, or the name of configs/models/NAME.yaml (looked up beside the current folder and the program's share folder),
/// which says where the file lies. Returns the path. @throws Error saying where it looked and how to fetch it.
PATCHBAY_API std::string find_model(const std::string& file_or_name);

}  // namespace patchbay

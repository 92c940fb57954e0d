/// @file folder_layout.h
/// A layout for all modules of a folder: which it is, which weights it takes, and what config.json then says.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "layouts/module_tensors.h"
#include "patchbay/weight_format.h"

namespace patchbay {

/// A quantised weight on its way into a folder: its rows in parts, one after the other, and where they go.
struct LayoutWeight {
  struct Part {
    std::shared_ptr<const WeightFormat> format;
    PackedWeight packed;
  };
  std::vector<Part> parts;
  /// Row r of the folder's weight is row row_order[r] of the parts'; empty: r.
  std::vector<std::int64_t> row_order;
};

class FolderLayout {
 public:
  virtual ~FolderLayout() = default;
  /// What the tensors of module X will be, known before its numbers are. @throws Error for a weight that this layout has no place for.
  virtual std::vector<ModuleOutput> announce(const std::string& module, const WeightFormat& format, std::int64_t rows, std::int64_t cols) = 0;
  /// The same tensors with their bytes. @throws Error for numbers that the layout cannot say.
  virtual std::vector<ModuleOutput> tensors(const std::string& module, const LayoutWeight& weight) = 0;
  /// A linear layer that stays in plain numbers.
  virtual void keep(const std::string& module) = 0;
  /// How the codes were chosen, for layouts that have keys of it. `quantizer`: its name and parameters, as YAML has them.
  virtual void made_by(const nlohmann::ordered_json&) {}
  /// config.json's quantization_config, once all modules are announced or kept. @throws Error for modules that do not go together.
  virtual nlohmann::ordered_json config() const = 0;
  /// Whether readers look for quantize_config.json too.
  virtual bool has_config_file() const { return false; }
};

/// compressed-tensors' of 8-bit floats and integers.
std::unique_ptr<FolderLayout> compressed_tensors_layout();
bool compressed_tensors_take(const WeightFormat& format, std::int64_t rows, std::int64_t cols);

/// By the name that the user gave; "": by the format of a weight R x C. @throws Error for a name that is none, or a format that no layout takes.
PATCHBAY_API std::unique_ptr<FolderLayout> make_folder_layout(const std::string& name, const WeightFormat& format, std::int64_t rows, std::int64_t cols);
/// Of integer codes, in one layout or another.
inline constexpr int kLayoutBits[] = {2, 3, 4, 8};
inline constexpr const char* kLayoutNames = "gptq, gptq_v2, awq, awq_gemv, compressed-tensors";

}  // namespace patchbay

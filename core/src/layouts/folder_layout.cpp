#include "layouts/folder_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "layouts/integer_layout.h"
#include "layouts/quantization_config.h"
#include "utf8.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

const HoldsIntegerCodes* integers_of(const WeightFormat& format) { return dynamic_cast<const HoldsIntegerCodes*>(&format); }

/// A format without zero points has the middle code for all.
bool is_symmetric(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  return std::ranges::none_of(format.layout(rows, cols), [](const PartSpec& part) { return part.name == "zeros"; });
}

bool keeps_order(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  return std::ranges::any_of(format.layout(rows, cols), [](const PartSpec& part) { return part.name == "order"; });
}

/// All rows of a weight as one, in the folder's order.
IntegerCodes joined(const LayoutWeight& weight) {
  IntegerCodes all;
  for (const auto& part : weight.parts) {
    IntegerCodes more = integers_of(*part.format)->integer_codes(part.packed);
    if (all.rows > 0 && more.order != all.order) throw Error(part.packed.name, "its columns are in another order than those of the rows before it");
    if (all.rows == 0) {
      all = std::move(more);
      continue;
    }
    all.rows += more.rows;
    all.codes.insert(all.codes.end(), more.codes.begin(), more.codes.end());
    all.scales.insert(all.scales.end(), more.scales.begin(), more.scales.end());
    all.zeros.insert(all.zeros.end(), more.zeros.begin(), more.zeros.end());
  }
  if (weight.row_order.empty()) return all;
  const auto reorder = [&](auto& values, std::int64_t width) {
    const auto before = values;
    for (std::size_t r = 0; r < weight.row_order.size(); ++r) std::copy_n(before.begin() + weight.row_order[r] * width, width, values.begin() + static_cast<std::int64_t>(r) * width);
  };
  reorder(all.codes, all.cols);
  reorder(all.scales, all.groups());
  reorder(all.zeros, all.groups());
  return all;
}

/// Integers with scales and zero points: GPTQ and AWQ.
class IntegerFolderLayout final : public FolderLayout {
 public:
  explicit IntegerFolderLayout(const QuantizationConfig& config) : config_(config), layout_(*integer_layout(config)) {}

  std::vector<ModuleOutput> announce(const std::string& module, const WeightFormat& format, std::int64_t rows, std::int64_t cols) override {
    const HoldsIntegerCodes* integers = integers_of(format);
    if (!integers) throw Error(module, "layout " + layout_name(config_) + " has no place for format " + format.label(), "formats of integer codes with scales (int_grouped)", "take another format or --layout");
    const ModuleSettings settings{integers->code_bits(), format.tile_columns(cols), is_symmetric(format, rows, cols), cols};
    IntegerCodes shape;
    shape.bits = settings.bits;
    shape.rows = rows;
    shape.cols = cols;
    shape.group = settings.group;
    if (keeps_order(format, rows, cols)) shape.order.resize(static_cast<std::size_t>(cols));
    modules_.emplace(module, settings);
    try {
      return layout_.write(shape, config_);
    } catch (const Error& error) {
      throw error.at(module);
    }
  }

  std::vector<ModuleOutput> tensors(const std::string& module, const LayoutWeight& weight) override {
    const IntegerCodes codes = joined(weight);
    ordered_ = ordered_ || !codes.order.empty();
    try {
      return layout_.write(codes, config_);
    } catch (const Error& error) {
      throw error.at(module);
    }
  }

  void keep(const std::string& module) override { kept_.insert(module); }
  void made_by(const Json& quantizer) override { quantizer_ = quantizer; }

  Json config() const override {
    const ModuleSettings main = most_common();
    const std::int64_t group = all_by_row() ? -1 : main.group;
    if (config_.method == LayoutMethod::awq) return awq_config(group);
    Json json = {{"quant_method", "gptq"}, {"bits", main.bits}, {"group_size", group}, {"desc_act", ordered_}, {"static_groups", quantizer_.value("static_groups", false)},
                 {"sym", main.symmetric}, {"lm_head", modules_.contains("lm_head")}, {"checkpoint_format", layout_name(config_)},
                 {"pack_dtype", "int32"}, {"meta", meta()}};
    if (Json dynamic = dynamic_config(main, group); !dynamic.empty()) json["dynamic"] = std::move(dynamic);
    return json;
  }
  bool has_config_file() const override { return config_.method == LayoutMethod::gptq; }

 private:
  struct ModuleSettings {
    int bits = 4;
    std::int64_t group = 0;
    bool symmetric = false;
    std::int64_t cols = 0;
    bool operator==(const ModuleSettings& other) const { return bits == other.bits && group == other.group && symmetric == other.symmetric; }
  };

  bool all_by_row() const {
    return std::ranges::all_of(modules_, [](const auto& entry) { return entry.second.group == entry.second.cols; });
  }
  ModuleSettings most_common() const {
    const auto count = [&](const auto& entry) { return std::ranges::count_if(modules_, [&](const auto& other) { return other.second == entry.second; }); };
    return std::ranges::max_element(modules_, {}, count)->second;
  }
  bool is_main(const ModuleSettings& settings, const ModuleSettings& main, std::int64_t group) const {
    return settings.bits == main.bits && settings.symmetric == main.symmetric && (group < 0 ? settings.group == settings.cols : settings.group == group);
  }

  /// How the codes were chosen, where GPTQModel writes it. Its reader takes a damping from there and refuses one that is not between 0 and 1.
  Json meta() const {
    Json meta = {{"quantizer", {"patchbay"}}};
    for (const char* key : {"damp_percent", "static_groups", "true_sequential"})
      if (quantizer_.contains(key)) meta[key] = quantizer_[key];
    if (const double damping = meta.value("damp_percent", 0.0); damping <= 0 || damping >= 1) meta.erase("damp_percent");
    return meta;
  }

  Json awq_config(std::int64_t group) const {
    for (const auto& [name, settings] : modules_) {
      const bool same_group = group < 0 ? settings.group == settings.cols : settings.group == group;
      if (!same_group) throw Error(name, fmt::format("has groups of {}, and layout awq one size for all: {}", settings.group, group), "", "--layout gptq_v2");
    }
    return {{"quant_method", "awq"}, {"bits", 4}, {"group_size", group}, {"zero_point", true}, {"version", config_.gemv ? "gemv" : "gemm"},
            {"modules_to_not_convert", kept_.empty() ? Json() : Json(kept_)}};
  }

  /// What differs module by module, in GPTQModel's words: "+:NAME" has other settings, "-:NAME" stays as it is. Names are regular expressions.
  Json dynamic_config(const ModuleSettings& main, std::int64_t group) const {
    Json dynamic = Json::object();
    const auto pattern = [](const char* sign, const std::string& name) {
      std::string text = std::string(sign) + "^";
      for (const char c : name) text += c == '.' ? std::string("\\.") : std::string(1, c);
      return text + "$";
    };
    for (const auto& [name, settings] : modules_)
      if (!is_main(settings, main, group)) dynamic[pattern("+:", name)] = {{"bits", settings.bits}, {"group_size", settings.group}, {"sym", settings.symmetric}};
    for (const std::string& name : kept_) dynamic[pattern("-:", name)] = Json::object();
    return dynamic;
  }

  QuantizationConfig config_;
  const IntegerLayout& layout_;
  std::map<std::string, ModuleSettings> modules_;
  std::set<std::string> kept_;
  Json quantizer_ = Json::object();
  bool ordered_ = false;  ///< some module's columns are in another order
};

}  // namespace

std::unique_ptr<FolderLayout> make_folder_layout(const std::string& name, const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  if (name == "compressed-tensors" || (name.empty() && compressed_tensors_take(format, rows, cols))) return compressed_tensors_layout();
  QuantizationConfig config;
  if (name.empty() && !integers_of(format)) throw Error("--layout", "no layout of a folder takes format " + format.label(), kLayoutNames);
  const std::string chosen = !name.empty() ? name : is_symmetric(format, rows, cols) ? "gptq" : "gptq_v2";
  if (chosen == "gptq" || chosen == "gptq_v2") {
    config.method = LayoutMethod::gptq;
    config.zeros_less_one = chosen == "gptq";
  } else if (chosen == "awq" || chosen == "awq_gemv") {
    config.method = LayoutMethod::awq;
    config.gemv = chosen == "awq_gemv";
  } else {
    throw Error("--layout", "\"" + escaped(chosen, 40) + "\" is no layout", kLayoutNames);
  }
  return std::make_unique<IntegerFolderLayout>(config);
}

}  // namespace patchbay

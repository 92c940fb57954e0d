// For tests of formats and quantizers: every format in every variant of its schema, and weights of many kinds.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "patchbay/backend.h"
#include "patchbay/plugin.h"
#include "patchbay/weight_format.h"
#include "registry.h"

namespace patchbay::test {

/// Backend cpu, one for all cases of a program.
inline Backend& host_backend() {
  static const auto cpu = make<Backend>({"cpu", nullptr});
  return *cpu;
}

/// Settings of scalars: {{"bits", "4"}, ...}.
inline PluginSpec spec_of(const std::string& type, const std::vector<std::pair<std::string, std::string>>& values) {
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  settings->where = "test";
  for (const auto& [key, text] : values) {
    Settings value;
    value.kind = Settings::Kind::scalar;
    value.text = text;
    value.where = "test";
    settings->entries.emplace_back(key, value);
  }
  return {type, settings};
}

/// Every combination of a plugin's choices and booleans, with its integers at their defaults and their low bounds.
inline std::vector<PluginSpec> variants(std::string_view kind, const std::string& name) {
  std::vector<std::vector<std::pair<std::string, std::string>>> settings = {{}};
  for (const auto& param : Registry::instance().describe(Registry::instance().find(kind, name))) {
    std::vector<std::string> values;
    if (param.type == "choice") values = param.choices;
    if (param.type == "boolean") values = {"false", "true"};
    if (param.type == "integer") values = {param.default_value, param.range.substr(0, param.range.find(' '))};
    if (values.empty()) continue;
    std::vector<std::vector<std::pair<std::string, std::string>>> extended;
    for (const auto& base : settings) {
      for (const auto& value : values) {
        extended.push_back(base);
        extended.back().emplace_back(param.name, value);
      }
    }
    settings = std::move(extended);
  }
  std::vector<PluginSpec> specs;
  for (const auto& values : settings) specs.push_back(spec_of(name, values));
  return specs;
}

/// Every format in every variant; of the mixes only one, for they are made of the others.
inline std::vector<std::shared_ptr<WeightFormat>> all_formats() {
  std::vector<std::shared_ptr<WeightFormat>> formats;
  std::set<std::string> seen;  // a parameter that another makes meaningless makes no variant
  for (const auto& name : Registry::instance().names("formats"))
    for (const auto& spec : variants("formats", name)) {
      auto format = make<WeightFormat>(spec);
      if (seen.insert(format->label()).second) formats.push_back(std::move(format));
      if (formats.back()->for_tensor({.name = "blk.0.ffn_up", .layer = 0, .layers = 1, .cols = 256})) break;
    }
  return formats;
}

/// A matrix that owns its numbers.
struct Matrix {
  std::int64_t rows, cols;
  std::vector<float> values;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), values(static_cast<std::size_t>(r * c)) {}
  View<float, 2> view() { return {values.data(), {rows, cols}}; }
  View<const float, 2> view() const { return {values.data(), {rows, cols}}; }
  float& at(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * cols + c)]; }
  float at(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * cols + c)]; }
};

inline Matrix normal_matrix(std::int64_t rows, std::int64_t cols, float deviation, unsigned seed, float mean = 0.0f) {
  Matrix m(rows, cols);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  for (auto& value : m.values) value = normal(random);
  return m;
}

/// Weights that break careless scales. All finite; all within what fp16 can hold.
inline std::map<std::string, Matrix> weights_of_many_kinds(std::int64_t rows, std::int64_t cols) {
  std::map<std::string, Matrix> all;
  all.emplace("normal", normal_matrix(rows, cols, 0.05f, 1));
  all.emplace("all positive", normal_matrix(rows, cols, 0.1f, 2, 1.0f));
  all.emplace("all negative", normal_matrix(rows, cols, 0.1f, 3, -1.0f));
  all.emplace("zeros", Matrix(rows, cols));
  all.emplace("subnormal", normal_matrix(rows, cols, 1e-39f, 4));
  all.emplace("tiny", normal_matrix(rows, cols, 1e-7f, 5));
  all.emplace("huge", normal_matrix(rows, cols, 8e3f, 6));
  Matrix constant(rows, cols), outlier = normal_matrix(rows, cols, 0.01f, 7);
  std::fill(constant.values.begin(), constant.values.end(), -0.37f);
  for (std::int64_t r = 0; r < rows; ++r) outlier.at(r, (r * 5) % cols) = r % 2 ? 8.0f : -8.0f;
  all.emplace("constant", constant);
  all.emplace("one outlier", outlier);
  return all;
}

/// Fits, rounds and packs w, tile by tile; `decoded` gets what Grid::round promised.
inline PackedWeight round_to_format(const WeightFormat& format, const Matrix& w, Device& device, Matrix& decoded) {
  PackedWeight packed = format.allocate("w", w.rows, w.cols, device);
  const std::int64_t width = format.tile_columns(w.cols);
  std::vector<std::int32_t> codes(static_cast<std::size_t>(w.rows * width));
  for (std::int64_t first = 0; first < w.cols; first += width) {
    const View<const float, 2> tile(w.values.data() + first, {w.rows, width}, {w.cols, 1});
    const auto grid = format.fit(tile, {});
    for (std::int64_t c = 0; c < width; ++c)
      grid->round(c, {w.values.data() + first + c, {w.rows}, {w.cols}}, {codes.data() + c, {w.rows}, {width}},
                  {decoded.values.data() + first + c, {w.rows}, {w.cols}});
    format.pack(*grid, first, View<const std::int32_t, 2>(codes.data(), {w.rows, width}), packed);
  }
  return packed;
}

}  // namespace patchbay::test

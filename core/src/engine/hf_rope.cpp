#include "engine/hf_rope.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <vector>

#include "engine/rope.h"

namespace patchbay {
namespace {

class RopeReader {
 public:
  RopeReader(const HfRopeModel& model, std::int64_t& context) : model_(model), context_(context) {}

  void scale(Rope& rope, std::vector<double>& frequencies, const JsonKeys& keys) {
    const std::string type = keys.text(keys.find("rope_type") ? "rope_type" : "type");
    if (type == "default") {
      expect_keys(keys, {});
    } else if (type == "linear") {
      expect_keys(keys, {"factor"});
      scale_linear(frequencies, keys.positive("factor"));
    } else if (type == "dynamic") {
      expect_keys(keys, {"factor"});
      rope.dynamic_factor = keys.positive("factor");
      rope.original_context = model_.context;
      context_ = stretched(static_cast<double>(model_.context), rope.dynamic_factor);
      if (rope.dims < 4) keys.fail("rope_type", "dynamic cannot turn " + std::to_string(rope.dims) + " values", "4 or more");
    } else if (type == "llama3") {
      expect_keys(keys, {"factor", "low_freq_factor", "high_freq_factor"});
      const Llama3Scaling scaling{keys.positive("factor"), keys.positive("low_freq_factor"), keys.positive("high_freq_factor"),
                                  static_cast<double>(keys.count("original_max_position_embeddings"))};
      if (scaling.high <= scaling.low) keys.fail("high_freq_factor", "is not above low_freq_factor");
      scale_llama3(frequencies, scaling);
    } else if (type == "yarn" && !model_.phi3) {
      scale_by_yarn(rope, frequencies, keys);
    } else if (type == "longrope" || (model_.phi3 && (type == "su" || type == "yarn"))) {
      scale_by_long_rope(rope, frequencies, keys);
    } else {
      keys.fail("rope_type", "\"" + type + "\" is not computed", "default, linear, dynamic, yarn, llama3, longrope");
    }
  }

 private:
  static std::int64_t stretched(double context, double factor) { return static_cast<std::int64_t>(std::min(context * factor, 0x1p40)); }
  /// Every key of a scaling changes the computation: one that its type does not know is refused.
  static void expect_keys(const JsonKeys& keys, std::set<std::string_view> known) {
    known.insert({"rope_type", "type", "rope_theta", "partial_rotary_factor", "original_max_position_embeddings"});
    for (const auto& [key, value] : keys.map().items()) {
      if (known.contains(key)) continue;
      std::string names;
      for (const std::string_view name : known) names.append(names.empty() ? "" : ", ").append(name);
      keys.fail(key, "unknown parameter of RoPE", names);
    }
  }

  double original_context(const JsonKeys& keys) const {
    if (keys.find("original_max_position_embeddings")) return static_cast<double>(keys.count("original_max_position_embeddings"));
    return static_cast<double>(model_.original_context > 0 ? model_.original_context : model_.context);
  }

  void scale_by_yarn(Rope& rope, std::vector<double>& frequencies, const JsonKeys& keys) {
    expect_keys(keys, {"factor", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"});
    const Yarn yarn{keys.positive("factor"), original_context(keys), keys.positive_or("beta_fast", 32),
                    keys.positive_or("beta_slow", 1), keys.boolean_or("truncate", true)};
    scale_yarn(frequencies, rope.base, yarn);
    double magnitude = yarn_magnitude(yarn.factor);
    if (keys.find("mscale") && keys.find("mscale_all_dim") && yarn.factor > 1) {
      const auto of = [&](std::string_view key) { return 0.1 * keys.positive(key) * std::log(yarn.factor) + 1; };
      magnitude = of("mscale") / of("mscale_all_dim");
    }
    rope.magnitude = static_cast<float>(keys.positive_or("attention_factor", magnitude));
    context_ = std::max(model_.context, stretched(yarn.original_context, yarn.factor));
  }

  void scale_by_long_rope(Rope& rope, std::vector<double>& frequencies, const JsonKeys& keys) const {
    expect_keys(keys, {"factor", "short_factor", "long_factor", "attention_factor"});
    const double original = original_context(keys);
    rope.original_context = static_cast<std::int64_t>(original);
    const bool stated = keys.find("original_max_position_embeddings") || model_.original_context > 0;
    const double factor = stated ? static_cast<double>(model_.context) / original : keys.positive("factor");
    rope.magnitude = static_cast<float>(keys.positive_or("attention_factor", long_rope_magnitude(factor, original)));
    std::vector<double> far = frequencies;
    divide(far, divisors(keys, "long_factor", far.size()));
    rope.long_frequencies = rounded(far);
    divide(frequencies, divisors(keys, "short_factor", far.size()));
  }

  static std::vector<float> divisors(const JsonKeys& keys, std::string_view key, std::size_t pairs) {
    const nlohmann::json& list = keys.at(key);
    if (!list.is_array() || list.size() != pairs)
      keys.fail(key, "does not hold one number for each pair", std::to_string(pairs) + " numbers");
    std::vector<float> values;
    for (const nlohmann::json& value : list) {
      if (!value.is_number() || !(value.get<float>() > 0)) keys.fail(key, "holds " + value.dump(), "numbers above 0");
      values.push_back(value.get<float>());
    }
    return values;
  }

  const HfRopeModel& model_;
  std::int64_t& context_;
};

}  // namespace

Rope read_hf_rope(const JsonKeys* scaling, const HfRopeModel& model, std::int64_t& context) {
  Rope rope;
  rope.base = model.base;
  rope.dims = model.dims;
  std::vector<double> frequencies = plain_frequencies(rope.base, rope.dims);
  if (scaling) RopeReader(model, context).scale(rope, frequencies, *scaling);
  rope.frequencies = rounded(frequencies);
  return rope;
}

}  // namespace patchbay

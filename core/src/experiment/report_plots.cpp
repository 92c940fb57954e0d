// What the report's plots show: points and their Pareto front. Drawing is python/plot_report.py's.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiment/report.h"
#include "experiment/report_html.h"

namespace patchbay {
namespace {

/// A metric as an axis.
struct Axis {
  const char* metric;
  const char* label;
  double factor = 1;
};
constexpr Axis kPerplexity{"perplexity", "perplexity"};
constexpr Axis kRatio{"perplexity_ratio", "perplexity / the baseline's"};
constexpr Axis kDivergence{"kl_nats", "KL from the baseline, nats"};
constexpr Axis kWeights{"weights_bytes", "weights, MB (10⁶ bytes)", 1e-6};
constexpr Axis kCache{"kv_bytes_per_token", "KV cache, bytes per token"};
constexpr Axis kSpeed{"decode_tokens_per_s", "decoding, tokens/s"};
constexpr Axis kEmulated{"decode_tokens_per_s", "decoding EMULATED (no GPU's speed), tokens/s"};

std::optional<double> value_of(const Json& record, const Axis& axis) {
  const auto& metrics = record["metrics"];
  if (!metrics.contains(axis.metric) || !metrics[axis.metric].is_number()) return std::nullopt;
  return metrics[axis.metric].get<double>() * axis.factor;
}

std::pair<std::optional<double>, std::optional<double>> ends_of(const Json& record, const Axis& axis) {
  const auto& metrics = record["metrics"];
  const auto name = std::string(axis.metric) + "_ci";
  if (!metrics.contains(name)) return {};
  return {metrics[name][0].get<double>() * axis.factor, metrics[name][1].get<double>() * axis.factor};
}

bool varies(const std::vector<Json>& records, const Axis& axis) {
  return std::ranges::any_of(records, [&](const Json& record) { return value_of(record, axis) != value_of(records[0], axis); });
}

std::string label_of(const Json& record) {
  std::string label;
  const auto labels = record.value("labels", Json::object());  // named: items() does not keep it alive
  for (const auto& [name, value] : labels.items()) {
    const auto text = value.is_string() ? value.get<std::string>() : value.dump();
    const bool figure = !text.empty() && text.find_first_not_of("-.0123456789") == std::string::npos;  // says nothing by itself
    label += (label.empty() ? "" : ", ") + (figure ? name.substr(name.rfind('.') + 1) + "=" : "") + text;
  }
  return label.empty() ? record["run"].get<std::string>() : label;
}

void add_plot(std::vector<Plot>& plots, const std::vector<Json>& records, Plot plot, const Axis& x, const Axis& y) {
  plot.x_label = x.label;
  plot.y_label = y.label;
  for (const auto& record : records) {
    const auto at_x = value_of(record, x), at_y = value_of(record, y);
    if (!at_x || !at_y) continue;
    PlotPoint point{label_of(record), *at_x, *at_y, {}, {}, {}, {}, false, record.value("baseline", false), 0};
    std::tie(point.x_low, point.x_high) = ends_of(record, x);
    std::tie(point.y_low, point.y_high) = ends_of(record, y);
    plot.points.push_back(std::move(point));
  }
  if (plot.points.size() < 2) return;
  mark_pareto_front(plot);
  plots.push_back(std::move(plot));
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::vector<Plot> report_plots(const RecordSet& set) {
  const auto records = without_noise(merged_records(set));
  if (records.empty()) return {};
  for (const char* key : {"text_sha256", "protocol", "window", "windows"})
    if (common_text(records, {"evaluation", key}) == "several") return {};
  const bool one_model = common_text(records, {"model_sha256"}) != "several";
  const bool has_perplexity = std::ranges::any_of(records, [](const Json& r) { return value_of(r, kPerplexity).has_value(); });
  if (!has_perplexity && !one_model) return {};  // KL is then from different baselines
  // Paired with one baseline the intervals are far narrower; baselines of several folders may be different runs.
  const bool paired = set.sources.size() == 1 && std::ranges::all_of(records, [](const Json& r) { return value_of(r, kRatio).has_value(); });
  const auto& quality = paired ? kRatio : has_perplexity ? kPerplexity : kDivergence;
  std::vector<Plot> plots;
  const bool weights = varies(records, kWeights);
  add_plot(plots, records, {"bytes", weights ? "Quality against bytes of the weights" : "Quality against bytes of the KV cache", {}, {}, false, {}, {}},
           weights ? kWeights : kCache, quality);
  const bool emulated = std::ranges::any_of(records, [](const Json& r) { return value_at(r, {"environment", "emulated"}); });
  add_plot(plots, records, {"speed", "Quality against speed", {}, {}, true, {}, {}}, emulated ? kEmulated : kSpeed, quality);
  return plots;
}

void mark_pareto_front(Plot& plot) {
  // From the cheapest on, a point is on the front when it is better than all before it.
  std::vector<PlotPoint*> order;
  for (auto& point : plot.points) order.push_back(&point);
  const double sign = plot.larger_x_is_better ? -1 : 1;
  std::ranges::sort(order, [&](const auto* a, const auto* b) { return a->x != b->x ? sign * a->x < sign * b->x : a->y < b->y; });
  const PlotPoint* best = nullptr;
  for (auto* point : order) {
    point->front = !best || point->y < best->y || (point->y == best->y && point->x == best->x);
    if (point->front) best = point;
  }
  if (plot.larger_x_is_better) std::ranges::reverse(order);
  best = nullptr;
  for (auto* point : order) {
    if (!point->front) continue;
    const bool equal = best && best->x == point->x && best->y == point->y;
    point->number = (best ? best->number : 0) + (equal ? 0 : 1);
    best = point;
  }
}

Json plots_json(const std::vector<Plot>& plots) {
  Json json = {{"plots", Json::array()}};
  for (const auto& plot : plots) {
    Json points = Json::array();
    for (const auto& p : plot.points)
      points.push_back({{"label", p.label}, {"x", p.x}, {"y", p.y}, {"x_low", or_null(p.x_low)}, {"x_high", or_null(p.x_high)},
                        {"y_low", or_null(p.y_low)}, {"y_high", or_null(p.y_high)}, {"front", p.front}, {"baseline", p.baseline}, {"number", p.number}});
    json["plots"].push_back({{"name", plot.name}, {"x_label", plot.x_label}, {"y_label", plot.y_label}, {"x_better", plot.larger_x_is_better ? "higher" : "lower"}, {"points", std::move(points)}});
  }
  return json;
}

}  // namespace patchbay

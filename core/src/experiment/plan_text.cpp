// A plan as people and programs read it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiment/plan.h"
#include "experiment/text_table.h"

namespace patchbay {

std::string plan_json(const Plan& plan) {
  nlohmann::ordered_json json = {{"name", plan.name}, {"note", plan.note}, {"model", plan.model}, {"model_path", plan.model_path},
                                 {"out", plan.out},   {"tasks", plan.tasks}, {"seed", plan.seed}, {"repeat", plan.repeat}, {"noise", plan.noise},
                                 {"runs", nlohmann::ordered_json::array()}};
  for (const auto& run : plan.runs) {
    nlohmann::ordered_json labels = nlohmann::ordered_json::object();
    for (const auto& [column, value] : run.labels) labels[column] = value;
    json["runs"].push_back({{"name", run.name}, {"baseline", run.baseline}, {"noise", run.noise}, {"labels", labels},
                            {"config", nlohmann::ordered_json::parse(run.config_json)}, {"seed", plan.seed}});
    if (const auto& sizes = run.predicted)
      json["runs"].back()["predicted"] = {{"weights_bytes", sizes->weights_bytes}, {"bits_per_weight", sizes->bits_per_weight},
                                          {"kv_bytes_per_token", sizes->kv_bytes_per_token}};
    if (run.predicted && run.predicted->device_bytes > 0) {
      json["runs"].back()["predicted"]["device_weights_bytes"] = run.predicted->device_bytes;
      json["runs"].back()["predicted"]["activations"] = run.predicted->activations;
    }
  }
  return json.dump(2);
}

std::string plan_table(const Plan& plan) {
  TextTable table;
  table.header = {"run"};
  for (const auto& [column, value] : plan.runs[0].labels) table.header.push_back(column);
  const auto labels = table.header.size();
  const bool devices = std::ranges::any_of(plan.runs, [](const PlannedRun& run) { return run.predicted && run.predicted->device_bytes > 0; });
  for (const char* title : {"weights\nMiB", "bits/\nweight", "KV B/\ntoken"}) table.header.emplace_back(title);
  if (devices) table.header.insert(table.header.end(), {"on device\nMiB", "activa-\ntions"});
  table.header.emplace_back("");
  table.right.assign(table.header.size(), false);
  std::fill_n(table.right.begin() + static_cast<std::ptrdiff_t>(labels), devices ? 4 : 3, true);
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    std::vector<std::string> row = {std::to_string(i + 1)};
    for (const auto& [column, value] : plan.runs[i].labels) row.push_back(value);
    const auto& sizes = plan.runs[i].predicted;
    row.push_back(sizes ? fmt::format("{:.1f}", static_cast<double>(sizes->weights_bytes) / (1 << 20)) : "-");
    row.push_back(sizes ? fmt::format("{:.2f}", sizes->bits_per_weight) : "-");
    row.push_back(sizes ? std::to_string(sizes->kv_bytes_per_token) : "-");
    if (devices) row.push_back(sizes ? fmt::format("{:.1f}", static_cast<double>(sizes->device_bytes) / (1 << 20)) : "-");
    if (devices) row.push_back(sizes ? sizes->activations : "-");
    row.push_back(plan.runs[i].baseline ? "baseline" : plan.runs[i].noise ? "baseline again: noise" : "");
    table.rows.push_back(std::move(row));
  }
  return table.text(true);
}

}  // namespace patchbay

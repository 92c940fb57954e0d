// patchbay plan: what an experiment would run, checked against the model, nothing loaded.
#include "experiment/plan.h"

#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "commands.h"
#include "experiment/text_table.h"
#include "idle_processors.h"
#include "quantize/sensitivity_scan.h"

namespace patchbay::app {

int plan(const PlanOptions& options) {
  auto planned = plan_file(options.file, options.assignments);
  if (!options.out.empty()) planned.out = options.out;
  if (options.json) {
    fmt::print("{}\n", plan_json(planned));
    return 0;
  }
  fmt::print("{}: {} of {} into {}\n", planned.name, counted(std::ssize(planned.runs), "run"), planned.model, planned.out);
  if (!planned.note.empty()) fmt::print("{}\n", planned.note);
  const auto timings = planned.has("throughput") ? fmt::format("; timings in {}", counted(planned.repeat, "round")) : "";
  fmt::print("tasks: {}; seed {}{}{}\n\n", fmt::join(planned.tasks, ", "), planned.seed, timings, planned.noise ? "; the baseline is measured again" : "");
  std::fputs(plan_table(planned).c_str(), stdout);
  constexpr int kVocabulary = 1024;  // of the logits that processors are tried on
  std::set<std::string> told;
  for (const auto& run : planned.runs)
    for (const auto& line : {scan_note(run.config), idle_processors(run.config, kVocabulary)})
      if (!line.empty() && told.insert(line).second) fmt::print(stderr, "patchbay: note: run {}: {}\n", run.name, line);
  return 0;
}

}  // namespace patchbay::app

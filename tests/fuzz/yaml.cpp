// A YAML text as an experiment (to the runs that it plans), as a model's description, and as a value of the command line.
#include "config.h"
#include "experiment/plan.h"
#include "fuzz.h"
#include "model_file.h"

using namespace patchbay;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::may_refuse([&] {
    Settings yaml = parse_yaml(text, "fuzz.yaml");
    to_json(yaml);
    if (describes_model(yaml)) return;
    const Plan plan = read_plan(std::move(yaml), "");
    plan_json(plan);
    plan_table(plan);
  });
  fuzz::may_refuse([&] { parse_value(text, "fuzz"); });
  fuzz::may_refuse([&] {
    Settings map;
    map.kind = Settings::Kind::map;
    apply_assignment(map, text);
    to_json(map);
  });
  return 0;
}

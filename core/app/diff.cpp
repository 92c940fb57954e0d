// patchbay diff A B: two records side by side.
//
// --json: {"a", "b": {"folder", "run", "hash"}, "settings", "origin", "environment": [{"path", "a", "b"}],
// "metrics": {NAME: {"a", "a_ci", "b", "b_ci", "difference"}}, "paired": {..} or "unpaired": the reason}.
#include <fmt/format.h>

#include "commands.h"
#include "common.h"
#include "experiment/record_diff.h"
#include "json_text.h"

namespace patchbay::app {

int diff(const DiffOptions& options) {
  const auto first = find_record(options.first), second = find_record(options.second);
  const auto found = diff_records(first, second);
  if (options.json)
    fmt::print("{}\n", json_text(diff_json(found, first, second)));
  else
    fmt::print("{}", diff_text(found, first, second, unicode_terminal()));
  return 0;
}

}  // namespace patchbay::app

// Drafts come from plugins: what they claim is checked once, here, before rows of a batch depend on it.
#include "draft_rules.h"

#include <string>

namespace patchbay {

Draft clip_draft(const Draft& draft, std::int64_t depth, std::int64_t rows, std::int64_t vocabulary) {
  Draft kept;
  std::vector<std::int64_t> depths(draft.tokens.size());
  std::vector<std::int32_t> index(draft.tokens.size(), -1);  // in `kept`
  for (std::size_t i = 0; i < draft.tokens.size(); ++i) {
    const std::int32_t parent = draft.parents[i];
    depths[i] = parent < 0 ? 1 : depths[parent] + 1;
    const bool orphan = parent >= 0 && index[parent] < 0;
    if (orphan || depths[i] > depth || static_cast<std::int64_t>(kept.tokens.size()) >= rows) continue;
    index[i] = static_cast<std::int32_t>(kept.tokens.size());
    kept.tokens.push_back(draft.tokens[i]);
    kept.parents.push_back(parent < 0 ? -1 : index[parent]);
    if (!draft.probabilities.empty()) {
      const auto row = draft.probabilities.begin() + static_cast<std::int64_t>(i) * vocabulary;
      kept.probabilities.insert(kept.probabilities.end(), row, row + vocabulary);
    }
  }
  return kept;
}

void check_draft(const Draft& draft, std::int64_t vocabulary) {
  const std::size_t n = draft.tokens.size();
  bool good = draft.parents.size() == n && (draft.probabilities.empty() || draft.probabilities.size() == n * vocabulary);
  for (std::size_t i = 0; good && i < n; ++i) good = draft.parents[i] >= -1 && draft.parents[i] < static_cast<std::int32_t>(i);
  if (!good) {
    throw Error("decoder", "a draft that is no tree", "one parent for each token, before it, and a row of probabilities or none");
  }
}

void check_path(const Draft& draft, const Accepted& accepted) {
  std::int32_t last = -1;
  for (const std::int32_t i : accepted.path) {
    if (i < 0 || i >= static_cast<std::int32_t>(draft.tokens.size()) || draft.parents[i] != last) {
      throw Error("decoder", "it kept draft token " + std::to_string(i) + " after " + std::to_string(last),
                  "a path of the draft");
    }
    last = i;
  }
}

}  // namespace patchbay

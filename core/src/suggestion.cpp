// The nearest known name to a misspelt one: Damerau-Levenshtein distance (optimal string alignment), letter case free of charge. A replaced letter
// counts twice, as one left out and one put in: of short words too many are one letter apart (nope, none).
#include <algorithm>
#include <cctype>

#include "config.h"

namespace patchbay {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

/// Insertions, deletions and swaps of neighbours that turn a into b; replacements, at two each.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_above(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 2)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
    two_above.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestName = 64;  // nobody misspells a word that long: don't spend time on hostile keys
  if (name.size() > kLongestName) return {};
  const std::string wanted = lower(name);
  std::string nearest;
  std::size_t best = (name.size() + 1) / 3 + 1;  // about one slip per three letters, none in a single one
  for (const std::string& candidate : candidates) {
    const std::size_t d = distance(wanted, lower(candidate));
    if (d < best) {
      best = d;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace patchbay

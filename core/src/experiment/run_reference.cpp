#include "experiment/run_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "utf8.h"

namespace patchbay {
namespace {

/// "a, b" to its parts, without the spaces around them.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    auto part = text.substr(begin, end - begin);
    part.erase(0, part.find_first_not_of(' '));
    part.erase(part.find_last_not_of(' ') + 1);
    if (!part.empty()) parts.push_back(std::move(part));
    begin = end + 1;
  }
  return parts;
}

/// A column's value, or COLUMN=VALUE.
bool is_label(const std::pair<std::string, std::string>& label, const std::string& text) {
  return text == label.second || text == label.first + "=" + label.second;
}

bool has_label(const NamedRun& run, const std::string& text) {
  return std::ranges::any_of(run.labels, [&](const auto& label) { return is_label(label, text); });
}

/// A bare number is a run's number, whatever the labels are: "3" of a sweep over bits is the third run, "bits=3" the label. What is longer
/// than the number of any run is the beginning of a hash.
bool is_number(const std::string& text) {
  constexpr std::size_t kLongest = 5;  // kMaxRuns and the baseline's two
  return !text.empty() && text.size() <= kLongest && text.find_first_not_of("0123456789") == std::string::npos;
}

bool has_labels(const NamedRun& run, const std::string& wanted) {
  if (run.noise) return false;
  if (has_label(run, wanted)) return true;  // a value may hold commas
  const auto parts = parts_of(wanted);
  return !parts.empty() && std::ranges::all_of(parts, [&](const auto& part) { return has_label(run, part); });
}

/// The columns in which the run has what `wanted` says.
std::vector<std::string> columns_of(const NamedRun& run, const std::string& wanted) {
  const auto parts = has_label(run, wanted) ? std::vector<std::string>{wanted} : parts_of(wanted);
  std::vector<std::string> columns;
  for (const auto& label : run.labels)
    if (std::ranges::any_of(parts, [&](const auto& part) { return is_label(label, part); })) columns.push_back(label.first);
  return columns;
}

std::map<std::string, std::string> labels_but(const NamedRun& run, const std::vector<std::string>& columns) {
  std::map<std::string, std::string> labels(run.labels.begin(), run.labels.end());
  for (const auto& column : columns) labels.erase(column);
  return labels;
}

std::vector<std::size_t> those_that(std::span<const NamedRun> runs, auto fits) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (fits(runs[i])) found.push_back(i);
  return found;
}

struct Fitting {
  std::vector<std::size_t> runs;
  bool by_labels = false;
};

/// All runs that `wanted` fits, by the first way to name a run that fits any.
Fitting fitting_runs(const std::string& wanted, std::span<const NamedRun> runs) {
  auto found = those_that(runs, [&](const NamedRun& run) { return wanted == run.name || wanted == run.hash; });
  if (!found.empty()) return {std::move(found), false};
  if (is_number(wanted)) return {those_that(runs, [&](const NamedRun& run) { return wanted == std::to_string(run.number); }), false};
  found = those_that(runs, [&](const NamedRun& run) { return has_labels(run, wanted); });
  if (!found.empty()) return {std::move(found), true};
  return {those_that(runs, [&](const NamedRun& run) { return !wanted.empty() && run.hash.starts_with(wanted); }), false};
}

/// "bits=4": the label of that value as it can be typed.
std::string whole_label(const NamedRun& run, const std::string& value) {
  const auto label = std::ranges::find(run.labels, value, &std::pair<std::string, std::string>::second);
  return escaped(label->first, 100) + "=" + value;
}

/// "1: attention=naive (0123456789abcdef); 2: ..."
std::string listed(std::span<const NamedRun> runs, std::span<const std::size_t> chosen) {
  constexpr std::size_t kMost = 12;
  std::vector<std::string> lines;
  for (const std::size_t i : chosen.first(std::min(kMost, chosen.size()))) {
    const auto hash = runs[i].hash.empty() ? "" : fmt::format(" ({})", escaped(runs[i].hash, 40));
    lines.push_back(fmt::format("{}: {}{}", runs[i].number, escaped(runs[i].name, 200), hash));
  }
  if (chosen.size() > kMost) lines.emplace_back("...");
  return fmt::format("{}", fmt::join(lines, "; "));
}

}  // namespace

std::size_t find_run(const std::string& wanted, std::span<const NamedRun> runs, const std::string& where) {
  const auto found = fitting_runs(wanted, runs).runs;
  if (found.size() == 1) return found[0];
  if (found.size() > 1)
    throw Error(where, fmt::format("{} runs fit", found.size()), listed(runs, found), "give one of these numbers, or more labels, the whole name or a hash");
  const auto labelled = is_number(wanted) ? those_that(runs, [&](const NamedRun& run) { return has_labels(run, wanted); }) : std::vector<std::size_t>();
  const auto problem = labelled.empty() ? std::string("no such run")
                                        : "no run has this number; as a label it is written " + whole_label(runs[labelled[0]], wanted);
  throw Error(where, problem, listed(runs, those_that(runs, [](const NamedRun&) { return true; })), fmt::format("give {}", kRunForms));
}

std::vector<std::optional<std::size_t>> find_partners(const std::string& wanted, std::span<const NamedRun> runs, const std::string& where) {
  const auto found = fitting_runs(wanted, runs);
  if (!found.by_labels || found.runs.size() == 1) return std::vector<std::optional<std::size_t>>(runs.size(), find_run(wanted, runs, where));
  const auto several_fit = [&] { find_run(wanted, runs, where); };  // throws, with a list of them
  const auto columns = columns_of(runs[found.runs[0]], wanted);
  for (const std::size_t i : found.runs)
    if (columns_of(runs[i], wanted) != columns) several_fit();
  std::vector<std::optional<std::size_t>> partners(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i)
    for (const std::size_t other : found.runs) {
      if (labels_but(runs[i], columns) != labels_but(runs[other], columns)) continue;
      if (partners[i]) several_fit();
      partners[i] = other;
    }
  return partners;
}

}  // namespace patchbay

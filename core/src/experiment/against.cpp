#include "experiment/against.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "experiment/comparisons.h"
#include "experiment/record_diff.h"
#include "experiment/report.h"
#include "experiment/run_reference.h"
#include "utf8.h"

namespace patchbay {
namespace {

std::string name_of(const Json& record) { return escaped(record["run"].get<std::string>(), 100); }

/// The set without the baselines measured again, which are no runs of the plan then either.
RecordSet runs_alone(const RecordSet& set) {
  RecordSet runs{set.sources, {}, {}, {}};
  for (std::size_t i = 0; i < set.records.size(); ++i) {
    const auto source = set.source_of[i];
    if (set.records[i].value("noise", false)) {
      if (runs.sources[source].planned > 0) --runs.sources[source].planned;
      continue;
    }
    runs.records.push_back(set.records[i]);
    runs.source_of.push_back(source);
    runs.numbers.push_back(set.numbers[i]);
  }
  return runs;
}

/// One folder's runs [first, last) of the set, each beside its partner.
class Pairing {
 public:
  Pairing(RecordSet& set, std::size_t first, std::size_t last, const std::string& wanted)
      : set_(set), first_(first), wanted_(wanted), scores_(last - first) {
    const auto names = named_runs(set);
    partners_ = find_partners(wanted, std::span(names).subspan(first, last - first), where());
  }

  /// How many runs have a partner other than themselves.
  int pair_all() {
    int pairs = 0;
    for (std::size_t i = 0; i < partners_.size(); ++i) {
      auto& record = set_.records[first_ + i];
      erase_relative(record["metrics"]);
      Json other = {{"words", wanted_}, {"run", nullptr}, {"hash", nullptr}, {"scores", nullptr}};
      if (partners_[i]) {
        const auto& partner = set_.records[first_ + *partners_[i]];
        for (const char* key : {"run", "hash"}) other[key] = partner[key];
        if (*partners_[i] != i) {
          pair(i, *partners_[i]);
          other["scores"] = partner["evaluation"]["scores"];
          ++pairs;
        }
      }
      record["against"] = std::move(other);
    }
    return pairs;
  }

 private:
  const std::string& folder() const { return set_.sources[set_.source_of[first_]].folder; }
  std::string where() const { return escaped(folder()) + ": --against " + escaped(wanted_, 100); }

  static void erase_relative(Json& metrics) {
    std::vector<std::string> names;
    for (const auto& [name, value] : metrics.items())
      if (name.starts_with("perplexity_ratio") || name.find("_speed_ratio") != std::string::npos) names.push_back(name);
    for (const auto& name : names) metrics.erase(name);
  }

  const TokenScores& scores(std::size_t i) {
    if (scores_[i].nll.empty()) scores_[i] = scores_of_record({set_.records[first_ + i], folder()});
    return scores_[i];
  }

  void pair(std::size_t i, std::size_t partner) {
    auto &record = set_.records[first_ + i], &other = set_.records[first_ + partner];
    const auto &left = scores(i), &right = scores(partner);
    auto reason = unpaired_reason(record, other);
    if (reason.empty() && (left.windows != right.windows || left.per_window != right.per_window)) reason = "the scores files differ in length";
    if (!reason.empty())
      throw Error(where(), fmt::format("{} and {} were not scored on the same tokens: {}", name_of(record), name_of(other), reason), {},
                  "run the experiment again with --resume, so that all of it is scored on one text");
    auto& metrics = record["metrics"];
    add_against(metrics, left, right, record.value("seed", std::uint64_t{0}));
    // Without a divergence of one of them, what is left is the other's own, which is above zero as soon as anything differs.
    const auto diverges = [](const Json& run, const TokenScores& of) {
      return !run.value("baseline", false) && std::ranges::any_of(of.kl, [](float kl) { return kl != 0; });
    };
    if (diverges(record, left) && diverges(other, right)) return;
    for (const char* name : {"against_kl_nats_p", "against_top1_agreement_p"}) metrics.erase(name);
  }

  RecordSet& set_;
  std::size_t first_;
  const std::string& wanted_;
  std::vector<TokenScores> scores_;
  std::vector<std::optional<std::size_t>> partners_;
};

/// The other runs' names, each once.
std::set<std::string> partner_names(std::span<const Json> records) {
  std::set<std::string> names;
  for (const auto& record : records)
    if (const auto* run = value_at(record, {"against", "run"}); run && run->is_string()) names.insert(run->get<std::string>());
  return names;
}

std::string words_of(std::span<const Json> records) { return is_against(records) ? record_text(records[0], {"against", "words"}) : ""; }

}  // namespace

RecordSet against(const RecordSet& set, const std::string& wanted) {
  auto paired = runs_alone(set);
  int pairs = 0;
  for (std::size_t first = 0, last; first < paired.records.size(); first = last) {
    for (last = first; last < paired.records.size() && paired.source_of[last] == paired.source_of[first];) ++last;
    pairs += Pairing(paired, first, last, wanted).pair_all();
  }
  if (pairs == 0)
    throw Error("--against " + escaped(wanted, 100), "no other run has the same labels in the other columns", {}, "name one run: by its number in `plan`, its name or hash");
  add_adjusted_p(paired.records);
  return paired;
}

bool is_against(std::span<const Json> records) { return !records.empty() && records[0].contains("against"); }

std::string against_title(std::span<const Json> records) {
  constexpr std::size_t kLongest = 20;
  const auto words = words_of(records);
  const auto is_number = [](const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; };
  const auto equals = words.find('=');
  auto title = words;
  if (is_number(words)) title = "run " + words;
  else if (equals != std::string::npos && words.find(',') == std::string::npos)  // "weights.quantizer=rtn": rtn; "weights.format.bits=3": bits=3
    title = is_number(words.substr(equals + 1)) ? words.substr(words.rfind('.', equals) + 1) : words.substr(equals + 1);
  return title.size() > kLongest ? "the other" : escaped(title);
}

std::string against_legend(std::span<const Json> records) {
  if (!is_against(records)) return "";
  const auto names = partner_names(records);
  const auto which = names.size() == 1 ? escaped(*names.begin(), 200) : "the one with " + escaped(words_of(records), 200) + " and otherwise the row's settings";
  return fmt::format("Against {}: the run paired by token with {};\n"
                     "  by how much its perplexity is larger, and the differences of KL and of top-1 (both from the baseline). -: the row itself, or no such run.\n",
                     against_title(records), which);
}

}  // namespace patchbay

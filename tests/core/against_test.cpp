// Runs of a folder against another of its runs than the baseline, paired by token.
#include "experiment/against.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "experiment/evaluation.h"
#include "experiment/report.h"
#include "synthetic_records.h"

using namespace patchbay;
using Catch::Contains;
using test::Folder;
using test::message_of;

namespace {

constexpr std::int64_t kWindows = 2, kPerWindow = 320;

/// What a made-up run scores: v(m) = ((i i m + 7 i) mod 1021) / 1024, which float32 holds exactly; nll = 2 + v(nll) + worse,
/// KL = v(kl) scale, the baseline's first choice where v(same) < agreement.
struct Made {
  std::int64_t nll, kl, same;
  double worse, scale, agreement;
};
const Made kBaseline{61, 0, 1, 0, 0, 1}, kA{61, 37, 11, 0, 1.0 / 8, 0.9}, kB{205, 101, 13, 1.0 / 16, 1.0 / 4, 0.8};

TokenScores scores_of(const Made& made) {
  TokenScores scores{kWindows, kPerWindow, {}, {}, {}};
  for (std::int64_t i = 0; i < kWindows * kPerWindow; ++i) {
    const auto v = [&](std::int64_t m) { return static_cast<double>((i * i * m + 7 * i) % 1021) / 1024; };
    scores.nll.push_back(static_cast<float>(2 + v(made.nll) + made.worse));
    scores.kl.push_back(static_cast<float>(v(made.kl) * made.scale));
    scores.top1.push_back(v(made.same) < made.agreement ? TokenScores::kSame : 0);
  }
  return scores;
}

/// A folder with a baseline, the baseline again, and quantizers x bits.
struct Results : Folder {
  std::vector<Json> records;

  explicit Results(const std::string& name = "synthetic") {
    add("base", "none", "none", kBaseline, name);
    records.back()["baseline"] = true;
    add("again", "none", "none", kBaseline, name);
    records.back()["noise"] = true;
    add("rtn3", "rtn", "3", kB, name);
    add("rtn4", "rtn", "4", kA, name);
    add("gptq3", "gptq", "3", kA, name);
    add("gptq4", "gptq", "4", kB, name);
    add("drafts", "drafts", "none", kBaseline, name);  // the baseline's equal
    save();
  }
  void add(const std::string& hash, const std::string& quantizer, const std::string& bits, const Made& made, const std::string& name) {
    auto record = test::synthetic_record(hash, 0);
    record["name"] = name;
    record["run"] = hash == "again" ? "baseline again" : "quantizer=" + quantizer + ", bits=" + bits;
    record["labels"] = {{"quantizer", quantizer}, {"bits", bits}};
    record["evaluation"]["scores"] = "scores/" + hash + ".bin";
    record["metrics"]["perplexity_ratio"] = 1.5;
    record["metrics"]["perplexity_ratio_p"] = 0.5;
    records.push_back(record);
    std::filesystem::create_directories(path + "/scores");
    write_scores(path + "/scores/" + hash + ".bin", scores_of(made));
  }
  void save() const { write("records.jsonl", records); }
};

RecordSet table_of(const std::vector<std::string>& folders, const std::string& wanted) { return against(read_report_set(folders), wanted); }

const Json& metrics_of(const RecordSet& set, const std::string& hash) {
  for (const auto& record : set.records)
    if (record["hash"] == hash) return record["metrics"];
  throw Error(hash, "no such record");
}

std::string refusal(const Results& results, const std::string& wanted) {
  return message_of([&] { table_of({results.path}, wanted); });
}

/// Within a tenth of the interval's width: 1,000 resamples are not all there are.
void check_interval(const Json& interval, double low, double high) {
  CHECK(std::abs(interval[0].get<double>() - low) < (high - low) / 10);
  CHECK(std::abs(interval[1].get<double>() - high) < (high - low) / 10);
}

}  // namespace

TEST_CASE("the paired differences, their intervals and p-values are numpy's") {
  // numpy 2: means of blocks of 32 tokens of the difference; 400,000 resamples of the 20 blocks; p from an integral of Student's density.
  Results results;
  const auto set = table_of({results.path}, "gptq, 3");
  const auto& metrics = metrics_of(set, "rtn3");
  CHECK(metrics["against_kl_nats"].get<double>() == Approx(0.06297874450683594).epsilon(1e-12));
  check_interval(metrics["against_kl_nats_ci"], 0.05563, 0.07041);
  CHECK(metrics["against_perplexity_ratio"].get<double>() == Approx(1.0883058187888262).epsilon(1e-12));
  check_interval(metrics["against_perplexity_ratio_ci"], 1.06640, 1.11029);
  CHECK(metrics["against_perplexity_ratio_p"].get<double>() == Approx(1.5629256e-7).epsilon(1e-5));
  CHECK(metrics["against_top1_agreement"].get<double>() == Approx(-0.0828125).epsilon(1e-12));
  check_interval(metrics["against_top1_agreement_ci"], -0.125, -0.04375);
  CHECK(metrics["against_top1_agreement_p"].get<double>() == Approx(9.410490e-4).epsilon(1e-5));
  CHECK_FALSE(metrics.contains("perplexity_ratio"));
  CHECK_FALSE(metrics.contains("perplexity_ratio_p_adjusted"));
  // The divergence of the baseline and its equals is none, so that nothing about it is tested.
  for (const char* hash : {"base", "drafts"}) {
    CHECK(metrics_of(set, hash)["against_kl_nats"].get<double>() < 0);
    CHECK(metrics_of(set, hash).contains("against_perplexity_ratio_p"));
    CHECK_FALSE(metrics_of(set, hash).contains("against_kl_nats_p"));
    CHECK_FALSE(metrics_of(set, hash).contains("against_top1_agreement_p"));
  }
  CHECK_FALSE(metrics_of(set, "gptq3").contains("against_kl_nats"));
  CHECK(set.records.size() == 6);  // without the baseline again
}

TEST_CASE("one run stands against all; a label of several runs against those that have the other labels too") {
  Results results;
  const auto one = table_of({results.path}, "quantizer=gptq, bits=3");
  for (const auto& record : one.records) CHECK(record["against"]["hash"] == "gptq3");
  const auto setting = table_of({results.path}, "rtn");
  const auto other = [&](std::size_t i) { return setting.records[i]["against"]["hash"]; };
  CHECK(other(0).is_null());  // the baseline has no bits to share
  CHECK(other(3) == "rtn3");
  CHECK(other(4) == "rtn4");
  CHECK(metrics_of(setting, "gptq3")["against_kl_nats"].get<double>() == Approx(-0.06297874450683594).epsilon(1e-12));
  CHECK(metrics_of(setting, "gptq4")["against_kl_nats"].get<double>() == Approx(0.06297874450683594).epsilon(1e-12));
  for (const char* hash : {"base", "rtn3", "rtn4"}) CHECK_FALSE(metrics_of(setting, hash).contains("against_kl_nats"));
  // Two comparisons of each of three figures.
  const auto& tested = metrics_of(setting, "gptq3");
  CHECK(tested["against_top1_agreement_p_adjusted"].get<double>() == Approx(2 * 9.410490e-4).epsilon(1e-5));
}

TEST_CASE("the tables say what stands against what") {
  Results results;
  const auto set = table_of({results.path}, "rtn");
  const auto text = report_text(set, true);
  CHECK_THAT(text, Contains("against") && !Contains("against\nbaseline") && !Contains("baseline again"));
  CHECK_THAT(text, Contains("Against rtn: the run paired by token with the one with rtn and otherwise the row's settings;"));
  CHECK_THAT(text, Contains("! a difference between two runs that holds among the 6 of this table") && Contains("paired with the other run"));
  CHECK_THAT(report_markdown(set), Contains("| perplexity | against rtn | KL, 10^-3 nats | KL against rtn |"));
  CHECK_THAT(report_csv(set), Contains(",against_kl_nats_low,") && Contains(",against\r\n") && Contains(",\"quantizer=rtn, bits=4\"\r\n"));
  CHECK_THAT(report_text(table_of({results.path}, "4"), true), Contains("against") && Contains("run 4") && Contains("paired by token with quantizer=rtn, bits=4;"));
  Results second("second");
  const auto both = table_of({results.path, second.path}, "rtn");
  CHECK(both.records[10]["against"]["hash"] == "rtn4");  // its own folder's
  CHECK_THAT(report_text(both, true), Contains("Each row is compared with a run of its own folder") && !Contains("are finished"));
}

TEST_CASE("what names no run, or several, and what cannot be paired is refused") {
  Results results;
  CHECK_THAT(refusal(results, "awq"), Contains("--against awq: no such run; allowed: 1: quantizer=none, bits=none (base)") && !Contains("baseline again"));
  CHECK_THAT(refusal(results, ""), Contains("no such run"));
  CHECK_THAT(refusal(results, "bits=3, quantizer=awq"), Contains("no such run"));
  CHECK_THAT(refusal(results, "gptq4, 3"), Contains("no such run"));
  results.add("odd", "3", "rtn", kA, "synthetic");  // "rtn" is a quantizer here and bits there
  results.save();
  CHECK_THAT(refusal(results, "rtn"), Contains("3 runs fit; allowed: ") && Contains("(odd)") && Contains("give one of these numbers"));
  results.records.pop_back();
  results.records[4]["evaluation"]["text_sha256"] = "another";
  results.save();
  CHECK_THAT(refusal(results, "rtn"), Contains("quantizer=gptq, bits=3 and quantizer=rtn, bits=3 were not scored on the same tokens: evaluation.text_sha256 differs"));
  results.records[4]["evaluation"]["text_sha256"] = results.records[3]["evaluation"]["text_sha256"];
  results.save();
  write_scores(results.path + "/scores/gptq3.bin", first_windows(scores_of(kA), 1));
  CHECK_THAT(refusal(results, "rtn"), Contains("not scored on the same tokens: the scores files differ in length"));
  std::filesystem::remove(results.path + "/scores/gptq3.bin");
  CHECK_THAT(refusal(results, "rtn"), Contains("gptq3.bin: the token scores are not here") && Contains("--resume"));
  for (auto& record : results.records) record["evaluation"].erase("scores");
  results.save();
  CHECK_THAT(refusal(results, "rtn"), Contains("no text was scored; allowed: a run with perplexity or divergence"));
  for (auto& record : results.records) record["labels"]["bits"] = record["hash"];
  results.save();
  CHECK_THAT(refusal(results, "rtn"), Contains("no other run has the same labels in the other columns"));
}

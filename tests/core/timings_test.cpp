// Rounds of timings: paired ratios, and a file that survives what records survive.
#include "experiment/timings.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "synthetic_records.h"

using namespace patchbay;
using Catch::Contains;
using test::message_of;

namespace {

std::map<std::string, RunTimes> round_of(double base, double run) {
  return {{"base", {base, 2 * base, 10, 5, 0.02}}, {"run", {run, 2 * run, 10, 5, 0.1}}};
}

const std::vector<std::string> kRuns = {"base", "run"};

}  // namespace

TEST_CASE("a drift that slows all runs of a round alike leaves their ratio alone") {
  Series series{kRuns, {}};
  std::mt19937_64 engine(5);
  std::uniform_real_distribution<double> noise(0.998, 1.002);
  for (const double machine : {1.0, 0.8, 0.5, 1.1, 0.7, 0.9}) series.rounds.push_back(round_of(1000 * machine, 1100 * machine * noise(engine)));
  Json metrics;
  add_times(metrics, series, "run", 0);
  const auto width = [&](const std::string& name) { return metrics[name + "_ci"][1].get<double>() - metrics[name + "_ci"][0].get<double>(); };
  CHECK(metrics["prefill_speed_ratio"].get<double>() == Approx(1.1).epsilon(0.002));
  CHECK(width("prefill_speed_ratio") < 0.01);
  CHECK(width("prefill_tokens_per_s") > 0.2 * metrics["prefill_tokens_per_s"].get<double>());
  CHECK(metrics["decode_speed_ratio_p"] < 1e-6);
  CHECK(metrics["prefill_tokens_per_s_values"].size() == 6);
  CHECK(metrics["busy_share"].get<double>() == Approx(0.1));
  Json baseline;
  add_times(baseline, series, "base", 0);
  CHECK_FALSE(baseline.contains("prefill_speed_ratio"));
}

TEST_CASE("prompts of one kind have times and a paired ratio of their own, and the file keeps them") {
  test::Folder place;
  TimingsFile file(place / "timings.jsonl", "here");
  for (const double machine : {1.0, 0.6}) {
    auto round = round_of(100 * machine, 110 * machine);
    round["base"].decode_tokens_per_s_of = {{"copy", 50 * machine}, {"story", 40 * machine}};
    round["run"].decode_tokens_per_s_of = {{"copy", 150 * machine}, {"story", 36 * machine}};
    file.add_round("s", 2, kRuns, round);
  }
  const TimingsFile again(place / "timings.jsonl", "here");
  Json copy, story, baseline;
  add_times_of_kind(copy, *again.finished("run"), "run", "copy", 0);
  add_times_of_kind(story, *again.finished("run"), "run", "story", 0);
  add_times_of_kind(baseline, *again.finished("run"), "base", "copy", 0);
  CHECK(copy["decode_tokens_per_s"].get<double>() == Approx(120));
  CHECK(copy["decode_speed_ratio"].get<double>() == Approx(3));
  CHECK(copy["decode_speed_ratio_p"] < 1e-6);
  CHECK(story["decode_speed_ratio"].get<double>() == Approx(0.9));
  CHECK_FALSE(baseline.contains("decode_speed_ratio"));
}

TEST_CASE("one round has a ratio and no interval; an unknown load is left out; nothing decoded has no ratio") {
  Series series{kRuns, {round_of(100, 50)}};
  series.rounds[0]["run"].busy_share = std::nan("");
  series.rounds[0]["run"].decode_tokens_per_s = 0;
  Json metrics;
  add_times(metrics, series, "run", 0);
  CHECK(metrics["prefill_speed_ratio"].get<double>() == Approx(0.5));
  CHECK_FALSE(metrics.contains("prefill_speed_ratio_ci"));
  CHECK_FALSE(metrics.contains("prefill_speed_ratio_p"));
  CHECK_FALSE(metrics.contains("decode_speed_ratio"));
  CHECK_FALSE(metrics.contains("busy_share"));
}

TEST_CASE("finished rounds are found again on their host; a torn one is cut off; what is no round is refused") {
  test::Folder place;
  const auto path = place / "timings.jsonl";
  {
    TimingsFile file(path, "here");
    file.add_round("s", 2, kRuns, round_of(100, 110));
    CHECK(file.finished("run") == nullptr);
  }
  std::ofstream(path, std::ios::app) << R"({"series":"s","host":"he)";
  {
    TimingsFile file(path, "here");
    CHECK(file.series("s").rounds.size() == 1);
    CHECK(file.series("s").rounds[0].at("run").prefill_tokens_per_s == 110);
    file.add_round("s", 2, kRuns, round_of(90, 99));
    REQUIRE(file.finished("run") != nullptr);
    CHECK(file.finished("run")->rounds.size() == 2);
  }
  CHECK(whole_lines(path).size() == 2);
  CHECK(TimingsFile(path, "here").finished("base") != nullptr);
  CHECK(TimingsFile(path, "elsewhere").finished("base") == nullptr);
  const auto lines = test::read_file(path);
  for (const std::string bad : {"{}", "7", "no JSON", R"({"series":"s","host":"here","round":5,"rounds":2,"runs":[],"times":{}})",
                                R"({"series":"t","host":"here","round":1,"rounds":2,"runs":["x"],"times":{}})"}) {
    write_file_atomically(path, lines + bad + "\n");
    CHECK_THAT(message_of([&] { TimingsFile(path, "here"); }), Contains("timings.jsonl:3") && Contains("remove the line"));
  }
}

TEST_CASE("a full disk leaves the finished rounds whole") {
  test::Folder place;
  const auto path = place / "timings.jsonl";
  TimingsFile(path, "here").add_round("s", 3, kRuns, round_of(100, 110));
  const auto child = ::fork();
  if (child == 0) {  // a limit on file sizes fails in the way a full disk does
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{600, 600};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int code = 1;
    try {
      TimingsFile file(path, "here");
      for (int i = 0; i < 9; ++i) file.add_round("s", 30, kRuns, round_of(100, 110));
    } catch (const Error& error) {
      code = std::string(error.what()).find("--resume") != std::string::npos ? 0 : 3;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(test::read_file(path).back() == '\n');
  CHECK_FALSE(TimingsFile(path, "here").series("s").rounds.empty());
}

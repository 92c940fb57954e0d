// report, diff and tokens on an experiment that the program has just run on the tiny golden Llama.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "support.h"
#include "synthetic_records.h"

namespace test = patchbay::test;
using Catch::Contains;
using patchbay::Json;

namespace {

struct Result { int code = -1; std::string out; };

Result patchbay_run(const std::string& arguments, const std::string& streams = "2>&1") {
  Result result;
  std::FILE* pipe = ::popen((PATCHBAY_BINARY_DIR "/bin/patchbay " + arguments + " " + streams).c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, n);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

/// One experiment for all cases: three runs, scored.
struct Experiment {
  test::Folder place;
  std::string out = place / "out", text = place / "text.txt", table;
  Experiment() {
    patchbay::write_file_atomically(text, test::read_file(test::source_path("data/evaluation.txt")).substr(0, 400));
    patchbay::write_file_atomically(place / "tiny.yaml",
                                    "name: tiny\nnote: what do <few> bits cost?\nmodel: " + test::source_path("tests/golden/tiny_llama/gqa_tied.gguf") +
                                        "\ntasks: [perplexity, divergence, memory]\nevaluation: {text: " + text + ", window: 64, chunks: 3}\n" +
                                        "base: {activations: fp32, weights: {quantizer: rtn, format: {type: int_grouped, group_size: 16}}}\n"
                                        "sweep: {weights.format.bits: [8, 4, 2]}\nbaseline: {weights: none}\n");
    const auto result = patchbay_run("run " + (place / "tiny.yaml") + " --out " + out, "2>/dev/null");
    REQUIRE(result.code == 0);
    table = result.out;
  }
};

const Experiment& experiment() {
  static const Experiment made;
  return made;
}

}  // namespace

TEST_CASE("report makes the table of run again, and run leaves a CSV beside the records") {
  const auto again = patchbay_run("report " + experiment().out);
  CHECK(again.code == 0);
  CHECK("\n" + again.out == experiment().table);
  CHECK_THAT(again.out, Contains("perplexity"));
  const auto csv = experiment().place / "copy.csv";
  CHECK(patchbay_run("report " + experiment().out + " --csv " + csv).code == 0);
  CHECK(test::read_file(csv) == test::read_file(experiment().out + "/report.csv"));
  const auto json = Json::parse(patchbay_run("report " + experiment().out + " --json").out);
  CHECK(json["records"].size() == 4);
  CHECK(json["sources"][0]["note"] == "what do <few> bits cost?");
}

TEST_CASE("report of nothing is one line of error") {
  const auto result = patchbay_run("report /nowhere");
  CHECK(result.code == 1);
  CHECK_THAT(result.out, Contains("/nowhere: holds no records.jsonl"));
}

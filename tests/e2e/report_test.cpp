// report, diff and tokens on an experiment that the program has just run on the tiny golden Llama.
#include <sys/stat.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program.h"
#include "support.h"
#include "synthetic_records.h"

namespace test = patchbay::test;
using Catch::Contains;
using patchbay::Json;
using test::patchbay_run;

namespace {

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
  CHECK(json["records"].size() == 5);  // the baseline again among them
  CHECK(json["sources"][0]["note"] == "what do <few> bits cost?");
}

TEST_CASE("report prints the table as Markdown") {
  const auto text = patchbay_run("report " + experiment().out + " --markdown").out;
  CHECK_THAT(text, Contains("| weights.format.bits | perplexity |") && Contains("\n| --- | ---: |") && Contains("\n| none \\* |") && Contains("\n| 2 |"));
  CHECK_THAT(text, Contains("\n\n\\* the baseline.") && Contains("scored from token 1 on"));
}

TEST_CASE("a path that is no UTF-8 becomes JSON all the same") {
  const auto out = experiment().place / "odd\xff", text = experiment().place / "odd\xff.txt";
  CHECK(test::run_program({"run", experiment().place / "tiny.yaml", "tasks=[memory]", "--quiet", "--json", "--out", out}).code == 0);
  patchbay::write_file_atomically(text, test::read_file(experiment().text));
  const auto result = test::run_program({"perplexity", "--model", test::source_path("tests/golden/tiny_llama/gqa_tied.gguf"), "--text", text, "--window", "64", "--json"});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK_THAT(Json::parse(result.out)["text"].get<std::string>(), Contains("odd\xEF\xBF\xBD.txt"));
}

TEST_CASE("report replaces reports alone") {
  const auto& out = experiment().out;
  const auto records = test::read_file(out + "/records.jsonl");
  const auto refused = [&](const std::string& options) {
    const auto result = patchbay_run("report " + out + " " + options);
    CHECK(result.code == 1);
    return result.out;
  };
  CHECK_THAT(refused("--csv " + out + "/records.jsonl"), Contains("lies among the records of an experiment; allowed: a file elsewhere, or report.csv there"));
  CHECK_THAT(refused("--html " + out + "/new.html"), Contains("lies among the records"));
  const auto notes = experiment().place / "notes.txt", both = experiment().place / "both";
  patchbay::write_file_atomically(notes, "mine\n");
  CHECK_THAT(refused("--csv " + notes), Contains("notes.txt: is there already, and is not a CSV file of patchbay report"));
  CHECK_THAT(refused("--html " + notes), Contains("is not a page of patchbay report"));
  CHECK_THAT(refused("--csv " + both + " --html " + both), Contains("is the file of --csv too"));
  CHECK(test::read_file(notes) == "mine\n");
  // Neither a pipe nor a link that leads nowhere is replaced; of a link its target is.
  const auto place = experiment().place / "links";
  std::filesystem::create_directory(place);
  REQUIRE(::mkfifo((place + "/pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("nothing", place + "/dangling");
  CHECK_THAT(refused("--csv " + place + "/pipe"), Contains("pipe: is a pipe or a device"));
  CHECK_THAT(refused("--html " + place + "/dangling"), Contains("dangling: is a link that leads nowhere"));
  CHECK_THAT(refused("--csv " + place + "/nodir/x.csv"), Contains("nodir: no such folder: x.csv is to be written there"));
  CHECK(std::filesystem::is_fifo(place + "/pipe"));
  std::ofstream(place + "/target.csv");
  std::filesystem::create_symlink("target.csv", place + "/link.csv");
  CHECK(patchbay_run("report " + out + " --csv " + place + "/link.csv").code == 0);
  CHECK(std::filesystem::is_symlink(place + "/link.csv"));
  CHECK(std::filesystem::file_size(place + "/target.csv") > 0);
  CHECK(test::read_file(out + "/records.jsonl") == records);
  CHECK(patchbay_run("report " + out + " --csv " + out + "/report.csv --html " + out + "/report.html").code == 0);
}

TEST_CASE("scores that are lost or damaged are made again by --resume, as tokens says") {
  const auto yaml = experiment().place / "tiny.yaml", out = experiment().place / "again";
  REQUIRE(patchbay_run("run " + yaml + " --out " + out).code == 0);
  const auto record = Json::parse(patchbay_run("report " + out + " --json").out)["records"][2];
  const auto run = out + ":" + record["hash"].get<std::string>(), scores = out + "/" + record["evaluation"]["scores"].get<std::string>();
  const auto whole = test::read_file(scores);
  for (const bool lost : {false, true}) {
    if (lost) std::filesystem::remove(scores);
    else std::filesystem::resize_file(scores, whole.size() - 1);
    CHECK_THAT(patchbay_run("tokens " + run).out, Contains("run the experiment again with --resume"));
    const auto resumed = patchbay_run("run " + yaml + " --out " + out + " --resume");
    CHECK(resumed.code == 0);
    CHECK_THAT(resumed.out, Contains("the scores of their tokens are missing or damaged") && Contains("5 runs into " + out + ", 4 of them finished"));
    CHECK(test::read_file(scores) == whole);
    CHECK(patchbay_run("tokens " + run).code == 0);
  }
}

TEST_CASE("report of nothing is one line of error") {
  const auto result = patchbay_run("report /nowhere");
  CHECK(result.code == 1);
  CHECK_THAT(result.out, Contains("/nowhere: no such file or folder"));
}

TEST_CASE("report --against puts each run beside the one that is named, as diff does") {
  const auto& out = experiment().out;
  const auto report = "report " + out + " --against weights.format.bits=4";
  const auto json = Json::parse(patchbay_run(report + " --json").out);
  CHECK(json["records"].size() == 4);
  const auto& record = json["records"][3];
  CHECK(record["against"]["run"] == "weights.format.bits=4");
  const auto pair = Json::parse(patchbay_run("diff '" + out + ":weights.format.bits=4' '" + out + ":weights.format.bits=2' --json").out);
  const auto& metrics = record["metrics"];
  CHECK(std::log(metrics["against_perplexity_ratio"].get<double>()) == Approx(pair["paired"]["nll_difference"].get<double>()));
  CHECK(std::log(metrics["against_perplexity_ratio_ci"][1].get<double>()) == Approx(pair["paired"]["nll_difference_ci"][1].get<double>()));
  const auto kl = [&](std::size_t i) { return json["records"][i]["metrics"]["kl_nats"].get<double>(); };
  CHECK(metrics["against_kl_nats"].get<double>() == Approx(kl(3) - kl(2)));
  CHECK(metrics["against_kl_nats_ci"][0].get<double>() < metrics["against_kl_nats"].get<double>());
  const auto page = experiment().place / "against.html";
  CHECK_THAT(patchbay_run(report + " --markdown --html " + page).out, Contains("| against bits=4 |") && Contains("| KL against bits=4 |"));
  CHECK_THAT(test::read_file(page), Contains("KL against<br>bits=4") && Contains("Against bits=4: the run paired by token"));
  CHECK_THAT(patchbay_run(report).out, Contains("Against bits=4"));
  const auto unknown = patchbay_run("report " + out + " --against 7");
  CHECK(unknown.code == 1);
  CHECK_THAT(unknown.out, Contains("--against 7: no such run; allowed: 1: weights.format.bits=none") && Contains("weights.format.bits=2 ("));
  CHECK_THAT(patchbay_run(report + " --by-kind").out, Contains("--against"));
}

TEST_CASE("diff sets two runs side by side and pairs them token by token") {
  const auto& out = experiment().out;
  const auto json = Json::parse(patchbay_run("diff " + out + " '" + out + ":weights.format.bits=2' --json").out);
  CHECK(json["a"]["run"] == "weights.format.bits=none");
  CHECK(json["paired"]["tokens"] == 3 * 63);
  // The mean paired difference is the logarithm of the ratio in the table.
  const auto report = Json::parse(patchbay_run("report " + out + " --json").out);
  const auto& metrics = report["records"][4]["metrics"];
  CHECK(json["paired"]["nll_difference"].get<double>() == Approx(std::log(metrics["perplexity_ratio"].get<double>())));
  CHECK(json["paired"]["nll_difference_ci"][0].get<double>() == Approx(std::log(metrics["perplexity_ratio_ci"][0].get<double>())));
  CHECK(json["metrics"]["perplexity"]["b"] == metrics["perplexity"]);
  const auto text = patchbay_run("diff '" + out + ":weights.format.bits=4' '" + out + ":weights.format.bits=2'").out;
  CHECK_THAT(text, Contains("weights.format.bits") && Contains("Paired over 189 tokens") && Contains("model, seed, evaluation: the same"));
  const auto self = Json::parse(patchbay_run("diff " + out + " " + out + " --json").out);
  CHECK(self["settings"].empty());
  CHECK(self["paired"]["nll_difference"] == 0.0);
}

TEST_CASE("diff without scores, or with those of another text, says why it does not pair") {
  test::Folder place;
  place.write("records.jsonl", {test::synthetic_record("a", 0), test::synthetic_record("b", 1)});
  CHECK_THAT(patchbay_run("diff " + place.path + ":a " + place.path + ":b").out, Contains("Not paired by token") && Contains("no text was scored"));
  auto other = test::synthetic_record("b", 1);
  other["evaluation"]["text_sha256"] = "another";
  place.write("records.jsonl", {test::synthetic_record("a", 0), other});
  CHECK_THAT(patchbay_run("diff " + place.path + ":a " + place.path + ":b").out, Contains("evaluation.text_sha256 differs"));
  other["evaluation"] = test::synthetic_record("a", 0)["evaluation"];
  other["evaluation"]["scores"] = "../../secret";
  place.write("records.jsonl", {other, other});
  CHECK_THAT(patchbay_run("diff " + place.path + ":b " + place.path + ":b").out, Contains("lie outside the folder"));
}

TEST_CASE("tokens shows the worst ones in the text around them") {
  const auto& out = experiment().out;
  const auto run = " '" + out + ":weights.format.bits=2' ";
  const auto text = test::read_file(experiment().text);
  for (const std::string by : {"nll", "kl", "change"}) {
    const auto json = Json::parse(patchbay_run("tokens" + run + "--json --top 5 --by " + by).out);
    REQUIRE(json["tokens"].size() == 5);
    double last = 1e9;
    for (const auto& token : json["tokens"]) {
      const double value = by == "change" ? token["nll"].get<double>() - token["baseline_nll"].get<double>() : token[by].get<double>();
      CHECK(value <= last);
      last = value;
      const auto quote = token["before"].get<std::string>() + token["text"].get<std::string>() + token["after"].get<std::string>();
      CHECK(text.find(quote) != std::string::npos);
    }
    CHECK(json["share"] > 0.0);
  }
  CHECK_THAT(patchbay_run("tokens" + run + "--top 3").out, Contains("3 of 189 scored tokens") && Contains(">>") && Contains("baseline"));
  const auto all = Json::parse(patchbay_run("tokens" + run + "--json --top 1000").out);
  CHECK(all["tokens"].size() == 189);
  CHECK(all["share"] == 1.0);
}

TEST_CASE("tokens refuses a text or a model that is not the one measured") {
  const auto& out = experiment().out;
  const auto changed = experiment().place / "changed.txt";
  patchbay::write_file_atomically(changed, test::read_file(experiment().text) + "!");
  CHECK_THAT(patchbay_run("tokens " + out + " --text " + changed).out, Contains("the text has changed since this run scored it"));
  CHECK_THAT(patchbay_run("tokens " + out + " --text /nowhere").out, Contains("is not here") && Contains("--text"));
  CHECK_THAT(patchbay_run("tokens " + out + " --model " + test::source_path("tests/golden/tiny_llama/mqa_wide_heads.gguf")).out,
             Contains("is not the model of this run"));
  CHECK(patchbay_run("tokens " + out + " --by luck").code == 2);
  test::Folder place;
  place.write("records.jsonl", {test::synthetic_record("a", 0)});
  CHECK_THAT(patchbay_run("tokens " + place.path).out, Contains("no text was scored"));
  auto sizes_alone = test::synthetic_record("a", 0);
  sizes_alone["evaluation"] = Json::object();  // what the task memory leaves
  place.write("records.jsonl", {sizes_alone});
  CHECK_THAT(patchbay_run("tokens " + place.path).out, Contains("no text was scored"));
}

TEST_CASE("the page that run leaves can be made again, and its experiment is one that plan takes") {
  const auto& out = experiment().out;
  const auto page = test::read_file(out + "/report.html");
  CHECK_THAT(page, Contains("<h1>tiny</h1>") && Contains("what do &lt;few&gt; bits cost?") && Contains("weights.format.bits: 2"));
  const auto again = experiment().place / "again.html";
  CHECK(patchbay_run("report " + out + " --html " + again).code == 0);
  CHECK(test::read_file(again) == page);
  const auto yaml = experiment().place / "experiment.yaml";
  patchbay::write_file_atomically(yaml, Json::parse(test::read_file(out + "/experiment.json"))["yaml"].dump(2));
  const auto plan = Json::parse(patchbay_run("plan " + yaml + " --json").out);
  const auto report = Json::parse(patchbay_run("report " + out + " --json").out);
  REQUIRE(plan["runs"].size() == report["records"].size());
  for (std::size_t i = 0; i < plan["runs"].size(); ++i) CHECK(plan["runs"][i]["config"] == report["records"][i]["config"]);
}

TEST_CASE("a Python that cannot draw leaves the tables, says why, and how to get plots") {
  const auto page = experiment().place / "plain.html", python = experiment().place / "python";
  const auto without = [&](const std::string& says) {
    patchbay::write_file_atomically(python, "#!/bin/sh\necho 'Traceback' >&2\necho '" + says + "' >&2\nexit 1\n");
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    ::setenv("PATCHBAY_PYTHON", python.c_str(), 1);
    const auto result = patchbay_run("report " + experiment().out + " --html " + page, "2>&1 >/dev/null");
    ::unsetenv("PATCHBAY_PYTHON");
    CHECK(result.code == 0);
    CHECK_THAT(result.out, Contains("no plots") && Contains("scripts/setup_python.sh"));
    CHECK_THAT(test::read_file(page), Contains("scripts/setup_python.sh") && Contains("on the front") && !Contains("<svg"));
    return result.out;
  };
  CHECK_THAT(without("ModuleNotFoundError: No module named matplotlib"), Contains("which was not found") && !Contains("ModuleNotFoundError"));
  CHECK_THAT(without("MemoryError: no room"), Contains("could not draw the plots: MemoryError: no room"));
  std::filesystem::remove(python);
  ::setenv("PATCHBAY_PYTHON", python.c_str(), 1);
  const auto absent = patchbay_run("report " + experiment().out + " --html " + page, "2>&1 >/dev/null");
  ::unsetenv("PATCHBAY_PYTHON");
  CHECK_THAT(absent.out, Contains("cannot be started: No such file or directory"));
}

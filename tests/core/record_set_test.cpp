// Records from folders that may come from anywhere: merged, told apart, and refused where they are not sound.
#include "experiment/record_set.h"

#include <catch2/catch.hpp>

#include "experiment/report.h"
#include "synthetic_records.h"

using namespace patchbay;
using test::Folder;
using test::message_of;
using test::synthetic_record;

namespace {

RecordSet read(const std::vector<std::string>& folders) { return read_record_set(folders); }

/// What reading a file with this one line says.
std::string refusal(const std::string& line) {
  Folder place;
  write_file_atomically(place / "records.jsonl", line + "\n");
  return message_of([&] { read({place.path}); });
}

std::string refusal_with(const std::string& key, const Json& value) {
  auto record = synthetic_record("a", 0);
  record[key] = value;
  return refusal(record.dump());
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) lines.push_back(text.substr(begin, end - begin));
  return lines;
}

}  // namespace

TEST_CASE("hostile records are refused by line and key") {
  using Catch::Contains;
  CHECK_THAT(refusal("{\"hash\": \"a\", \"metr"), Contains("records.jsonl:1: is no record"));
  CHECK_THAT(refusal("[1, 2]"), Contains("is no record"));
  CHECK_THAT(refusal("{\"hash\": \"a\", \"metrics\": {\"perplexity\": NaN}}"), Contains("is no record"));
  CHECK_THAT(refusal("{\"hash\": \"a\", \"run\": \"x\", \"name\": \"y\"}"), Contains("records.jsonl:1: metrics: missing key"));
  CHECK_THAT(refusal_with("hash", 7), Contains("is no record"));
  CHECK_THAT(refusal_with("run", {1}), Contains("run: wrong type"));
  CHECK_THAT(refusal_with("baseline", "yes"), Contains("baseline: wrong type; allowed: true or false"));
  CHECK_THAT(refusal_with("labels", "none"), Contains("labels: wrong type"));
  CHECK_THAT(refusal_with("metrics", Json::array()), Contains("metrics: wrong type"));
  CHECK_THAT(refusal_with("metrics", {{"perplexity", "low"}}), Contains("metrics.perplexity: is no number"));
  CHECK_THAT(refusal_with("metrics", {{"perplexity_ci", {1.0}}}), Contains("metrics.perplexity_ci: is no interval"));
  CHECK_THAT(refusal_with("metrics", {{"ttft_ms_values", {nullptr}}}), Contains("metrics.ttft_ms_values: is no list of numbers"));
  CHECK_THAT(refusal_with("schema", 2), Contains("schema: is 2; allowed: 1; read it with the patchbay that wrote it"));
  CHECK_THAT(refusal_with("schema", "\033[31m"), Contains("schema: is ") && !Contains("\033"));
  CHECK_THAT(refusal(""), Contains("is no record"));
}

TEST_CASE("a file that holds no results is told what it is, and what is wanted") {
  using Catch::Contains;
  Folder place;
  const auto refused = [&](const std::string& name, const std::string& bytes) {
    write_file_atomically(place / name, bytes);
    return message_of([&] { read({place / name}); });
  };
  CHECK_THAT(refused("notes.md", "# notes\nand more\n"), Contains("notes.md: holds no results: it begins '# notes'; allowed: a folder that `patchbay run` wrote") &&
                                                           !Contains("remove the line"));
  CHECK_THAT(refused("m.gguf", "GGUF\x03\n"), Contains("it is a GGUF model"));
  CHECK_THAT(refused("tokenizer.json", "{\"version\": 1}\n"), Contains("it is JSON, but no record"));
  CHECK_THAT(refused("copy.jsonl", synthetic_record("a", 0).dump() + "\n{}\n"), Contains("copy.jsonl:2: is no record; allowed: one JSON object") && Contains("remove the line"));
}

TEST_CASE("folders without records, missing or given twice are refused; a torn last line is not") {
  using Catch::Contains;
  Folder place;
  CHECK_THAT(message_of([&] { read({place.path}); }), Contains("holds no records.jsonl"));
  CHECK_THAT(message_of([&] { read({place / "nowhere"}); }), Contains("no such file or folder"));
  write_file_atomically(place / "experiment.json", "{}");
  CHECK_THAT(message_of([&] { read({place.path}); }), Contains("no run of it is finished") && Contains("--resume"));
  {
    const FileLock running(place / ".lock");
    CHECK_THAT(message_of([&] { read({place.path}); }), Contains("a run is in progress") && !Contains("--resume"));
  }
  write_file_atomically(place / "records.jsonl", "");
  CHECK_THAT(message_of([&] { read({place.path}); }), Contains("holds no finished run"));
  write_file_atomically(place / "records.jsonl", synthetic_record("a", 0).dump() + "\n{\"hash\": \"b");
  CHECK(read({place.path}).records.size() == 1);
  CHECK_THAT(message_of([&] { read({place.path, place.path + "/"}); }), Contains("is given twice"));
}

TEST_CASE("a metric that is null or not there is an empty place of the table and of the CSV") {
  Folder place;
  auto record = synthetic_record("a", 0), bare = synthetic_record("b", 1);
  record["metrics"]["kl_nats"] = nullptr;
  bare["metrics"] = {{"bits_per_weight", 4.5}};
  place.write("records.jsonl", {record, bare});
  const auto set = read({place.path});
  CHECK(report_text(set, true).find("4.50") != std::string::npos);
  CHECK_THAT(lines_of(report_csv(set))[2], Catch::Contains(",4.5,") && Catch::Contains(",,,"));
}

TEST_CASE("the newest record of each planned run counts, in the plan's order") {
  Folder place;
  auto first = synthetic_record("a", 0), second = synthetic_record("b", 1), again = synthetic_record("c", 0), gone = synthetic_record("d", 2);
  again["metrics"]["perplexity"] = 99.0;
  place.write("records.jsonl", {gone, second, first, again});
  const Json plan = {{"note", "why"}, {"runs", {{{"config", first["config"]}}, {{"config", second["config"]}}, {{"config", {{"new", 1}}}}}}};
  write_file_atomically(place / "experiment.json", Json{{"name", "x"}, {"plan", plan}}.dump());
  const auto set = read({place.path});
  REQUIRE(set.records.size() == 2);
  CHECK(set.records[0]["hash"] == "c");
  CHECK(set.records[1]["hash"] == "b");
  CHECK(set.sources[0].note == "why");
  CHECK_THAT(report_text(set, false), Catch::Contains("2 of 3 runs are finished") && Catch::Contains("2 older records"));
  write_file_atomically(place / "experiment.json", "{\"plan\": 7}");  // then each run's name
  CHECK(read({place.path}).records.size() == 3);
}

TEST_CASE("a plan that knows its runs' hashes takes no record of other windows, baseline or code") {
  Folder place;
  auto two = synthetic_record("w2", 0), four = synthetic_record("w4", 0), other = synthetic_record("o4", 1);
  place.write("records.jsonl", {two, other, four});  // the newest of run 0 is of four windows
  const auto with = [&](const char* first, const char* second) {
    const Json plan = {{"runs", {{{"config", two["config"]}, {"hash", first}}, {{"config", other["config"]}, {"hash", second}}}}};
    write_file_atomically(place / "experiment.json", Json{{"name", "x"}, {"plan", plan}}.dump());
  };
  with("w2", "o2");
  const auto set = read({place.path});
  REQUIRE(set.records.size() == 1);
  CHECK(set.records[0]["hash"] == "w2");
  CHECK_THAT(report_text(set, false), Catch::Contains("1 of 2 runs are finished") && Catch::Contains("2 older records"));
  with("w8", "o8");
  CHECK_THAT(message_of([&] { read({place.path}); }), Catch::Contains("3 records of other settings or code") && Catch::Contains("--resume"));
}

TEST_CASE("the baseline again has the baseline's settings and is not taken for it; a report's differences are one family") {
  Folder place;
  auto base = synthetic_record("a", 0, true), again = synthetic_record("n", 0), other = synthetic_record("b", 1), third = synthetic_record("c", 2);
  again["noise"] = true;
  again["run"] = "baseline again";
  for (auto* record : {&again, &other, &third}) (*record)["metrics"]["decode_speed_ratio_p"] = 0.01;
  place.write("records.jsonl", {base, again, other, third});
  const Json plan = {{"runs", {{{"config", base["config"]}, {"noise", false}}, {{"config", base["config"]}, {"noise", true}}, {{"config", other["config"]}},
                               {{"config", third["config"]}}}}};
  write_file_atomically(place / "experiment.json", Json{{"name", "x"}, {"plan", plan}}.dump());
  const std::string folders[] = {place.path};
  const auto set = read_report_set(folders);
  REQUIRE(set.records.size() == 4);
  CHECK(set.records[0]["hash"] == "a");
  CHECK(set.records[1]["hash"] == "n");
  CHECK(set.records[2]["metrics"]["decode_speed_ratio_p_adjusted"] == 0.02);
  CHECK_FALSE(set.records[1]["metrics"].contains("decode_speed_ratio_p_adjusted"));
  CHECK_THAT(lines_of(report_csv(set))[0], Catch::Contains(",baseline,noise,") && Catch::Contains("decode_speed_ratio_p_adjusted"));
  CHECK_THAT(lines_of(report_csv(set))[2], Catch::Contains(",n,false,true,"));
  CHECK(refusal_with("noise", "loud").find("noise: wrong type") != std::string::npos);
}

TEST_CASE("several folders make one table: settings filled in, sources told apart, the rule of baselines stated") {
  Folder left, right;
  auto a = synthetic_record("a", 0, true), b = synthetic_record("b", 1), c = synthetic_record("c", 0, true), d = synthetic_record("d", 0);
  for (auto* record : {&c, &d}) (*record)["name"] = "other", (*record)["labels"] = {{"kv_store.format", "int8"}};
  d["hash"] = "d", d["run"] = "kv_store.format=int8", d["labels"] = {{"kv_store.format", "fp16"}};
  left.write("records.jsonl", {a, b});
  right.write("records.jsonl", {c, d});
  const auto set = read({left.path, right.path});
  const auto merged = merged_records(set);
  CHECK(merged[0]["labels"] == Json({{"experiment", "synthetic"}, {"weights.format.bits", "3"}, {"kv_store.format", "fp16"}}));
  CHECK(merged[3]["labels"]["experiment"] == "other");
  CHECK(merged[3]["labels"]["weights.format.bits"] == "3");
  CHECK_THAT(report_text(set, false), Catch::Contains("the same settings, model and text"));
  c["config"]["seed_of_change"] = 1;
  right.write("records.jsonl", {c, d});
  CHECK_THAT(report_text(read({left.path, right.path}), false), Catch::Contains("compare columns that are relative to it within a folder only"));
  left.write("records.jsonl", {a, b});
  right.write("records.jsonl", {a, b});  // the same experiment twice on one host: only the folders differ
  CHECK(merged_records(read({left.path, right.path}))[0]["labels"]["folder"] == left.path);
}

TEST_CASE("a setting that only the other folder varies is called as that one calls it, or in few words, never as JSON") {
  Folder left, right;
  const Json stored = {{"quantizer", {{"type", "none"}}}}, small = {{"quantizer", {{"type", "rtn"}}}, {"format", {{"type", "int_grouped"}, {"bits", 4}}}};
  auto a = synthetic_record("a", 0, true), b = synthetic_record("b", 1), c = synthetic_record("c", 0, true), d = synthetic_record("d", 1);
  for (auto* record : {&a, &c}) (*record)["config"]["weights"] = stored;
  a["labels"] = {{"weights", "as stored"}}, b["labels"] = {{"weights", "two bits"}};
  d["config"]["weights"] = small;
  for (auto* record : {&c, &d}) (*record)["name"] = "other", (*record)["labels"] = Json::object();
  left.write("records.jsonl", {a, b});
  right.write("records.jsonl", {c, d});
  const auto merged = merged_records(read({left.path, right.path}));
  CHECK(merged[2]["labels"]["weights"] == "as stored");
  CHECK(merged[3]["labels"]["weights"] == "rtn int_grouped bits=4");
}

TEST_CASE("of several folders, the baseline again names its own, and the legend speaks of what they have in common") {
  using Catch::Contains;
  Folder left, right;
  const auto records = [](const std::string& hash, int windows) {
    std::vector<Json> made = {synthetic_record(hash + "a", 0, true), synthetic_record(hash + "n", 0), synthetic_record(hash + "b", 1)};
    made[1]["noise"] = true;
    made[1]["run"] = "baseline again";
    for (auto& each : made) each["evaluation"]["windows"] = windows, each["metrics"]["perplexity_ratio"] = 1.0;
    made[1]["evaluation"]["windows"] = windows / 5;
    made[1]["evaluation"]["batch_split"] = 21;
    return made;
  };
  left.write("records.jsonl", records("l", 10));
  right.write("records.jsonl", records("r", 20));
  auto text = report_text(read({left.path, right.path}), true);
  const auto lines = lines_of(text);
  for (const auto& folder : {left.path, right.path})
    CHECK(std::ranges::count_if(lines, [&](const auto& line) { return line.find(folder) == 2 && line.find("baseline again") != std::string::npos; }) == 1);
  CHECK_THAT(text, Contains(": 10 windows of 64 tokens, scored from token 1 on, BOS none;\n  or text text.txt") && Contains(": 20 windows of 64 tokens") &&
                       Contains("quality on 2 of the windows,\n  computed in batches of 21 tokens, or on 4 of the windows"));
  right.write("records.jsonl", records("r", 10));
  CHECK_THAT(report_text(read({left.path, right.path}), true), Contains("10 windows of 64 tokens") && Contains("quality on 2 of the windows"));
  // A folder that scored no text, on another machine: what is said of quality is the other one's.
  auto timed = records("r", 10);
  for (auto& each : timed) each["evaluation"] = Json::object(), each["environment"]["host"] = "there";
  timed.erase(timed.begin() + 2);
  right.write("records.jsonl", timed);
  text = report_text(read({left.path, right.path}), true);
  CHECK_THAT(text, Contains("Quality: text text.txt (sha256 01234567), protocol patchbay: 10 windows of 64 tokens") && Contains("quality on 2 of the windows"));
  CHECK_THAT(text, Contains("  there  baseline again "));
  auto exact = records("l", 10);
  for (auto& each : exact) each["config"]["activations"] = "fp32";
  for (auto& each : timed) each["metrics"].erase("kl_nats");
  left.write("records.jsonl", exact);
  CHECK_THAT(text, Contains("Activations are rounded"));
  right.write("records.jsonl", timed);
  CHECK_THAT(report_text(read({left.path, right.path}), true), !Contains("Activations are rounded"));  // those that scored a text did not
}

TEST_CASE("as Markdown a report has the predicted figures too") {
  Folder place;
  auto base = synthetic_record("a", 0, true), other = synthetic_record("b", 1);
  for (auto* record : {&base, &other}) (*record)["metrics"]["predicted_prefill_tokens_per_s"] = 3000.4, (*record)["metrics"]["prefill_of_roofline"] = 0.41;
  place.write("records.jsonl", {base, other});
  const auto text = report_markdown(read({place.path}));
  CHECK_THAT(text, Catch::Contains("| weights.format.bits | moved MB/token | prefill roofline | prefill reached | decode roofline | decode reached |\n| --- | ---: |") &&
                       Catch::Contains("\n| 3 \\* | - | 3000 | 41% | - | - |\n| 4 | - | 3000 |") && Catch::Contains("\nRoofline, tokens/s: what 2 threads could do"));
  CHECK_THAT(text, !Catch::Contains("\n\n\n"));
  place.write("records.jsonl", {synthetic_record("a", 0, true)});
  CHECK_THAT(report_markdown(read({place.path})), !Catch::Contains("oofline"));
}

TEST_CASE("by kind: each run once for each kind of prompt, with that kind's figures, kind after kind, in a family of its own") {
  using Catch::Contains;
  Folder place;
  std::vector<Json> records = {synthetic_record("a", 0, true), synthetic_record("b", 0), synthetic_record("c", 1)};
  records[1]["noise"] = true;
  for (std::size_t i = 0; i < records.size(); ++i) {
    records[i]["run"] = "r" + std::to_string(i);
    records[i]["metrics"]["decode_speed_ratio_p"] = 0.001;
    records[i]["metrics"]["busy_share"] = 0.1 * i;
    for (const char* kind : {"copy", "story"}) {
      const double speed = 50.0 + 10 * i + (kind[0] == 'c' ? 5 : 0);
      auto& figures = records[i]["by_kind"][kind];
      figures = {{"decode_tokens_per_s", speed}};
      if (i > 0) figures.update({{"decode_speed_ratio", speed / 50}, {"decode_speed_ratio_ci", {speed / 51, speed / 49}}, {"decode_speed_ratio_p", i == 1 ? 0.5 : 0.03}});
      if (i == 2) figures["acceptance_rate"] = kind[0] == 'c' ? 0.8 : 0.1;
    }
  }
  place.write("records.jsonl", records);
  const auto set = by_kind(read({place.path}));
  REQUIRE(set.records.size() == 6);
  CHECK(set.records[2]["labels"] == Json{{"prompts", "copy"}, {"weights.format.bits", "4"}});
  CHECK(set.records[2]["metrics"]["decode_tokens_per_s"] == 75);
  CHECK(set.records[5]["metrics"]["decode_tokens_per_s"] == 70);
  CHECK_FALSE(set.records[5]["metrics"].contains("perplexity"));
  CHECK(set.records[5]["metrics"]["busy_share"] == 0.2);
  CHECK(set.records[2]["metrics"]["decode_speed_ratio_p_adjusted"].get<double>() == Approx(0.06));  // two comparisons of 0.03; noise is none
  const auto lines = lines_of(report_text(set, true));
  const auto row = [&](const std::string& start) { return std::ranges::count_if(lines, [&](const auto& line) { return line.starts_with(start); }); };
  CHECK(row("* copy ") == 1);
  CHECK(row("  copy     baseline again") == 1);
  CHECK(row("  story    baseline again") == 1);
  CHECK_THAT(report_text(set, true), Contains("differences of speed up to 33% (decode) mean nothing here") && Contains("80%") && !Contains("quality on"));
  auto single = records;
  for (auto& each : single) each["by_kind"].erase("story");
  place.write("records.jsonl", single);
  CHECK_THAT(message_of([&] { by_kind(read({place.path})); }), Contains("two kinds") && Contains("evaluation.prompts"));
  CHECK_THAT(refusal_with("by_kind", 3), Contains("by_kind: wrong type"));
  CHECK_THAT(refusal_with("by_kind", {{"copy", 3}}), Contains("by_kind.copy: wrong type"));
  CHECK_THAT(refusal_with("by_kind", {{"copy", {{"acceptance_rate", "all"}}}}), Contains("by_kind.copy.acceptance_rate: is no number"));
}

TEST_CASE("CSV quotes as RFC 4180 says and keeps all digits") {
  Folder place;
  auto record = synthetic_record("a", 0, true);
  record["run"] = "say \"hi\", twice\n";
  record["metrics"]["perplexity"] = 0.1 + 0.2;
  place.write("records.jsonl", {record});
  const auto csv = report_csv(read({place.path}));
  CHECK_THAT(csv, Catch::Contains(",\"say \"\"hi\"\", twice\n\",a,true,false,3,0.30000000000000004,"));
  CHECK(csv.starts_with("experiment,folder,run,hash,baseline,noise,label.weights.format.bits,perplexity,perplexity_low,perplexity_high,"));
}

TEST_CASE("CSV of emulated runs says so, run by run; without any there is no such column") {
  Folder place;
  auto emulated = synthetic_record("a", 0, true);
  emulated["environment"]["emulated"] = "simt: checked";
  place.write("records.jsonl", {emulated, synthetic_record("b", 1)});
  const auto lines = lines_of(report_csv(read({place.path})));
  CHECK(lines[0].find(",emulated") != std::string::npos);
  CHECK(lines[1].find(",simt: checked") != std::string::npos);
  CHECK(lines[2].find("simt: checked") == std::string::npos);
  place.write("records.jsonl", {synthetic_record("b", 1)});
  CHECK(report_csv(read({place.path})).find("emulated") == std::string::npos);
}

TEST_CASE("a record is found by folder, number, label, hash prefix or run's name") {
  Folder place;
  place.write("records.jsonl", {synthetic_record("abc", 0, true), synthetic_record("abd", 1)});
  CHECK(find_record(place.path).record["hash"] == "abc");
  CHECK(find_record(place.path + ":abd").record["hash"] == "abd");
  CHECK(find_record(place.path + ":weights.format.bits=4").record["hash"] == "abd");
  CHECK_THAT(message_of([&] { find_record(place.path + ":ab"); }), Catch::Contains("2 runs fit") && Catch::Contains("2: weights.format.bits=4 (abd)"));
  CHECK(find_record(place.path + ":2").record["hash"] == "abd");
  CHECK_THAT(message_of([&] { find_record(place.path + ":4"); }), Catch::Contains("as a label it is written weights.format.bits=4"));
  CHECK_THAT(message_of([&] { find_record(place.path + ":x"); }), Catch::Contains("no such run"));
  CHECK_THAT(message_of([&] { find_record("nowhere:x"); }), Catch::Contains("no such folder"));
  place.write("records.jsonl", {synthetic_record("abc", 0), synthetic_record("abd", 1)});
  CHECK_THAT(message_of([&] { find_record(place.path); }), Catch::Contains("its baseline is not finished"));
}

TEST_CASE("a number is the plan's, also where earlier runs are not finished") {
  Folder place;
  auto second = synthetic_record("b", 1), third = synthetic_record("c", 5);
  place.write("records.jsonl", {third, second});
  const Json plan = {{"runs", {{{"config", {{"not", "yet"}}}}, {{"config", second["config"]}}, {{"config", third["config"]}}}}};
  write_file_atomically(place / "experiment.json", Json{{"name", "x"}, {"plan", plan}}.dump());
  CHECK(find_record(place.path + ":2").record["hash"] == "b");
  CHECK(find_record(place.path + ":3").record["hash"] == "c");
  CHECK_THAT(message_of([&] { find_record(place.path + ":1"); }), Catch::Contains("no such run; allowed: 2: weights.format.bits=4 (b); 3:"));
}

TEST_CASE("differences name each setting that one has and the other has not, or has otherwise") {
  const auto found = differences({{"a", {{"b", 1}, {"c", "x"}}}, {"d", true}}, {{"a", {{"b", 2}, {"c", "x"}}}, {"e", Json::array({1})}});
  REQUIRE(found.size() == 3);
  CHECK((found[0].path == "a.b" && found[0].first == "1" && found[0].second == "2"));
  CHECK((found[1].path == "d" && found[1].first == "true" && found[1].second == "-"));
  CHECK((found[2].path == "e" && found[2].first == "-" && found[2].second == "[1]"));
}

#include "experiment/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiment/comparisons.h"
#include "experiment/emulated.h"
#include "experiment/text_table.h"

using namespace patchbay;
using Json = nlohmann::ordered_json;

namespace {

Json record(const std::string& weights, const std::string& decoder, bool baseline) {
  return {{"name", "quick"}, {"run", "weights=" + weights}, {"baseline", baseline}, {"hash", weights + decoder}, {"repeat", 3},
          {"config", {{"activations", "q8"}}},
          {"labels", {{"weights", weights}, {"kv_store.format", "int8"}, {"decoder", decoder}}},
          {"environment", {{"threads", 2}, {"cpu", "a CPU"}}},
          {"evaluation", {{"text", "data/evaluation.txt"}, {"text_sha256", "0123456789abcdef"}, {"protocol", "patchbay"}, {"windows", 10},
                          {"window", 512}, {"first_scored", 1}, {"bos", "none"}}},
          {"metrics", {{"perplexity", 28.757}, {"perplexity_ci", {27.5, 30.1}}, {"perplexity_ratio", 1.012}, {"perplexity_ratio_ci", {1.009, 1.015}},
                       {"kl_nats", 0.0123}, {"kl_nats_ci", {0.0119, 0.0127}}, {"top1_agreement", 0.951}, {"top1_agreement_ci", {0.945, 0.957}},
                       {"bits_per_weight", 5.21}, {"kv_bytes_per_token", 24480}, {"prefill_tokens_per_s", 1234.5},
                       {"prefill_tokens_per_s_ci", {1200.0, 1260.0}}, {"prefill_speed_ratio", baseline ? Json() : Json(1.05)},
                       {"prefill_speed_ratio_ci", {1.03, 1.07}}, {"decode_speed_ratio", baseline ? Json() : Json(0.9)}, {"decode_speed_ratio_ci", {0.88, 0.92}}, {"decode_tokens_per_s", 81.25}, {"decode_tokens_per_s_ci", {80.5, 82.5}},
                       {"acceptance_rate", decoder == "greedy" ? Json() : Json(0.45)}, {"peak_rss_bytes", 190 << 20}}}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("predicted speeds and the shares reached are a second table, where there are any") {
  std::vector<Json> records = {record("as stored", "greedy", true), record("rtn int4 g64", "speculative", false)};
  CHECK(report_table(records, true).find("oofline") == std::string::npos);
  const auto limit = [](double median) { return Json{{"median", median}, {"low", 0.9 * median}, {"high", 1.1 * median}}; };
  for (auto& each : records) {
    each["metrics"].update({{"predicted_prefill_tokens_per_s", 3000.4}, {"prefill_of_roofline", 0.41}, {"prefill_of_roofline_ci", {0.40, 0.42}},
                            {"predicted_decode_tokens_per_s", 162.5}, {"decode_of_roofline", 0.5}, {"predicted_decode_bytes_per_token", 98.76e6}});
    each["environment"]["calibration"] = {{"memory_read_bytes_per_s", limit(20e9)}, {"cache_read_bytes_per_s", limit(90e9)}, {"fp32_flops_per_s", limit(2e11)},
                                          {"int8_ops_per_s", limit(8e11)}, {"date", "2026-01-31T12:00:00Z"}, {"busy_share", 0.01}};
  }
  const auto lines = lines_of(roofline_table(records, true));
  const auto row = std::find_if(lines.begin(), lines.end(), [](const auto& line) { return line.starts_with("as stored *"); });
  REQUIRE(row != lines.end());
  for (const char* cell : {"98.8", "3000", "41.0 ±1.0%", "162", "50%"}) CHECK(row->find(cell) != std::string::npos);
  const auto text = report_table(records, false);
  CHECK(text.find("memory 20.0 GB/s (18.0 to 22.0)") != std::string::npos);
  CHECK(text.find("±") == std::string::npos);
  CHECK(text.find("Meanwhile") == std::string::npos);
  records[1]["environment"]["calibration"]["memory_read_bytes_per_s"]["median"] = 19e9;
  records[1]["environment"]["calibration"]["busy_share"] = 0.4;
  records[1]["environment"]["threads"] = 64, records[1]["environment"]["cores"] = 2;
  const auto both = report_table(records, true);
  CHECK(both.find("what 2 threads or 64 threads on 2 cores could do") != std::string::npos);
  CHECK(both.find("as measured 2026-01-31T12:00:00Z:\n  memory 20.0 GB/s (18.0 to 22.0), cache ") != std::string::npos);
  CHECK(both.find(";\n  64 threads on 2 cores, as measured 2026-01-31T12:00:00Z:\n  memory 19.0 GB/s") != std::string::npos);
  CHECK(report_table(records, true).find("up to 40% of the cores' time") != std::string::npos);
}

TEST_CASE("values show the digits that their interval supports") {
  CHECK(plus_minus(28.757, 1.26) == "28.8 ±1.3");
  CHECK(plus_minus(0.012352, 0.00041) == "0.0124 ±0.0004");
  CHECK(plus_minus(1234.5, 30) == "1234 ±30");
  CHECK(plus_minus(95.1, 0) == "95.1");
  CHECK(plus_minus(0, 0) == "0");
  CHECK(plus_minus(306, 59306362) == "306 ±?");
  CHECK(plus_minus(-40, 4395) == "-40 ±?");
  CHECK(plus_minus(50000, 2000) == "50000 ±2000");
  CHECK(plus_minus(3.1e-9, 2e-10) == "3.1e-09 ±2e-10");
}

TEST_CASE("the table has one row per record, marks the baseline, and fits a terminal") {
  const std::vector<Json> records = {record("as stored", "greedy", true), record("rtn int4 g64", "speculative", false)};
  const auto text = report_table(records, true);
  const auto lines = lines_of(text);
  const auto row = [&](const std::string& start) {
    return *std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(start); });
  };
  CHECK(row("* as stored").find("28.8 ±1.3") != std::string::npos);
  CHECK(row("* as stored").find("45") == std::string::npos);
  CHECK(row("  rtn int4 g64").find("45%") != std::string::npos);
  CHECK(row("  rtn int4 g64").find("1.20 ±0.30%") != std::string::npos);
  CHECK(text.find("sha256 01234567)") != std::string::npos);
  CHECK(text.find("rounded to 8 bits") != std::string::npos);
  auto exact = records;
  for (auto& each : exact) each["config"]["activations"] = "fp32";
  CHECK(report_table(exact, true).find("rounded to 8 bits") == std::string::npos);
  for (const auto& line : lines) CHECK(width_of(line) <= 160);
}

TEST_CASE("a difference that holds in its table is marked, the baseline again is a row of its own, and a busy machine gets a column") {
  std::vector<Json> records = {record("as stored", "greedy", true), record("as stored", "greedy", false), record("rtn int4 g64", "speculative", false),
                               record("rtn int8 g64", "greedy", false)};
  records[1]["noise"] = true;
  records[1]["evaluation"]["windows"] = 2;
  records[1]["evaluation"]["batch_split"] = 171;
  records[1]["metrics"]["decode_speed_ratio_ci"] = {0.985, 1.031};
  records[1]["metrics"]["perplexity"] = nullptr;
  for (auto& each : records) each["metrics"]["decode_speed_ratio_p"] = 0.2, each["metrics"]["busy_share"] = 0.04;
  records[2]["metrics"]["decode_speed_ratio_p"] = 0.002;
  add_adjusted_p(records);
  const auto text = report_table(records, true);
  const auto lines = lines_of(text);
  const auto row = [&](const std::string& start) {
    return *std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(start); });
  };
  CHECK(row("  rtn int4 g64").find("-10.0 ±2.0%!") != std::string::npos);
  CHECK(row("  rtn int8 g64").find('!') == std::string::npos);
  CHECK(row("  baseline again").find("greedy") == std::string::npos);
  CHECK(row("  baseline again").find('!') == std::string::npos);
  CHECK(text.find("among the 2 of this table") != std::string::npos);
  CHECK(text.find("speed up to 7.0% (prefill) and 3.1% (decode)") != std::string::npos);
  CHECK(text.find("quality on 2 of the windows,\n  computed in batches of 171 tokens") != std::string::npos);
  CHECK(text.find("10 windows of 512") != std::string::npos);
  CHECK(text.find("busy") == std::string::npos);
  records[3]["metrics"]["busy_share"] = 0.31;
  const auto busy = report_table(records, false);
  CHECK(busy.find("31%") != std::string::npos);
  CHECK(busy.find("Busy: share of the cores' time that other programs took") != std::string::npos);
}

TEST_CASE("an emulator's speed is called so beside every figure and in the legend") {
  std::vector<Json> records = {record("a", "greedy", true), record("b", "greedy", false)};
  CHECK(report_table(records, true).find("mulated") == std::string::npos);
  records[1]["environment"]["emulated"] = "simt";
  const auto text = report_table(records, true);
  const auto emulated = [&](const std::string& figure) { return text.find(figure + " (emulated)") != std::string::npos; };
  CHECK(emulated("81.25"));
  CHECK(emulated("-10.0 ±2.0%"));
  CHECK_FALSE(emulated("5.21"));  // bits are bits
  CHECK(std::ranges::count(lines_of(text), std::string(kEmulatedSpeed)) == 1);
}

TEST_CASE("without a terminal the table is ASCII, its columns still aligned") {
  const std::vector<Json> records = {record("as stored", "greedy", true), record("rtn int4 g64", "speculative", false)};
  const auto text = report_table(records, false);
  CHECK(std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  const auto lines = lines_of(text);
  CHECK(lines[3].find("+-") != std::string::npos);
  CHECK(lines[3].rfind("81.2") == lines[4].rfind("81.2"));
}

TEST_CASE("on a narrow terminal the table goes on in further ones, each with the labels") {
  const std::vector<Json> records = {record("as stored", "greedy", true), record("rtn int4 g64", "speculative", false)};
  const auto whole = report_table(records, true), narrow = report_table(records, true, 80);
  CHECK(report_table(records, true, 200) == whole);
  std::size_t baselines = 0;
  for (const auto& line : lines_of(narrow.substr(0, narrow.find("* the baseline")))) {
    CHECK(width_of(line) <= 80);
    baselines += line.starts_with("* as stored");
  }
  CHECK(baselines == 3);
  for (const char* figure : {"28.8 ±1.3", "1.20 ±0.30%", "45%", "190"}) CHECK(narrow.find(figure) != std::string::npos);
  // Labels that alone are too wide still get a figure each.
  CHECK(report_table(records, true, 10).find("28.8 ±1.3") != std::string::npos);
}

TEST_CASE("records without some or all metrics still make a table") {
  CHECK(report_table({}, true) == "no records\n");
  const std::vector<Json> bare = {{{"hash", "x"}, {"run", "base"}, {"metrics", {{"bits_per_weight", 5.0}}}}};
  CHECK(report_table(bare, true).find("base") != std::string::npos);
  const std::vector<Json> odd = {{{"hash", "x"}, {"run", "base"}, {"metrics", {{"perplexity", nullptr}, {"kl_nats", "text"}}}}};
  CHECK(report_table(odd, true).find("base") != std::string::npos);
}

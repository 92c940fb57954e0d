// The page: self-contained, safe whatever a record holds, small.
#include "experiment/report_html.h"

#include <catch2/catch.hpp>
#include <regex>

#include "experiment/report.h"
#include "synthetic_records.h"

using namespace patchbay;
using Catch::Contains;
using test::Folder;
using test::synthetic_record;

namespace {

std::string page_of(const std::vector<Json>& records) {
  Folder place;
  place.write("records.jsonl", records);
  const std::string folders[] = {place.path};
  const auto set = read_record_set(folders);
  return report_html(set, report_plots(set), "how to get plots");
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

Plot plot_of(const std::vector<std::pair<double, double>>& points, bool larger_x_is_better) {
  Plot plot;
  plot.larger_x_is_better = larger_x_is_better;
  for (const auto& [x, y] : points) plot.points.push_back({"", x, y, {}, {}, {}, {}, false, false, 0});
  mark_pareto_front(plot);
  return plot;
}

std::string fronts(const Plot& plot) {
  std::string marks;
  for (const auto& point : plot.points) marks += point.front ? '1' : '0';
  return marks;
}

}  // namespace

TEST_CASE("the Pareto front holds what no other point beats") {
  CHECK(fronts(plot_of({{1, 9}, {2, 5}, {3, 6}, {4, 1}, {4, 2}}, false)) == "11010");
  CHECK(fronts(plot_of({{1, 9}, {2, 5}, {3, 6}, {4, 1}, {4, 2}}, true)) == "00010");
  CHECK(fronts(plot_of({{10, 3}, {20, 4}, {15, 4}, {5, 2}}, true)) == "1101");
  CHECK(fronts(plot_of({{1, 1}, {1, 1}, {1, 2}, {2, 1}}, false)) == "1100");  // equals share their place
  const auto brute = plot_of({{3, 3}, {1, 4}, {2, 2}, {5, 1}, {4, 4}, {2, 3}}, false);
  for (const auto& a : brute.points) {
    const bool beaten = std::any_of(brute.points.begin(), brute.points.end(),
                                    [&](const auto& b) { return b.x <= a.x && b.y <= a.y && (b.x < a.x || b.y < a.y); });
    CHECK(a.front == !beaten);
  }
}

TEST_CASE("the front is numbered from left to right, equal points share a number") {
  const auto numbers = [](const Plot& plot) {
    std::string text;
    for (const auto& point : plot.points) text += std::to_string(point.number);
    return text;
  };
  CHECK(numbers(plot_of({{4, 1}, {1, 9}, {2, 5}, {3, 6}, {2, 5}}, false)) == "31202");
  CHECK(numbers(plot_of({{20, 4}, {10, 3}, {15, 5}, {5, 2}}, true)) == "3201");
}

TEST_CASE("where all runs have one baseline, quality is relative to it: its interval is paired") {
  auto a = synthetic_record("a", 0, true), b = synthetic_record("b", 1);
  const auto label = [&] {
    Folder place;
    place.write("records.jsonl", {a, b});
    const std::string folders[] = {place.path};
    return report_plots(read_record_set(folders)).at(0).y_label;
  };
  CHECK(label() == "perplexity");
  for (auto* record : {&a, &b}) (*record)["metrics"]["perplexity_ratio"] = record == &a ? 1.0 : 0.9;
  CHECK_THAT(label(), Contains("/ the baseline's"));
}

TEST_CASE("the page has the table, both fronts as tables, configuration, environment, and how to get plots") {
  const auto page = page_of({synthetic_record("a", 0, true), synthetic_record("b", 1), synthetic_record("c", 2)});
  CHECK_THAT(page, Contains("<h1>synthetic</h1>") && Contains("28.0 ±1.0") && Contains("Quality against bytes of the weights: 3 runs, 3 of them"));
  CHECK_THAT(page, Contains("Quality against speed: 3 runs, 3 of them") && Contains("how to get plots") && Contains("2. bits=4"));
  CHECK_THAT(page, Contains("weights.format.bits: 3 → 4") && Contains("weights.format.type: int_grouped\n") && Contains("a CPU"));
  CHECK(count(page, "<tr class=\"baseline\">") == 3);  // in the results and on both fronts
}

TEST_CASE("an emulator's speed is no GPU's: the page says so in the table, under it and on the axis") {
  auto emulated = synthetic_record("b", 1);
  emulated["environment"]["emulated"] = "simt";
  const auto page = page_of({synthetic_record("a", 0, true), emulated});
  CHECK_THAT(page, Contains("(emulated)") && Contains("EMULATED: these are speeds of the emulator") && Contains("decoding EMULATED (no GPU"));
}

TEST_CASE("the baseline again is a row of the table, and no point of the plots") {
  auto again = synthetic_record("n", 0);
  again["noise"] = true;
  again["evaluation"]["windows"] = 1;
  const auto page = page_of({synthetic_record("a", 0, true), again, synthetic_record("b", 1)});
  CHECK_THAT(page, Contains("<td>baseline again</td>") && Contains("nothing: the baseline, measured again") && Contains("2 runs, 2 of them on the Pareto front"));
}

TEST_CASE("what a record holds is text on the page, never markup") {
  auto record = synthetic_record("a", 0, true), other = synthetic_record("b", 1);
  const std::string evil = "</td></table><script>alert('1')</script><img src=x onerror=\"y\">\033[31m";
  for (auto* r : {&record, &other}) {
    for (const char* key : {"name", "run", "model"}) (*r)[key] = evil;
    (*r)["labels"] = {{evil, evil + (r == &record ? "1" : "2")}};
    (*r)["config"] = {{evil, evil + (r == &record ? "1" : "2")}};
    for (const char* key : {"host", "cpu", "commit", "started", "version"}) (*r)["environment"][key] = evil;
    (*r)["evaluation"]["text"] = evil;
  }
  const auto page = page_of({record, other});
  CHECK(page.find("<script") == std::string::npos);
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find('\033') == std::string::npos);
  CHECK(page.find("&lt;script&gt;") != std::string::npos);
  for (const char* tag : {"table", "tr", "td", "details", "pre", "figure", "div", "p"})
    CHECK(count(page, "<" + std::string(tag) + ">") + count(page, "<" + std::string(tag) + " ") == count(page, "</" + std::string(tag) + ">"));
  CHECK(html("a<b>&\"'\x01") == "a&lt;b&gt;&amp;&quot;&#39; ");
}

TEST_CASE("the page asks for nothing from elsewhere") {
  const auto page = page_of({synthetic_record("a", 0, true), synthetic_record("b", 1)});
  CHECK_FALSE(std::regex_search(page, std::regex("(src|href)=|@import|url\\(|https?://")));
  CHECK_THAT(page, Contains("default-src 'none'"));
}

TEST_CASE("records whose qualities cannot be compared, or that lack them, get no plots") {
  auto other = synthetic_record("b", 1);
  other["evaluation"]["text_sha256"] = "another";
  CHECK_THAT(page_of({synthetic_record("a", 0, true), other}), Contains("No plots: they need"));
  Json bare = {{"hash", "a"}, {"run", "base"}, {"name", "n"}, {"metrics", Json::object()}};
  CHECK_THAT(page_of({bare}), Contains("No plots: they need"));
}

TEST_CASE("500 runs make a page of less than a megabyte") {
  std::vector<Json> records;
  for (int i = 0; i < 500; ++i) records.push_back(synthetic_record(std::to_string(i), i, i == 0));
  const auto page = page_of(records);
  CHECK(count(page, "<tr>") > 990);
  CHECK(page.size() < 1000000);
}

// Answers for the differential fuzzer (tests/fuzz/jinja.py) and for scripts that compare templates: reads requests from its standard input,
// one line of JSON each,
//   {"template": "...", "context": {...}, "now": [year, month, day, hour, minute, second]}      (now: where the template asks for it)
// and answers each with one line: {"text": "...", "data": [[begin, end], ...]} or {"error": "..."}.
#include <ctime>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "jinja/template.h"

namespace {

using Json = nlohmann::ordered_json;

std::tm time_of(const Json& numbers) {
  std::tm time{};
  time.tm_year = numbers.at(0).get<int>() - 1900;
  time.tm_mon = numbers.at(1).get<int>() - 1;
  time.tm_mday = numbers.at(2).get<int>();
  time.tm_hour = numbers.at(3).get<int>();
  time.tm_min = numbers.at(4).get<int>();
  time.tm_sec = numbers.at(5).get<int>();
  time.tm_isdst = -1;
  std::mktime(&time);  // fills in the day of the week and of the year
  return time;
}

Json answer(const std::string& line) {
  const Json request = Json::parse(line);
  patchbay::jinja::RenderOptions options;
  if (request.contains("now")) options.now = time_of(request.at("now"));
  const auto rendered = patchbay::jinja::Template(request.at("template").get<std::string>()).render(request.at("context"), options);
  Json data = Json::array();
  for (const auto& range : rendered.data) data.push_back({range.begin, range.end});
  return {{"text", rendered.text}, {"data", data}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Json result;
    try {
      result = answer(line);
    } catch (const std::exception& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
}

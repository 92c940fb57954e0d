// The hostile files of ../shared/hostile, and what every command must do with a bad file: refuse it within limits of time and memory, by
// one line that begins with the file and the field.
#pragma once
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "program.h"
#include "support.h"

namespace patchbay::test {

struct HostileCase {
  std::string file;    ///< its path
  std::string wrong;   ///< in words
  std::string expect;  ///< the kind of reason to be given; "": the file is to be accepted
  bool model = false;  ///< the fault is one of the model, not of the container
};

/// Of one format of the manifest ("gguf", "safetensors", ...). Empty when ../shared is not here.
inline std::vector<HostileCase> hostile_cases(const std::string& format) {
  std::vector<HostileCase> cases;
  const std::string manifest = shared_path("hostile/manifest.json");
  if (manifest.empty()) return cases;
  const auto whole = nlohmann::json::parse(read_file(manifest));
  for (const auto& entry : whole.at("cases")) {
    if (entry.at("format") != format) continue;
    const bool reject = entry.at("must_reject").get<bool>();
    cases.push_back({shared_path("hostile/" + entry.at("file").get<std::string>()), entry.at("wrong"), reject ? entry.at("expect") : "",
                     entry.value("level", "") == "model"});
  }
  return cases;
}

/// What each of the commands may take.
constexpr ProgramLimits kHostileLimits{20, std::int64_t{1} << 30};

inline std::vector<std::vector<std::string>> commands_on(const std::string& file) {
  return {{"check", file}, {"inspect", file, "--tensors"}, {"logits", "--model", file, "--tokens", "1,2", "--threads", "1"}};
}

inline std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}
/// Whether a message names a kind of reason: all its words, in any order.
inline bool has_all_words(const std::string& text, const std::string& words) {
  std::istringstream in(lower(words));
  const std::string all = lower(text);
  for (std::string word; in >> word;) {
    while (!word.empty() && word.back() == ':') word.pop_back();
    if (all.find(word) == std::string::npos) return false;
  }
  return true;
}

/// A program that refused `file` for the reason `expect`: "FILE: FIELD: PROBLEM" in one line, nothing on stdout, no sign of a crash.
inline void check_refusal(const ProgramResult& result, const std::string& file, const std::string& expect) {
  INFO(file << ", expected: " << expect << "\nstdout: " << result.out << "\nstderr: " << result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.signal == 0);
  CHECK(result.code == 1);
  CHECK(result.out.empty());
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
  const std::string message = result.err.starts_with("patchbay: ") ? result.err.substr(10) : result.err;
  REQUIRE(message.starts_with(file + ": "));
  const std::string rest = message.substr(file.size() + 2);
  CHECK(rest.find(": ") != std::string::npos);
  CHECK(rest.find(": ") > 0);
  CHECK(has_all_words(rest, expect));
  CHECK(std::none_of(rest.begin(), rest.end() - 1, [](unsigned char c) { return c < 0x20 || c == 0x7F; }));
}

}  // namespace patchbay::test

// What the program does when the n-th allocation, read or write fails: a clear error or, where the call did not matter, the same result;
// never a signal, a hang, or a finished record lost. In a sanitized build every one of these processes is also searched for leaks.
//
// CI takes some n, spread over all. Every n: PATCHBAY_FAULTS_ALL=1 build/release/bin/test_e2e_faults
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hf_folder.h"
#include "hostile.h"
#include "program.h"
#include "support.h"

namespace fs = std::filesystem;
namespace test = patchbay::test;
using Words = std::vector<std::string>;

namespace {

const std::string kModel = test::source_path("tests/golden/tiny_llama/gqa_tied.gguf");
constexpr test::ProgramLimits kLimits{120, std::int64_t{2} << 30};

struct Fault {
  std::string kind;   ///< "alloc", "read", "write", "short" or "none"
  long at = 0;        ///< 0: none
  bool stays = false;
};

test::ProgramResult run_with(const Fault& fault, const Words& arguments, const std::string& report = "/dev/null") {
  return test::run_program(arguments, kLimits,
                           {{"LD_PRELOAD", PATCHBAY_BINARY_DIR "/lib/test/faults.so"},
                            {"PATCHBAY_FAULT", fault.kind},
                            {"PATCHBAY_FAULT_AT", std::to_string(fault.at)},
                            {"PATCHBAY_FAULT_ON", fault.stays ? "1" : "0"},
                            {"PATCHBAY_FAULT_REPORT", report},
                            {"PATCHBAY_PYTHON", "/bin/false"}});  // plots are another program's
}

struct Counts { long calls = -1; long long peak_heap_bytes = -1; };
/// What an undisturbed run of the command counts.
Counts counts_of(const std::string& kind, const Words& arguments) {
  const test::TemporaryFolder folder;
  const auto result = run_with({kind}, arguments, folder / "report");
  INFO(result.err);
  CHECK(result.signal == 0);
  Counts counts;
  REQUIRE(std::sscanf(test::read_file(folder / "report").c_str(), "calls=%ld peak_heap_bytes=%lld", &counts.calls, &counts.peak_heap_bytes) == 2);
  return counts;
}

/// Calls each(fault) for `some` of the n, or for all of them; each once alone and once with all that follow.
template <class Each>
void for_faults(const std::string& kind, const Words& arguments, long some, Each each) {
  const long calls = counts_of(kind, arguments).calls;
  REQUIRE(calls > 0);
  const char* all = std::getenv("PATCHBAY_FAULTS_ALL");
  const long step = all && *all == '1' ? 1 : std::max(1L, calls / some);
  for (long at = 1; at <= calls; at += step) {
    for (const bool stays : {false, true}) {
      INFO(kind << " " << at << " of " << calls << (stays ? " and all after it" : ""));
      each(Fault{kind, at, stays});
    }
  }
}

/// One line that says what is wrong, in words that are not the language's own. (A report may first have said that it has no plots.)
void check_message(const test::ProgramResult& result) {
  INFO(result.err);
  CHECK_FALSE(result.timed_out);
  CHECK(result.signal == 0);
  CHECK(result.code == 1);
  const auto lines = std::count(result.err.begin(), result.err.end(), '\n');
  CHECK(lines == (result.err.find("no plots") == std::string::npos ? 1 : 2));
  CHECK(result.err.find(": ") != std::string::npos);
  for (const char* word : {"std::", "basic_", "filesystem error", "terminate"}) CHECK(result.err.find(word) == std::string::npos);
}

/// An experiment of a second or less: two runs, and one of noise.
struct Experiment : test::TemporaryFolder {
  std::string yaml = path + "/tiny.yaml";
  Experiment() {
    write(path + "/text.txt", test::read_file(test::source_path("data/evaluation.txt")).substr(0, 300));
    write(path + "/prompts.jsonl", "{\"prompt\": \"the cat\"}\n");
    write(yaml, "name: tiny\nmodel: " + kModel + "\nrepeat: 1\ntasks: [perplexity, divergence, generation, memory]\nevaluation: {text: " + path +
                    "/text.txt, prompts: " + path + "/prompts.jsonl, window: 32, chunks: 2, prompt_count: 1, max_tokens: 4, prefill_tokens: 16}\n" +
                    "sweep:\n  kv_store.format: [fp32, int8]\n");
  }
  static void write(const std::string& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }
  Words run(const std::string& out, bool resume = false) const {
    Words words = {"run", yaml, "--out", path + "/" + out, "--threads", "2", "--quiet"};
    if (resume) words.push_back("--resume");
    return words;
  }
};

std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  const std::string text = test::read_file(file);
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) lines.push_back(text.substr(begin, end - begin));
  return lines;
}

/// Whatever a fault left of a sweep: its records are whole, and it can be gone on with to the end, keeping them.
void check_resumable(const Experiment& experiment, const std::string& out) {
  const std::string folder = experiment / out;
  const auto kept = lines_of(folder + "/records.jsonl");
  for (const auto& line : kept) CHECK(nlohmann::json::parse(line, nullptr, false).is_object());
  const auto resumed = run_with({"none"}, experiment.run(out, true));
  INFO(resumed.err);
  CHECK_FALSE(resumed.timed_out);
  CHECK(resumed.code == 0);
  const auto lines = lines_of(folder + "/records.jsonl");
  CHECK(lines.size() == 3);
  for (std::size_t i = 0; i < kept.size() && i < lines.size(); ++i) CHECK(lines[i] == kept[i]);
  for (const auto& entry : fs::recursive_directory_iterator(folder)) CHECK(entry.path().extension().string().find(".part") == std::string::npos);
}

}  // namespace

TEST_CASE("loading: the n-th allocation or read fails") {
  const test::TemporaryFolder folder;
  test::write_golden_folder(folder.path, "qwen3");
  const Words commands[] = {{"logits", "--model", folder.path, "--tokens", "1,2,3", "--threads", "2"},
                            {"check", kModel},
                            {"inspect", kModel, "--tensors"},
                            {"logits", "--model", kModel, "--tokens", "1,2,3", "--threads", "2"},
                            {"tokenize", "--tokenizer", test::source_path("tests/golden/tokenizers/gpt2.json"), "one two"}};
  for (const Words& command : commands) {
    const auto undisturbed = test::run_program(command, kLimits);
    REQUIRE(undisturbed.code == 0);
    for (const char* kind : {"alloc", "read"}) {
      for_faults(kind, command, 12, [&](const Fault& fault) {
        const auto result = run_with(fault, command);
        INFO(command[0]);
        if (result.code == 0) CHECK(result.out == undisturbed.out);
        else check_message(result);
      });
    }
  }
}

TEST_CASE("writing results: the n-th write fails, once or for good; what is finished stays, and --resume goes on") {
  const Experiment experiment;
  int number = 0;
  for_faults("write", experiment.run("counted"), 10, [&](const Fault& fault) {
    const std::string out = "out" + std::to_string(++number);
    const auto result = run_with(fault, experiment.run(out));
    if (result.code != 0) check_message(result);
    check_resumable(experiment, out);
  });
}

TEST_CASE("running an experiment: the n-th allocation or read fails, and what is finished stays") {
  const Experiment experiment;
  int number = 0;
  for (const char* kind : {"alloc", "read"}) {
    for_faults(kind, experiment.run("counted_" + std::string(kind)), 6, [&](const Fault& fault) {
      const std::string out = "out" + std::to_string(++number);
      const auto result = run_with(fault, experiment.run(out));
      if (result.code != 0) check_message(result);
      check_resumable(experiment, out);
    });
  }
}

TEST_CASE("writing a report: the n-th call fails, and the old files stay whole") {
  const Experiment experiment;
  REQUIRE(run_with({"none"}, experiment.run("out")).code == 0);
  const std::string csv = experiment / "old.csv", html = experiment / "old.html";
  const Words command = {"report", experiment / "out", "--csv", csv, "--html", html};
  REQUIRE(run_with({"none"}, command).code == 0);
  const std::string old_csv = test::read_file(csv), old_html = test::read_file(html);
  REQUIRE(!old_csv.empty());
  for (const char* kind : {"alloc", "read", "write"}) {
    for_faults(kind, command, 8, [&](const Fault& fault) {
      const auto result = run_with(fault, command);
      if (result.code != 0) check_message(result);
      CHECK(test::read_file(csv) == old_csv);
      CHECK(test::read_file(html) == old_html);
    });
  }
}

TEST_CASE("converting: the n-th call fails, and the model is there whole or not at all") {
  const test::TemporaryFolder folder;
  test::write_golden_folder(folder / "in", "qwen3");
  REQUIRE(test::run_program({"convert", folder / "in", folder / "in.gguf"}, kLimits).code == 0);
  for (const auto& [from, out] : {std::pair(folder / "in", folder / "out.gguf"), std::pair(folder / "in.gguf", folder / "out")}) {
    for (const std::string kind : {"alloc", "read", "write"}) {
      const Words command = {"convert", from, out, "--force", "--json"};
      for_faults(kind, command, 8, [&, from = from, out = out](const Fault& fault) {
        fs::remove_all(out);
        const auto result = run_with(fault, command);
        INFO(from);
        if (result.code != 0) check_message(result);
        if (fs::exists(out)) CHECK(test::run_program({"check", out}, kLimits).code == 0);  // whole, whatever failed after it
        // Without memory the program ends at once, as by a kill: its unfinished file stays beside.
        if (kind != "alloc") CHECK(std::distance(fs::directory_iterator(folder.path), {}) == (fs::exists(out) ? 3 : 2));
        for (const auto& entry : fs::directory_iterator(folder.path)) {
          if (entry.path().string().find(".part") != std::string::npos) fs::remove_all(entry.path());
        }
      });
      fs::remove_all(out);
    }
  }
}

TEST_CASE("reads and writes that take half of what they are given change nothing") {
  const Experiment experiment;
  const auto result = run_with({"short"}, experiment.run("out"));
  INFO(result.err);
  CHECK(result.code == 0);
  check_resumable(experiment, "out");
  const Words logits = {"logits", "--model", kModel, "--tokens", "1,2,3"};
  CHECK(run_with({"short"}, logits).out == test::run_program(logits, kLimits).out);
}

TEST_CASE("checking a small hostile file takes no more memory than the file warrants") {
  if (test::kAddressSanitizer) return;  // it counts the heap by itself, and limits the resident part: program.h
  auto cases = test::hostile_cases("gguf");
  for (auto& one : test::hostile_cases("safetensors")) cases.push_back(std::move(one));
  PATCHBAY_NEEDS(test::shared_path("hostile/manifest.json"), "hostile/manifest.json");
  const test::TemporaryFolder folder;
  const std::string empty = folder / "empty.gguf";
  std::ofstream(empty, std::ios::binary) << std::string("GGUF\3\0\0\0", 8) << std::string(16, '\0');
  const long long least = counts_of("alloc", {"check", empty}).peak_heap_bytes;
  for (const auto& one : cases) {
    INFO(one.file << ": " << one.wrong);
    const auto bytes = static_cast<long long>(fs::file_size(one.file));
    CHECK(counts_of("alloc", {"check", one.file}).peak_heap_bytes <= least + 65536 + 16 * bytes);
  }
}

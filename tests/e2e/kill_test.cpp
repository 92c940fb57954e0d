// patchbay run, killed at random moments and resumed; interrupted; and two of them in one folder.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "experiment/records.h"
#include "files.h"
#include "support.h"
#include "synthetic_records.h"

namespace fs = std::filesystem;
namespace test = patchbay::test;
using Catch::Contains;
using patchbay::Json;

namespace {

/// `patchbay run`, its output into a file.
class Program {
 public:
  Program(const std::string& yaml, const std::string& out, const std::string& log, bool resume) {
    id_ = ::fork();
    if (id_ != 0) return;
    if (!std::freopen(log.c_str(), "w", stdout) || !std::freopen(log.c_str(), "a", stderr)) ::_exit(126);
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);  // a test in the background inherits SIGINT as ignored
    const std::string program = PATCHBAY_BINARY_DIR "/bin/patchbay";
    ::execl(program.c_str(), program.c_str(), "run", yaml.c_str(), "--out", out.c_str(), "--threads", "2", resume ? "--resume" : nullptr, nullptr);
    ::_exit(127);
  }
  ~Program() { if (id_ > 0) end(SIGKILL); }
  /// Sends a signal and returns how it ended: its exit code, or minus the signal.
  int end(int signal) {
    ::kill(id_, signal);
    return wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    id_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t id_ = -1;
};

struct Place : test::Folder {
  std::string yaml = path + "/tiny.yaml", log = path + "/log";
  Place() {
    patchbay::write_file_atomically(path + "/text.txt", test::read_file(test::source_path("data/evaluation.txt")).substr(0, 700));
    patchbay::write_file_atomically(path + "/prompts.jsonl", "{\"prompt\": \"the cat and the hat\"}\n{\"prompt\": \"one two one two one\"}\n");
    patchbay::write_file_atomically(
        yaml, "name: tiny\nmodel: " + test::source_path("tests/golden/tiny_llama/gqa_tied.gguf") + "\nrepeat: 3\nevaluation: {text: " + path +
                  "/text.txt, prompts: " + path + "/prompts.jsonl, window: 64, chunks: 5, prompt_count: 2, max_tokens: 24, prefill_tokens: 64}\n" +
                  "base: {activations: fp32}\nsweep:\n  weights: {as stored: none, int4: {quantizer: rtn, format: {type: int_grouped, bits: 4, group_size: 16}}}\n"
                  "  kv_store.format: [fp32, fp16, int8]\nbaseline: {weights: none, kv_store.format: fp32}\n");
  }
  std::string output() const { return test::read_file(log); }
};

/// A record without what time and the machine's state decide.
/// Drops what is timed, or worked out from timings, at any depth.
void drop_times(Json& node) {
  if (!node.is_object()) {
    if (node.is_array()) for (auto& entry : node) drop_times(entry);
    return;
  }
  for (auto entry = node.begin(); entry != node.end();) {
    const bool timed = [&key = entry.key()] {
      for (const char* word : {"tokens_per_s", "ttft_ms", "tpot_ms", "speed_ratio", "busy_share", "of_roofline", "peak_rss_bytes", "calibration"})
        if (key.find(word) != std::string::npos) return true;
      return false;
    }();
    if (timed) { entry = node.erase(entry); continue; }
    drop_times(*entry);
    ++entry;
  }
}

Json lasting(Json record) {
  record["environment"].erase("started");
  drop_times(record);
  return record;
}

std::map<std::string, std::string> finished_lines(const std::string& out) {
  std::map<std::string, std::string> lines;
  if (!fs::exists(out + "/records.jsonl")) return lines;
  for (const auto& line : patchbay::whole_lines(out + "/records.jsonl")) {
    const auto record = Json::parse(line, nullptr, false);
    REQUIRE(record.is_object());
    REQUIRE(lines.emplace(record["hash"].get<std::string>(), line).second);  // no run twice
  }
  return lines;
}

}  // namespace

TEST_CASE("killed at random moments, a resumed sweep ends with the records of an undisturbed one and never loses a finished run") {
  const Place place;
  const auto whole = place / "whole", out = place / "killed";
  const auto started = std::chrono::steady_clock::now();
  REQUIRE(Program(place.yaml, whole, place.log, false).wait() == 0);
  const auto duration = std::chrono::duration<double>(std::chrono::steady_clock::now() - started);

  std::mt19937_64 engine(20);
  std::uniform_real_distribution<double> moment(0.05, 0.7);
  int killed = 0;
  for (int kill = 0; kill < 15; ++kill) {
    const auto before = finished_lines(out);
    Program program(place.yaml, out, place.log, true);
    std::this_thread::sleep_for(duration * moment(engine));
    const int ended = program.end(SIGKILL);
    INFO(place.output());
    REQUIRE((ended == -SIGKILL || ended == 0));
    killed += ended != 0;
    const auto after = finished_lines(out);
    for (const auto& [hash, line] : before) REQUIRE(after.at(hash) == line);
    if (fs::exists(out + "/timings.jsonl"))
      for (const auto& line : patchbay::whole_lines(out + "/timings.jsonl")) REQUIRE(Json::parse(line, nullptr, false).is_object());
  }
  CHECK(killed >= 3);
  const auto before = finished_lines(out);
  const int last = Program(place.yaml, out, place.log, true).wait();
  INFO(place.output());
  REQUIRE(last == 0);
  for (const auto& [hash, line] : before) CHECK(finished_lines(out).at(hash) == line);
  const auto expected = patchbay::read_records(whole), got = patchbay::read_records(out);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(lasting(got[i]) == lasting(expected[i]));
  for (const auto& record : got) CHECK(record["metrics"]["decode_tokens_per_s_values"].size() == 3);
  for (const auto& entry : fs::recursive_directory_iterator(out)) {
    INFO(entry.path());
    CHECK(entry.path().filename().string().find(".part") == std::string::npos);
    CHECK(entry.path().extension() != ".hidden");
  }
}

TEST_CASE("Ctrl-C keeps what is finished and says how to go on; so does kill") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Place place;
    const auto out = place / "out";
    Program program(place.yaml, out, place.log, false);
    for (int i = 0; i < 2000 && finished_lines(out).empty(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const int ended = program.end(signal);
    INFO(place.output());
    REQUIRE(ended == 128 + signal);
    CHECK_THAT(place.output(), Contains("Ctrl-C again ends patchbay at once"));  // said when it came
    const auto kept = finished_lines(out);
    CHECK_THAT(place.output(), Contains("stopped: " + std::to_string(kept.size()) + " of 7 runs are finished") &&
                                   Contains("patchbay run " + place.yaml + " --threads 2 --out " + out + " --resume"));
    REQUIRE(Program(place.yaml, out, place.log, true).wait() == 0);
    for (const auto& [hash, line] : kept) CHECK(finished_lines(out).at(hash) == line);
    CHECK(finished_lines(out).size() == 7);
  }
}

TEST_CASE("a second run into the same folder is refused and disturbs nothing, timings included") {
  const Place place;
  const auto out = place / "out", second_log = place / "second";
  Program first(place.yaml, out, place.log, false);
  for (int i = 0; i < 2000 && !fs::exists(out + "/timings.jsonl"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(Program(place.yaml, out, second_log, true).wait() == 1);
  CHECK_THAT(test::read_file(second_log), Contains("another patchbay is writing into this folder"));
  CHECK(first.wait() == 0);
  CHECK(finished_lines(out).size() == 7);
  CHECK(patchbay::whole_lines(out + "/timings.jsonl").size() == 3);
}

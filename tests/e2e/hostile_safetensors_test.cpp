// The hostile safetensors files and indexes of ../shared/hostile through the program: check, inspect and logits, each in a process of its
// own with limits of time and memory. A bad file is refused by file and field, for its reason; a good one is accepted.
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include <fmt/format.h>

#include "hostile.h"

namespace test = patchbay::test;
namespace fs = std::filesystem;

namespace {

void run_case(const std::string& file, const test::HostileCase& one) {
  for (const auto& command : test::commands_on(file)) {
    INFO(command[0] << " " << file << ": " << one.wrong);
    const auto result = test::run_program(command, test::kHostileLimits);
    if (!one.expect.empty()) {
      test::check_refusal(result, file, one.expect);
    } else if (command[0] == "logits") {  // tensors alone are sound, but there is nothing to compute
      test::check_refusal(result, file, "missing key");
    } else {
      INFO(result.err);
      CHECK_FALSE(result.timed_out);
      CHECK(result.signal == 0);
      CHECK(result.code == 0);
      CHECK(result.err.empty());
    }
  }
}

std::string container(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

}  // namespace

TEST_CASE("every hostile safetensors file is refused by check, inspect and logits, in one line with file, field and reason") {
  const auto cases = test::hostile_cases("safetensors");
  PATCHBAY_NEEDS(test::shared_path("hostile/manifest.json"), "hostile/manifest.json");
  int rejected = 0, accepted = 0;
  for (const auto& one : cases) {
    ++(one.expect.empty() ? accepted : rejected);
    run_case(one.file, one);
  }
  CHECK(rejected == 51);
  CHECK(accepted == 10);
}

TEST_CASE("every hostile index is refused for its reason") {
  const auto cases = test::hostile_cases("safetensors-index");
  PATCHBAY_NEEDS(test::shared_path("hostile/manifest.json"), "hostile/manifest.json");
  const test::TemporaryFolder folder;  // a shard that one of them names is not among the files
  for (const auto& entry : fs::directory_iterator(test::shared_path("hostile/safetensors"))) fs::copy(entry, folder.path);
  std::ofstream(folder / "ok_v04_space_pad.safetensors", std::ios::binary) << container(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}  )", "x");
  int rejected = 0, accepted = 0;
  for (const auto& one : cases) {
    ++(one.expect.empty() ? accepted : rejected);
    run_case(folder / fs::path(one.file).filename().string(), one);
  }
  CHECK(rejected == 6);
  CHECK(accepted == 1);
}

TEST_CASE("what the manifest only describes: headers of 100 MB, a million tensors, and paths that are no regular files") {
  const test::TemporaryFolder folder;
  const std::string file = folder / "x.safetensors";
  std::ofstream(file, std::ios::binary) << container("{}" + std::string(99'999'999, ' '));
  test::check_refusal(test::run_program({"check", file}, test::kHostileLimits), file, "header too large");

  std::string header = "{";
  for (int i = 0; i < 1'000'000; ++i) header += fmt::format(R"({}"t{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", i ? "," : "", i);
  header += "}";
  REQUIRE(header.size() < 99'000'000);
  std::ofstream(file, std::ios::binary) << container(header);
  const auto many = test::run_program({"check", file}, test::kHostileLimits);
  INFO(many.err);
  CHECK(many.code == 0);

  const auto refused_as = [&](const std::string& problem) {
    const auto result = test::run_program({"check", file}, test::kHostileLimits);
    INFO(problem << "\n" << result.err);
    CHECK(result.code == 1);
    CHECK(result.err.starts_with(file));
    CHECK(result.err.find(problem) != std::string::npos);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    fs::remove(file);
  };
  fs::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  refused_as(": is not a regular file");
  fs::create_symlink(file, file);
  refused_as("Too many levels of symbolic links");
  fs::create_symlink("/dev/zero", file);
  refused_as(": is not a regular file");
  fs::create_directory(file);
  refused_as("/config.json: no such file: the folder holds no model; allowed: a Hugging Face folder, or a GGUF file");
}

// The hostile GGUF files of ../shared/hostile through the program: check, inspect and logits, each in a process of its own with limits of
// time and memory. A bad file is refused by file and field, for its reason; a good one is accepted. The core's own test
// (core/model_file_test.cpp) reads the same files in one process.
//
// Known faults among them: C01 (lengths, counts and types taken unchecked), C04 (bad_m17, bad_m18), C05 (bad_t07, bad_k21; whatever the
// build's type), C07 (bad_h23, bad_t27) and C11 (bad_t02).
#include <catch2/catch.hpp>

#include "gguf_writer.h"
#include "hostile.h"

namespace test = patchbay::test;

namespace {

void must_be_accepted(const test::HostileCase& one) {
  for (const auto& command : test::commands_on(one.file)) {
    const auto result = test::run_program(command, test::kHostileLimits);
    INFO(command[0] << " " << one.file << ": " << one.wrong << "\n" << result.err);
    // A container that holds no model is sound; that there is nothing to compute is said by file and key.
    if (command[0] == "logits" && !one.model) {
      test::check_refusal(result, one.file, "missing key");
      continue;
    }
    CHECK_FALSE(result.timed_out);
    CHECK(result.signal == 0);
    CHECK(result.code == 0);
    CHECK_FALSE(result.out.empty());
    const bool warned = command[0] == "check" && one.file.find("trailing") != std::string::npos;
    CHECK(result.err.empty() != warned);
  }
}

}  // namespace

TEST_CASE("every hostile GGUF file is refused by check, inspect and logits, in one line with file, field and reason") {
  const auto cases = test::hostile_cases("gguf");
  PATCHBAY_NEEDS(test::shared_path("hostile/manifest.json"), "hostile/manifest.json");
  int rejected = 0, accepted = 0;
  for (const auto& one : cases) {
    ++(one.expect.empty() ? accepted : rejected);
    if (one.expect.empty()) {
      must_be_accepted(one);
      continue;
    }
    for (const auto& command : test::commands_on(one.file)) {
      INFO(command[0] << ": " << one.wrong);
      test::check_refusal(test::run_program(command, test::kHostileLimits), one.file, one.expect);
    }
  }
  CHECK(rejected == 91);
  CHECK(accepted == 14);
}

TEST_CASE("what the manifest only describes: a key of 64 KiB, 100,000 tensors, 5 GiB of a sparse file, within 1 GiB of memory beside it") {
  const test::TemporaryFolder folder;
  const std::string file = folder / "x.gguf";
  test::GgufWriter key;
  key.u32(std::string(65536, 'k'), 1);
  key.write(file);
  test::check_refusal(test::run_program({"check", file}, test::kHostileLimits), file, "bad key: 65536 bytes");

  test::GgufWriter many;
  for (int i = 0; i < 100000; ++i) many.info("t" + std::to_string(i), 0, {0}, 0);
  many.write(file);
  CHECK(test::run_program({"check", file}, test::kHostileLimits).code == 0);

  constexpr std::uint64_t kBytes = 5ull << 30;
  test::GgufWriter large;
  large.info("big", 24, {kBytes}, 0);
  large.write(file);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) + kBytes);
  const auto result = test::run_program({"check", file}, {20, (std::int64_t{5} << 30) + (std::int64_t{1} << 30)});
  INFO(result.err);
  CHECK(result.code == 0);
  // Where not even the address space is there, the message says so.
  if constexpr (!test::kAddressSanitizer) test::check_refusal(test::run_program({"check", file}, test::kHostileLimits), file, "cannot map memory");
}

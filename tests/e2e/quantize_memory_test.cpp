// How much memory `patchbay quantize` takes: that of one block and one sample, however many samples there are. A program of its own, since a
// child's peak counts what its parent was at the fork.
#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "program.h"
#include "support.h"

using namespace patchbay::test;

namespace {

#ifdef __SANITIZE_THREAD__
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = kAddressSanitizer;
#endif

double peak_mb(int whose) {
  rusage usage{};
  ::getrusage(whose, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

/// Of the largest child so far.
double peak_with(int samples, std::vector<std::string> settings) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = {"quantize", "--model", source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf"), "--out", folder / "m.gguf", "format.type=q4_0",
                                        "calibration.text=" + source_path("data/tiny-shakespeare/calibration.txt"), "calibration.samples=" + std::to_string(samples), "calibration.length=512"};
  arguments.insert(arguments.end(), settings.begin(), settings.end());
  const ProgramResult result = run_program(arguments, {.seconds = 120, .clock_seconds = 600});
  INFO(result.err);
  REQUIRE(result.code == 0);
  return peak_mb(RUSAGE_CHILDREN);
}

}  // namespace

TEST_CASE("quantize: memory does not grow with the number of calibration samples") {
  if (kSanitizer) {
    WARN("skipped: a sanitizer keeps freed memory aside");
    ++skipped_cases();
    return;
  }
  constexpr double kAllowedMb = 4;  // the samples' tokens, and the allocator's waste; hidden states are 0.5 MB a sample, and as much again for gptq
  struct Case { int few, many; std::vector<std::string> settings; };
  for (const auto& [few_samples, many_samples, settings] : {Case{2, 24, {"quantizer.type=rtn", "transforms=[{type: awq, n_grid: 2, clip: false}]"}}, Case{8, 64, {"quantizer.type=gptq"}}}) {
    const double few = peak_with(few_samples, settings), many = peak_with(many_samples, settings);
    CHECK(few > peak_mb(RUSAGE_SELF));  // else this program, and not the child, is what was measured
    INFO(settings.front() << ", " << few_samples << " samples: " << few << " MB, " << many_samples << " samples: " << many << " MB");
    CHECK(many < few + kAllowedMb);
  }
}

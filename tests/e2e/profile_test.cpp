// `patchbay profile` from outside: counts known by hand, pictures, and what it refuses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "program.h"
#include "registry.h"
#include "support.h"

using Catch::Contains;
using nlohmann::json;

namespace {

struct Result { int code = -1; std::string output, errors; };
Result run(const std::string& arguments) {
  const patchbay::test::TemporaryFolder folder;
  const std::string errors = folder / "stderr";
  const auto shell = patchbay::test::patchbay_run("profile " + arguments, "2>" + errors);
  return {shell.code, shell.out, patchbay::test::read_file(errors)};
}
json json_of(const std::string& arguments) {
  const Result result = run(arguments + " --json");
  INFO(result.errors);
  REQUIRE(result.code == 0);
  return json::parse(result.output);
}
std::string fault_of(const std::string& arguments) {
  const Result result = run(arguments);
  CHECK(result.code == 1);
  CHECK(result.output.empty());
  return result.errors;
}

/// "" where this build has no emulated device.
std::string emulator() {
  const auto backends = patchbay::Registry::instance().names("backends");
  return std::ranges::find(backends, "simt") != backends.end() ? "simt" : "";
}

}  // namespace

TEST_CASE("profile: a sum of rows, counted by hand") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  // (4,256) fp16: a warp's 32 lanes take 8 halves each, 512 bytes a row, 16 sectors: x and y are loaded, x is stored.
  const json profile = json_of("backends/cuda --op add --tokens 4 --cols 256 --gpu L4");
  CHECK(profile["gpu"] == "L4");
  const json& one = profile["cases"][0];
  CHECK(one["bytes"] == 3 * 4 * 512);
  REQUIRE(one["kernels"].size() == 1);
  const json& kernel = one["kernels"][0];
  CHECK(kernel["instructions"]["global load"] == 8);
  CHECK(kernel["instructions"]["global store"] == 4);
  CHECK(kernel["global"]["sectors"] == 12 * 16);
  CHECK(kernel["global"]["unique_bytes"] == 12 * 512);
  CHECK(kernel["global"]["read_bytes"] == 2 * 4 * 512);
  CHECK(kernel["global"]["written_bytes"] == 4 * 512);
  CHECK(kernel["branches"]["divergent"] == 0);
  CHECK(kernel["registers"].is_null());
  CHECK(kernel["at_least_s"]["memory"].get<double>() == Approx(6144 / 300e9));
}

TEST_CASE("profile: an operation's kernel is chosen as in YAML; a fused one is one launch") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  const auto kernels = [](const std::string& arguments) {
    std::vector<std::string> names;
    const json profile = json_of("backends/simt --tokens 2 --cols 64 " + arguments);
    for (const json& kernel : profile["cases"][0]["kernels"]) names.push_back(kernel["kernel"]);
    return names;
  };
  CHECK_THAT(kernels("--op rms_norm").at(0), Contains("rms_norm_fast"));
  CHECK_THAT(kernels("--op rms_norm --kernel naive").at(0), Contains("rms_norm_naive"));
  CHECK_THAT(kernels("--op softmax kernels.softmax=block").at(0), Contains("softmax_block"));
  CHECK(kernels("--op add_rms_norm").size() == 1);
  CHECK(kernels("--op add_rms_norm --kernel separate").size() == 2);
  CHECK_THAT(fault_of("backends/simt --op rms_norm --kernel blck"), Contains("kernels.rms_norm: unknown kernel blck; allowed: naive, block, fast"));
  CHECK_THAT(fault_of("backends/cpu --op rms_norm"), Contains("it has none for a GPU"));
}

TEST_CASE("profile: the tiled product, counted by hand") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  // 2 blocks of 16 x 16 threads, 2 tiles of 16 columns: each of the 8 warps loads two rows of 16 halves of x and of w, 32 bytes each.
  const json one = json_of("formats/fp16 --kernel tiled --tokens 16 --rows 32 --cols 32")["cases"][0];
  CHECK(one["flops"] == 2 * 16 * 32 * 32);
  CHECK(one["bytes"] == 2 * (32 * 32 + 16 * 32 + 16 * 32));
  REQUIRE(one["kernels"].size() == 1);
  const json& kernel = one["kernels"][0];
  CHECK(kernel["kernel"] == "matmul_tiled<__half, __half>");
  CHECK(kernel["instructions"]["global load"] == 2 * 2 * 8 * 2);
  CHECK(kernel["instructions"]["barrier"] == 2 * 2 * 8 * 2);
  CHECK(kernel["instructions"]["shared load"] == 2 * 2 * 8 * 16 * 2);
  CHECK(kernel["global"]["read_bytes"] == 2 * (32 * 32 + 16 * 32));
  CHECK(kernel["global"]["written_bytes"] == 2 * 16 * 32);
  for (const json& line : kernel["lines"])
    if (line["instruction"] == "global load") CHECK(line["sectors"] == 2 * line["requests"].get<int>());
}

TEST_CASE("profile: an operation, an attention, a table and pictures") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  const patchbay::test::TemporaryFolder folder;
  const Result norm = run("backends/cuda --op rms_norm --tokens 2 --cols 64 --gpu H200 --registers 32 --picture " + (folder / "norm.svg"));
  INFO(norm.errors);
  REQUIRE(norm.code == 0);
  CHECK_THAT(norm.output, Contains("rms_norm of (2,64)") && Contains("emulated") && Contains("H200") && Contains("32 registers"));
  CHECK_THAT(patchbay::test::read_file(folder / "norm.svg"), Catch::StartsWith("<svg xmlns=") && Contains("lane 31") && Catch::EndsWith("</svg>\n"));
  const Result attention = run("attention/naive --tokens 1 --context 20 --heads 2 --kv-heads 1 --head-size 16 --picture " + (folder / "all.html"));
  INFO(attention.errors);
  REQUIRE(attention.code == 0);
  CHECK_THAT(attention.output, Contains("attention of 1 tokens after 20 in the cache") && Contains("registers unknown"));
  CHECK_THAT(patchbay::test::read_file(folder / "all.html"), Catch::StartsWith("<!DOCTYPE html>") && Contains("sectors of 32 bytes"));
}

TEST_CASE("profile: the steps of a model") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  const json profile = json_of("--model tiny-shakespeare --prompt 3 --generate 1 activations=fp32");
  REQUIRE(profile["cases"].size() == 2);
  CHECK(profile["cases"][0]["title"] == "prefill of 3 tokens");
  for (const json& step : profile["cases"]) CHECK(step["kernels"].size() > 3);
}

TEST_CASE("profile: what it refuses") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  CHECK_THAT(fault_of(""), Contains("takes a technique or --model"));
  CHECK_THAT(fault_of("formats/fp17"), Contains("fp17") && Contains("fp16"));
  CHECK_THAT(fault_of("formats/fp16 --kernel naiv"), Contains("unknown kernel naiv") && Contains("tensor_core"));
  CHECK_THAT(fault_of("formats/fp16 --gpu V100"), Contains("'V100' is no GPU") && Contains("RTX 4090"));
  CHECK_THAT(fault_of("formats/q4_k --rows 8 --cols 100"), Contains("100"));
  CHECK_THAT(fault_of("formats/fp16 --rows 0"), Contains("--rows: 0 is no count"));
  CHECK_THAT(fault_of("attention/naive --heads 3 --kv-heads 2"), Contains("2 do not divide 3 heads"));
  CHECK_THAT(fault_of("backends/cuda --op rms_nrom"), Contains("did you mean rms_norm?"));
  CHECK_THAT(fault_of("processors/top_k"), Contains("have no kernels"));
  CHECK_THAT(fault_of("formats/fp16 --line fp16.cu:1"), Contains("give --picture too"));
  CHECK_THAT(fault_of("formats/fp16 --picture x.png"), Contains(".svg or .html"));
  CHECK_THAT(fault_of("formats/fp16 --rows 16 --cols 16 --picture x.svg --line nowhere.cu:1"), Contains("no access at 'nowhere.cu:1'"));
}

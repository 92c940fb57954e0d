// The program from outside: exit codes, where errors go, the stable keys of --json.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "program.h"
#include "support.h"

using Catch::Contains;

namespace {

struct Result {
  int code = -1;
  std::string output, errors;
};

/// Runs `patchbay ARGUMENTS` through the shell.
Result run(const std::string& arguments) {
  const std::string errors = std::string(PATCHBAY_BINARY_DIR) + "/cli_test.stderr";
  const auto shell = patchbay::test::patchbay_run(arguments, "2>" + errors);
  Result result{shell.code, shell.out, {}};
  result.errors = patchbay::test::read_file(errors);
  return result;
}
nlohmann::json json_of(const std::string& arguments) {
  const Result result = run(arguments);
  INFO(result.errors);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.output);
}

}  // namespace

TEST_CASE("usage errors exit with 2, faults with 1 and one line on stderr") {
  CHECK(run("").code == 2);
  CHECK(run("frobnicate").code == 2);
  CHECK(run("list --frobnicate").code == 2);
  CHECK(run("logits").code == 2);  // --model is required
  CHECK(run("--help").code == 0);
  const Result version = run("--version");
  CHECK(version.code == 0);
  CHECK_THAT(version.output, Contains("patchbay 0.") && Contains("include-"));
  const Result fault = run("describe no_such_plugin");
  CHECK(fault.code == 1);
  CHECK(fault.output.empty());
  CHECK_THAT(fault.errors, Contains("patchbay: no_such_plugin: unknown plugin"));
  CHECK(std::count(fault.errors.begin(), fault.errors.end(), '\n') == 1);
}

TEST_CASE("an unknown command is told which there are, and the nearest") {
  const Result near = run("genrate --model x");
  CHECK(near.code == 2);
  CHECK_THAT(near.errors, Contains("patchbay: genrate: unknown command; one of: list, describe,") && Contains("did you mean generate?"));
  CHECK(std::count(near.errors.begin(), near.errors.end(), '\n') == 1);
  CHECK_THAT(run("frobnicate").errors, Contains("unknown command") && !Contains("did you mean"));
  CHECK_THAT(run("").errors, Contains("a command is missing; one of: list,"));
}

TEST_CASE("a folder of PATCHBAY_PLUGIN_PATH that is not there shows in every list") {
  ::setenv("PATCHBAY_PLUGIN_PATH", "/no/such/folder", 1);
  for (const char* command : {"list", "list quantizers", "list kv_store"}) CHECK_THAT(run(command).output, Contains("/no/such/folder"));
  CHECK(json_of("list decoders --json")["refused"].size() == 1);
  ::unsetenv("PATCHBAY_PLUGIN_PATH");
  CHECK(json_of("list decoders --json")["refused"].empty());
}

TEST_CASE("numbers are refused where the parser would bend them") {
  for (const char* bad : {"--seed -1", "--seed 18446744073709551616", "--max-tokens 99999999999999999999", "--max-tokens 1.5",
                          "--tokens ''", "--tokens 1,x", "--threads 1025"}) {
    INFO(bad);
    const Result fault = run(std::string("generate --model no_such.gguf ") + bad);
    CHECK(fault.code == 2);
    CHECK_THAT(fault.errors, Contains("--"));
  }
  CHECK_THAT(run("generate --model no_such.gguf --seed -1").errors, Contains("'-1' is not a whole number from 0 to 18446744073709551615"));
  CHECK(run("generate --model no_such.gguf --prompt x --seed 18446744073709551615").code == 1);  // only the model is missing
}

TEST_CASE("output that cannot be written is a fault, not silence") {
  const Result fault = run("list > /dev/full");
  CHECK(fault.code == 1);
  CHECK_THAT(fault.errors, Contains("standard output: writing failed"));
}

TEST_CASE("settings are refused before a model is opened") {
  const Result fault =
      run("logits --model no_such.gguf --prompt x weights.quantizer=rtn weights.format.type=int_grouped "
          "weights.format.bits=5");
  CHECK(fault.code == 1);
  CHECK_THAT(fault.errors, Contains("command line: weights.format.bits: 5 is out of range; allowed: 2, 3, 4, 8"));
  CHECK_THAT(run("logits --model no_such.gguf --prompt x nonsense").errors, Contains("nonsense is no setting"));
}

TEST_CASE("list names every plugin, kernels and what is refused") {
  const nlohmann::json all = json_of("list --json");
  CHECK(all["refused"].empty());
  const auto has = [&](const std::string& kind, const std::string& name) {
    return std::any_of(all["plugins"].begin(), all["plugins"].end(), [&](const auto& one) {
      return one["kind"] == kind && one["name"] == name && !one["summary"].template get<std::string>().empty() &&
             one.contains("paper");
    });
  };
  CHECK(has("formats", "int_grouped"));
  CHECK(has("quantizers", "rtn"));
  CHECK(has("backends", "cpu"));
  const nlohmann::json quantizers = json_of("list quantizer --json");
  REQUIRE_FALSE(quantizers["plugins"].empty());
  for (const auto& one : quantizers["plugins"]) CHECK(one["kind"] == "quantizers");
  CHECK_THAT(run("list").output, Contains("quantizers\n") && Contains("  rtn "));
  CHECK_THAT(run("list formatts").errors, Contains("did you mean formats?"));
  const nlohmann::json kernels = json_of("list kernels --json")["kernels"];
  REQUIRE_FALSE(kernels.empty());
  for (const char* key : {"kind", "technique", "parameter", "kernel", "backend", "phases", "available", "what"}) {
    INFO(key);
    CHECK(kernels[0].contains(key));
  }
  CHECK_FALSE(run("list kernels").output.empty());
}

TEST_CASE("calibrate writes what it prints, and refuses more threads than cores") {
  patchbay::test::TemporaryFolder folder;
  const auto printed = json_of("calibrate --threads 1 --json --out " + folder / "limits.json");
  CHECK(printed == nlohmann::json::parse(patchbay::test::read_file(folder / "limits.json")));
  REQUIRE(printed["by_threads"].size() == 1);
  const auto& read = printed["by_threads"][0]["memory_read_bytes_per_s"];
  CHECK(read["low"] <= read["median"]);
  CHECK(read["median"] <= read["high"]);
  CHECK(printed["array_bytes"] >= 4 * printed["cache_bytes"].get<double>() * (printed["array_bytes"] < (1 << 30)));
  const Result fault = run("calibrate --threads 1024 --out " + folder / "more.json");
  CHECK(fault.code == 1);
  CHECK_THAT(fault.errors, Contains("the cores that this process may use"));
}

TEST_CASE("describe states each parameter, typed") {
  const nlohmann::json plugin = json_of("describe int_grouped --json");
  CHECK(plugin["kind"] == "formats");
  CHECK(plugin["name"] == "int_grouped");
  const auto& bits = plugin["parameters"][0];
  CHECK(bits["name"] == "bits");
  CHECK(bits["type"] == "choice");
  CHECK(bits["choices"] == nlohmann::json({"2", "3", "4", "8"}));
  for (const auto& parameter : plugin["parameters"]) {
    if (parameter["type"] == "integer") CHECK(parameter["default"].is_number_integer());
    if (parameter["type"] == "boolean") CHECK(parameter["default"].is_boolean());
    CHECK_FALSE(parameter["doc"].get<std::string>().empty());
  }
  CHECK_THAT(run("describe format/int_grouped").output, Contains("group_size"));
  CHECK_THAT(run("describe formats/int_grouped --markdown").output, Contains("| `group_size` |"));
}

TEST_CASE("the parameter tables of the plugins' READMEs are what describe prints") {
  const std::string command = "python3 " + patchbay::test::source_path("scripts/update_readmes.py") +
                              " --check --program " PATCHBAY_BINARY_DIR "/bin/patchbay";
  CHECK(WEXITSTATUS(std::system(command.c_str())) == 0);
}

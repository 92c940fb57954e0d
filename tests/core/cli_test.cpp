// The program from outside: exit codes, where errors go, the stable keys of --json.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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
  CHECK_THAT(version.output, Contains("patchbay 0.") && Contains("include-") && Contains("\ncore library 0.") && Contains("commit "));
  const Result fault = run("describe no_such_plugin");
  CHECK(fault.code == 1);
  CHECK(fault.output.empty());
  CHECK_THAT(fault.errors, Contains("patchbay: no_such_plugin: unknown plugin"));
  CHECK(std::count(fault.errors.begin(), fault.errors.end(), '\n') == 1);
}

TEST_CASE("what the environment says wrong of the emulator is its fault, and nothing else's; numbers are whole ones") {
  const auto said = [](const char* name, const char* value) {
    const auto result = patchbay::test::run_program({"list"}, {}, {{name, value}});
    CHECK(result.code == 1);
    return result.err;
  };
  for (const char* wrong : {"-1", " 3", "3 ", "0x10", "99999999999999999999999", "backward"})
    CHECK_THAT(said("PATCHBAY_SIMT_SCHEDULE", wrong), Catch::StartsWith("patchbay: environment: PATCHBAY_SIMT_SCHEDULE: '" + std::string(wrong) + "' is no schedule; "));
  for (const char* wrong : {"0", "-1", " 3", "1025", "all"})
    CHECK_THAT(said("PATCHBAY_SIMT_THREADS", wrong), Contains("PATCHBAY_SIMT_THREADS: '" + std::string(wrong) + "' is no number of threads; allowed: 1 to 1024"));
  CHECK(patchbay::test::run_program({"list"}, {}, {{"PATCHBAY_SIMT_SCHEDULE", "18446744073709551615"}, {"PATCHBAY_SIMT_THREADS", "2"}}).code == 0);
}

TEST_CASE("an unknown command is told which there are, and the nearest") {
  const Result near = run("genrate --model x");
  CHECK(near.code == 2);
  CHECK_THAT(near.errors, Contains("patchbay: genrate: unknown command; one of: list, describe,") && Contains("did you mean generate?"));
  CHECK(std::count(near.errors.begin(), near.errors.end(), '\n') == 1);
  CHECK_THAT(run("frobnicate").errors, Contains("unknown command") && !Contains("did you mean"));
  CHECK_THAT(run("").errors, Contains("a command is missing; one of: list,"));
  CHECK_THAT(run("run x.yaml -resume").errors, Contains("patchbay run: -resume: unknown option; did you mean --resume?"));
  CHECK_THAT(run("diff a b c").errors, Contains("patchbay diff: 'c' is one argument too many"));
  CHECK_THAT(run("tokens x --by nl").errors, Contains("--by: 'nl' is none of nll, kl, change; did you mean nll?"));
}

TEST_CASE("a folder of PATCHBAY_PLUGIN_PATH that is not there shows in every list") {
  ::setenv("PATCHBAY_PLUGIN_PATH", "/no/such/folder", 1);
  for (const char* command : {"list", "list quantizers", "list kv_store"}) CHECK_THAT(run(command).output, Contains("/no/such/folder"));
  CHECK(json_of("list decoders --json")["refused"].size() == 1);
  ::unsetenv("PATCHBAY_PLUGIN_PATH");
  CHECK(json_of("list decoders --json")["refused"].empty());
}

TEST_CASE("plugins of another build of core are one line of list, and one each when asked for") {
  ::setenv("PATCHBAY_PLUGIN_PATH", PATCHBAY_BINARY_DIR "/lib/patchbay/test_plugins", 1);
  const std::string brief = run("list").output, all = run("list --verbose").output;
  CHECK_THAT(brief, Contains("refused: 3 plugins were built for another core than this program's; rebuild all: cmake --build") && !Contains("bad_abi.so"));
  CHECK_THAT(brief, Contains("bad_text.so"));  // another fault is told by itself
  CHECK_THAT(all, Contains("bad_abi.so") && Contains("bad_build_id.so") && !Contains("3 plugins were built"));
  CHECK(json_of("list --json")["refused"].size() > 3);
  ::unsetenv("PATCHBAY_PLUGIN_PATH");
}

TEST_CASE("numbers are refused where the parser would bend them") {
  for (const char* bad : {"--seed -1", "--seed 18446744073709551616", "--max-tokens 99999999999999999999", "--max-tokens 1.5",
                          "--tokens ''", "--tokens 1,x", "--threads 1025"}) {
    INFO(bad);
    const Result fault = run(std::string("generate --model no_such.gguf ") + bad);
    CHECK(fault.code == 2);
    CHECK_THAT(fault.errors, Contains("--"));
  }
  CHECK_THAT(run("generate --model no_such.gguf --threads abc").errors, Contains("--threads: 'abc' is not a whole number from 0 to 1024"));
  CHECK_THAT(run("generate --model no_such.gguf --tokens 1,2,").errors, Contains("--tokens: '' is not a whole number"));
  CHECK_THAT(run("bisect a b --tolerance -1").errors, Contains("--tolerance: '-1' is no number of 0 or more"));
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
          "weights.format.bits=9");
  CHECK(fault.code == 1);
  CHECK_THAT(fault.errors, Contains("command line: weights.format.bits: 9 is out of range; allowed: 2 to 8"));
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
  CHECK_THAT(run("list kernels").output, Catch::StartsWith("plugin ") && Contains(" kernel ") && Contains(" here "));
  for (const auto& one : json_of("list kernels attention/flash --json")["kernels"]) CHECK(one["technique"] == "flash");
  for (const auto& one : json_of("list kernels cuda --json")["kernels"]) CHECK(one["backend"] == "cuda");
  const std::string floats = run("list kernels formats/fp16").output;
  CHECK(floats.find("cublas") > floats.find("tensor_core"));  // the yardstick is no step of the ladder
  CHECK(floats.find("cublas") > floats.find(" gemv "));
  CHECK_THAT(run("list kernels flahs").errors, Contains("did you mean flash?"));
  CHECK_THAT(run("list formats flash").errors, Contains("one word too many"));
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
  CHECK(bits["type"] == "integer");
  const nlohmann::json importance = json_of("describe scale_search --json")["parameters"][0];
  CHECK(importance["type"] == "choice");
  CHECK(importance["choices"] == nlohmann::json({"none", "calibration"}));
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

TEST_CASE("what a command still needs is said in words, with the command's name") {
  const std::pair<const char*, const char*> cases[] = {
      {"report", "patchbay report: FOLDERS is missing: The result folder or folders, as `run` wrote them; patchbay report --help says more"},
      {"diff", "patchbay diff: A is missing:"},
      {"diff results", "patchbay diff: B is missing:"},
      {"plan", "FILE is missing: The experiment's YAML"},
      {"new formats", "NAME is missing: The plugin's name"},
      {"perplexity --model x", "--text is missing: The text file"},
  };
  for (const auto& [arguments, message] : cases) {
    INFO(arguments);
    const Result fault = run(arguments);
    CHECK(fault.code == 2);
    CHECK_THAT(fault.errors, Contains(message));
    CHECK(std::count(fault.errors.begin(), fault.errors.end(), '\n') == 1);
  }
  CHECK_THAT(run("new nokind x").errors, Contains("unknown kind of plugin; allowed: attention, backends,"));
}

TEST_CASE("an empty name of a file and two forms of output at once are refused") {
  for (const char* arguments : {"run x.yaml --out ''", "plan ''", "report x --csv ''", "report ''", "calibrate --out ''", "tokens x --text ''"}) {
    INFO(arguments);
    const Result fault = run(arguments);
    CHECK(fault.code == 2);
    CHECK_THAT(fault.errors, Contains("is empty; a file's or folder's name"));
  }
  for (const char* arguments : {"report x --json --markdown", "describe rtn --markdown --json"}) {
    INFO(arguments);
    const Result fault = run(arguments);
    CHECK(fault.code == 2);
    CHECK_THAT(fault.errors, Contains("--json excludes --markdown"));
  }
}

TEST_CASE("paths that the system refuses: its reason in words, never those of the C++ library") {
  patchbay::test::TemporaryFolder folder;
  const std::string loop = folder / "loop", file = folder / "file", longest(300, 'x'), beyond(5000, 'y');
  std::filesystem::create_symlink("loop", loop);
  std::ofstream(file) << "text\n";
  const std::vector<std::string> paths = {longest, beyond, loop, file + "/below", folder.path};
  for (const std::string& path : paths) {
    for (const char* command : {"report", "check", "inspect", "plan", "run", "diff a", "tokens", "bisect defaults", "tokenize x --tokenizer", "tokenize --tokenizer x --file",
                                "perplexity --model tiny-shakespeare --text", "generate --model tiny-shakespeare --prompt-file", "new formats x --dir"}) {
      INFO(command << " " << path.substr(0, 400));
      const Result fault = run(std::string(command) + " " + path);
      if (path == folder.path && std::string(command).starts_with("new")) continue;  // that is a good one
      CHECK(fault.code == 1);
      CHECK_THAT(fault.errors, !Contains("filesystem error") && !Contains("std::") && !Contains("basic_"));
      CHECK(fault.errors.size() < 900);
      CHECK(std::count(fault.errors.begin(), fault.errors.end(), '\n') == 1);
    }
  }
  CHECK_THAT(run("report " + longest).errors, Contains("cannot be used: File name too long") && Contains("255 bytes"));
  CHECK_THAT(run("inspect " + loop).errors, Contains("Too many levels of symbolic links") && Contains("circle"));
  CHECK_THAT(run("check " + loop).errors, Contains("circle"));
  CHECK_THAT(run("calibrate --threads 1 --out " + folder.path).errors, Contains("is a folder where a file is to be written"));
  CHECK_THAT(run("new formats x --dir " + file).errors, Contains("a file stands where a folder is needed"));
}

TEST_CASE("calibrate replaces its own files alone") {
  const patchbay::test::TemporaryFolder folder;
  const std::string notes = folder / "notes.json";
  std::ofstream(notes) << "{\"mine\": 1}\n";
  const Result fault = run("calibrate --threads 1 --out " + notes);
  CHECK(fault.code == 1);
  CHECK_THAT(fault.errors, Contains("notes.json: is there already, and is not a calibration of patchbay"));
  CHECK(patchbay::test::read_file(notes) == "{\"mine\": 1}\n");
}

TEST_CASE("new: the steps it prints name a suite that there is; what cannot be written leaves nothing behind") {
  const patchbay::test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "cmake");
  std::ofstream(folder / "cmake/patchbay_add_plugin.cmake") << "\n";  // as in the tree
  for (const auto& kind : std::filesystem::directory_iterator(PATCHBAY_BINARY_DIR "/share/patchbay/templates")) {
    const std::string output = run("new " + kind.path().filename().string() + " of_a_test --dir " + (folder / "plugins")).output;
    const auto at = output.find("test_conformance_");
    INFO(output);
    REQUIRE(at != std::string::npos);
    const std::string suite = output.substr(at + 17, output.find('\n', at) - at - 17);
    CHECK(std::filesystem::exists(patchbay::test::source_path("tests/conformance/" + suite + "_test.cpp")));
    CHECK_THAT(output, Contains("--target patchbay plugins test_conformance_" + suite + "\n") && Contains("bin/test_conformance_" + suite + "\n"));
  }
  const std::string kernels = patchbay::test::read_file(folder / "plugins/formats/of_a_test/of_a_test.cu");  // renamed, with its launcher
  CHECK_THAT(kernels, Contains("void of_a_test_matmul("));
  CHECK_THAT(patchbay::test::read_file(folder / "plugins/formats/of_a_test/CMakeLists.txt"), Contains("GPU of_a_test.cu"));
  const std::string kernel_test = patchbay::test::read_file(folder / "plugins/attention/of_a_test/of_a_test_gpu_test.cpp");
  CHECK_THAT(kernel_test, Contains("gpu_launchers::of_a_test_attention") && Contains("TEST_CASE(\"of_a_test cuda:"));
  const std::string log = folder / "log";
  const std::string limited = "(ulimit -f 0; " PATCHBAY_BINARY_DIR "/bin/patchbay new formats another --dir " + (folder / "elsewhere") + " 2>&1; echo code $?) | cat > " + log;
  CHECK(std::system(limited.c_str()) == 0);
  CHECK_THAT(patchbay::test::read_file(log), Contains("File too large; make room and try again") && Contains("code 1") && !Contains("--resume"));
  CHECK_FALSE(std::filesystem::exists(folder / "elsewhere"));
}

TEST_CASE("a suggestion is one only where it is near") {
  CHECK_THAT(run("describe nope").errors, Contains("unknown plugin; patchbay list shows all") && !Contains("did you mean"));
  CHECK_THAT(run("describe gredy").errors, Contains("did you mean greedy? patchbay list shows all"));
}

TEST_CASE("settings that stop half-way are told what is missing") {
  const std::string generate = "generate --model tiny-shakespeare --prompt x ";
  for (const char* half : {"'kv_store={'", "'kv_store={type: paged'", "'processors=[temperature'"}) {
    INFO(half);
    CHECK_THAT(run(generate + half).errors, Contains("is never closed; allowed: [a, b], {key: value} or \"text\"; close it"));
  }
  CHECK_THAT(run(generate + "'kv_store=\"paged'").errors, Contains("\" is never closed"));
  const auto nameless = run(generate + "weights.format.bits=3").errors;
  CHECK_THAT(nameless, Contains("weights.format.type: missing key: of which format is bits; allowed:") && Contains("int_grouped") && !Contains("q8_0") &&
                           Contains("weights.quantizer=rtn weights.format.type="));
  CHECK_THAT(run(generate + "weights.format.nonsense=3").errors, Contains("no format has nonsense"));
}

TEST_CASE("plan speaks of rounds only where something is timed") {
  const std::string plan = "plan " + patchbay::test::source_path("configs/quickstart_offline.yaml");
  CHECK_THAT(run(plan).output, Contains("timings in 6 rounds; the baseline is measured again"));
  CHECK_THAT(run(plan + " tasks=[perplexity]").output, !Contains("timings"));
  CHECK_THAT(run(plan + " tasks=[memory]").output, !Contains("measured again"));
  CHECK_THAT(run(plan + " sweep.decoder=[greedy] processors=[top_k]").errors, Contains("patchbay: note: run ") && Contains("top_k: no effect, since decoder greedy"));
}

// `patchbay profile` from outside: counts known by hand, pictures, and what it refuses.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

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

void write_file(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A folder with the plugin that runs the kernels on the emulator, so that words of nvcc can stand beside it.
struct PluginFolder {
  patchbay::test::TemporaryFolder folder;
  PluginFolder() {
    std::filesystem::create_directories(folder / "backends");
    for (const std::string& path : patchbay::Registry::instance().paths())
      if (path.ends_with("/backends/simt.so")) std::filesystem::create_symlink(std::filesystem::absolute(path), folder / "backends/simt.so");
  }
  std::string words() const { return folder / "backends/simt.ptxas"; }
  json kernel_of_add(const char* gpu) const {
    const auto result = patchbay::test::run_program({"profile", "backends/simt", "--op", "add", "--tokens", "4", "--cols", "256", "--gpu", gpu, "--json"}, {},
                                                    {{"PATCHBAY_PLUGIN_PATH", folder.path}});
    INFO(result.err);
    REQUIRE(result.code == 0);
    return json::parse(result.out)["cases"][0]["kernels"][0];
  }
};
std::string nvcc() {
  const char* given = std::getenv("CUDA_PATH");
  for (const std::string& folder : {std::string(given ? given : "/usr/local/cuda"), std::string("/usr/local/cuda")})
    if (std::filesystem::exists(folder + "/bin/nvcc")) return folder + "/bin/nvcc";
  return "";
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
  CHECK_THAT(kernels("--op quantize_rows").at(0), Contains("quantize_fast"));
  CHECK(kernels("--op add_rms_norm_quantize").size() == 1);
  CHECK(kernels("--op add_rms_norm_quantize --kernel separate").size() == 2);
  CHECK_THAT(fault_of("backends/simt --op rms_norm --kernel blck"), Contains("kernels.rms_norm: unknown kernel blck; allowed: naive, block, fast"));
  CHECK_THAT(fault_of("backends/cpu --op rms_norm"), Contains("it has none for a GPU"));
}

TEST_CASE("profile: the tiled product, counted by hand") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  // One block of 32 x 32 threads, one tile of 32 columns: each of the 32 warps loads a row of 32 halves of x and one of w, 64 bytes each.
  const json one = json_of("formats/fp16 --kernel tiled --tokens 16 --rows 32 --cols 32")["cases"][0];
  CHECK(one["flops"] == 2 * 16 * 32 * 32);
  CHECK(one["bytes"] == 2 * (32 * 32 + 16 * 32 + 16 * 32));
  REQUIRE(one["kernels"].size() == 1);
  const json& kernel = one["kernels"][0];
  CHECK(kernel["kernel"] == "matmul_tiled<__half, __half>");
  CHECK(kernel["instructions"]["global load"] == 32 * 2);
  CHECK(kernel["instructions"]["barrier"] == 32 * 2);
  CHECK(kernel["instructions"]["shared load"] == 32 * 32 * 2);
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
  CHECK_THAT(norm.output, Contains("rms_norm of (2,64)") && Contains("emulated") && Contains("H200") && Contains("registers: 32 (given)"));
  CHECK_THAT(patchbay::test::read_file(folder / "norm.svg"), Catch::StartsWith("<svg xmlns=") && Contains("lane 31") && Catch::EndsWith("</svg>\n"));
  const Result attention = run("attention/naive --tokens 1 --context 20 --heads 2 --kv-heads 1 --head-size 16 --picture " + (folder / "all.html"));
  INFO(attention.errors);
  REQUIRE(attention.code == 0);
  CHECK_THAT(attention.output, Contains("attention of 1 tokens after 20 in the cache") && Contains("registers: unknown: give --registers"));
  CHECK_THAT(patchbay::test::read_file(folder / "all.html"), Catch::StartsWith("<!DOCTYPE html>") && Contains("sectors of 32 bytes"));
}

TEST_CASE("profile: the steps of a model, and on stderr which step it is at; kernels whose names begin alike differ in the table") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  const std::string arguments = "--model tiny-shakespeare --prompt 2 activations=fp32 --generate ";
  const json profile = json_of(arguments + "1");
  REQUIRE(profile["cases"].size() == 2);
  CHECK(profile["cases"][0]["title"] == "prefill of 2 tokens");
  for (const json& step : profile["cases"]) CHECK(step["kernels"].size() > 3);
  const Result text = run(arguments + "0");
  CHECK_THAT(text.errors, Contains("prefill of 2 tokens") && !Contains("decode"));
  std::set<std::string> kernels, names;
  for (const json& kernel : profile["cases"][0]["kernels"]) kernels.insert(kernel["kernel"]);
  std::istringstream lines(text.output);
  for (std::string line; std::getline(lines, line);)
    if (const auto end = line.find("  "); end != std::string::npos && line.find("us ") != std::string::npos) names.insert(line.substr(0, end));
  CHECK(kernels.size() > 5);
  CHECK(names.size() == kernels.size());
}

TEST_CASE("profile: every operation of a backend, every kernel of the fused ones") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  const std::string fault = fault_of("backends/simt");
  CHECK_THAT(fault, Contains("--op: names the operation of a backend to profile"));
  const std::string list = fault.substr(fault.find("allowed: ") + 9);
  std::size_t count = 0;
  for (std::size_t begin = 0; begin < list.size(); ++count) {
    const std::size_t end = std::min(list.find_first_of(",\n", begin), list.size());
    const std::string op = list.substr(begin, end - begin);
    INFO(op);
    const json one = json_of("backends/simt --op " + op + " --tokens 2")["cases"][0];
    CHECK_THAT(one["title"].get<std::string>(), Contains(op == "matmul_stored" ? "w as stored" : op == "rope_write_kv" ? "write_kv" : op));
    CHECK(one["kernels"].size() == 1);
    CHECK(one["bytes"].get<double>() > 0);
    CHECK((one["flops"].get<double>() > 0) == (op != "take_rows" && op != "write_kv"));
    begin = end + 2;
    if (list[end] == '\n') break;
  }
  CHECK(count >= 14);
  CHECK(json_of("backends/simt --op rope_write_kv --kernel separate --context 3")["cases"][0]["kernels"].size() >= 2);
}

TEST_CASE("profile: operations by formula; several kernels share them by the bytes that they ask for") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  CHECK(json_of("backends/simt --op rms_norm --tokens 4 --cols 64")["cases"][0]["flops"] == 4 * 4 * 64);
  CHECK(json_of("backends/simt --op rope_write_kv --tokens 2 --heads 4 --kv-heads 2 --head-size 16")["cases"][0]["flops"] == 3 * 2 * (4 + 2) * 16);
  const json split = json_of("attention/flash --kernel split_kv --tokens 1 --context 255 --heads 4 --kv-heads 1 --head-size 16")["cases"][0];
  REQUIRE(split["kernels"].size() == 2);
  const double pieces = split["kernels"][0]["at_least_s"]["fp32"], merge = split["kernels"][1]["at_least_s"]["fp32"];
  CHECK(split["flops"] == 4.0 * 256 * 4 * 16);
  CHECK(pieces > 3 * merge);
  CHECK(merge > 0);
}

TEST_CASE("profile: what it says on stderr, so that stdout is the result alone") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  const patchbay::test::TemporaryFolder folder;
  const Result drawn = run("backends/cuda --op add --json --picture " + (folder / "add.svg"));
  CHECK(json::parse(drawn.output).contains("cases"));
  CHECK_THAT(drawn.errors, Contains("add.svg: the costliest request at ") && Contains("add_fast"));
  CHECK_THAT(run("backends/cuda --op add --picture " + (folder / "add.html")).errors, Contains("add.html: the costliest requests of ") && Contains(" lines"));
  CHECK_THAT(fault_of("kv_formats/fp16"), Contains("have no kernel for a GPU, and profile counts those; allowed: formats, attention, backends"));
  CHECK_THAT(run("formats/fp16 --tokens 1 --tokens 2").errors, Contains("--tokens is given 2 times and takes one value"));
  CHECK_THAT(fault_of("formats/fp32 --rows 1048576 --cols 1048576"), Contains("memory") && Contains("smaller --rows, --cols, --tokens"));
}

TEST_CASE("profile: a kernel's registers, as nvcc said them beside the plugin") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  const PluginFolder plugins;
  write_file(plugins.words(),
             "ptxas info    : 0 bytes gmem\n"
             "ptxas info    : Compiling entry function '_ZN8patchbay4cuda38_GLOBAL__N__8f5d8e3f_6_add_cu_8d9e7f6a8add_fastI6__halfS3_Li8EEEvNS0_4RowsIT_EENS4_IKT0_EEl' for 'sm_80'\n"
             "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
             "ptxas info    : Used 40 registers, 424 bytes cmem[0]\n");
  const json a100 = plugins.kernel_of_add("A100");
  INFO(a100["kernel"]);
  CHECK(a100["registers"] == 40);
  CHECK(a100["registers_from"] == "nvcc, sm_80");
  CHECK(plugins.kernel_of_add("L4")["registers_from"] == "nvcc, sm_80");  // code for sm_80 runs on sm_89
  CHECK(plugins.kernel_of_add("H100")["registers"].is_null());            // and not on sm_90
}

TEST_CASE("profile: nvcc's names of kernels are the emulator's") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  PATCHBAY_NEEDS(nvcc(), "nvcc");
  const PluginFolder plugins;
  const std::string sources = patchbay::test::source_path(""), folder = plugins.folder.path;
  const std::string command = "sh " + sources + "/cmake/keep_ptxas.sh " + folder + "/words " + nvcc() + " -std=c++20 -arch=sm_80 -Xptxas -v -DPATCHBAY_GPU=cuda -I" + sources +
                              "/core/include -I" + sources + "/plugins/backends/cuda -c " + sources + "/plugins/backends/cuda/add.cu -o " + folder + "/add.cu.o";
  REQUIRE(std::system(command.c_str()) == 0);
  std::filesystem::rename(folder + "/words/add.cu.o.ptxas", plugins.words());
  const json kernel = plugins.kernel_of_add("A100");
  CHECK(kernel["registers"].get<int>() > 8);
  CHECK(kernel["registers"].get<int>() < 128);
}

TEST_CASE("profile: what ncu measured stands beside") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  const patchbay::test::TemporaryFolder folder;
  const json counted = json_of("backends/simt --op add --tokens 4 --cols 256")["cases"][0]["kernels"][0];
  const auto shape = [&](const char* key) { return "(" + counted[key][0].dump() + ", " + counted[key][1].dump() + ", " + counted[key][2].dump() + ")"; };
  const std::string name = "void patchbay::cuda::<unnamed>::" + counted["kernel"].get<std::string>() + "(T1, T2)";
  // Made by hand in the form of `ncu --csv --page raw`: no GPU measured this.
  const std::string head = "==PROF== Connected to process 1\n\"ID\",\"Kernel Name\",\"Block Size\",\"Grid Size\",\"dram__bytes_read.sum\","
                           "\"gpu__time_duration.sum\",\"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum\",\"launch__registers_per_thread\",\"smsp__inst_executed.sum\"\n"
                           "\"\",\"\",\"\",\"\",\"Kbyte\",\"us\",\"sector\",\"register/thread\",\"inst\"\n";
  const std::string row = "\"0\",\"" + name + "\",\"" + shape("block") + "\",\"" + shape("grid") + "\",\"4.608\",\"2.5\",\"128\",\"24\",\"1,234\"\n";
  write_file(folder / "ncu.csv", head + row + row);
  const std::string profile = "backends/simt --op add --tokens 4 --cols 256 --ncu " + (folder / "ncu.csv");
  const json kernel = json_of(profile)["cases"][0]["kernels"][0];
  CHECK(kernel["registers"] == 24);
  CHECK(kernel["registers_from"] == "ncu");
  CHECK(kernel["ncu"]["dram__bytes_read.sum"]["ncu"].get<double>() == Approx(4608));
  CHECK(kernel["ncu"]["dram__bytes_read.sum"]["emulated"] == 4096);
  CHECK(kernel["ncu"]["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"]["emulated"] == 128);
  CHECK(kernel["ncu"]["smsp__inst_executed.sum"]["ncu"] == 1234);
  CHECK(kernel["ncu"]["smsp__inst_executed.sum"]["emulated"].is_null());
  CHECK(kernel["ncu"]["gpu__time_duration.sum"]["ncu"].get<double>() == Approx(2.5));
  const Result text = run(profile);
  CHECK_THAT(text.output, Contains("global loads: sectors") && Contains("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum") && Contains("registers: 24 (ncu)"));
  // The same as JSON; a kernel that was not measured in this shape has nothing beside it.
  json one = {{"kernel", counted["kernel"]}, {"grid", counted["grid"]}, {"block", counted["block"]}};
  one["metrics"]["dram__bytes_read.sum"] = 4608;
  const json file = {{"gpu", "H100"}, {"kernels", json::array({one})}};
  write_file(folder / "ncu.json", file.dump());
  CHECK(json_of("backends/simt --op add --tokens 4 --cols 256 --ncu " + (folder / "ncu.json"))["cases"][0]["kernels"][0]["ncu"].size() == 1);
  CHECK(!json_of("backends/simt --op add --tokens 8 --cols 512 --ncu " + (folder / "ncu.json"))["cases"][0]["kernels"][0].contains("ncu"));

  write_file(folder / "bad.csv", head + "\"0\",\"k\"\n");
  CHECK_THAT(fault_of("backends/simt --op add --ncu " + (folder / "bad.csv")), Contains("bad.csv:4: has 2 columns, and the first line of the table 9"));
  write_file(folder / "bad.txt", "no table\n");
  CHECK_THAT(fault_of("backends/simt --op add --ncu " + (folder / "bad.txt")), Contains("has no line with the columns \"Kernel Name\""));
  write_file(folder / "bad.json", "{\"kernels\": [{}]}");
  CHECK_THAT(fault_of("backends/simt --op add --ncu " + (folder / "bad.json")), Contains("is no JSON of kernels") && Contains("'kernel' not found"));
  CHECK_THAT(fault_of("backends/simt --op add --ncu " + (folder / "nothing")), Contains("nothing"));
}

TEST_CASE("profile: an option that says nothing of the case, or a kernel that would not run, is an error") {
  PATCHBAY_NEEDS(emulator(), "backend simt");
  CHECK_THAT(fault_of("formats/fp16 --op add"), Contains("--op: says nothing of a weight format; allowed: --kernel, --rows, --cols, --tokens"));
  CHECK_THAT(fault_of("formats/fp16 --heads 8"), Contains("--heads: says nothing of a weight format"));
  CHECK_THAT(fault_of("attention/flash --rows 8"), Contains("--rows: says nothing of an attention; allowed: --kernel, --tokens, --context, --heads, --kv-heads, --head-size"));
  CHECK_THAT(fault_of("backends/simt --op add --heads 8"), Contains("--heads: says nothing of --op add; allowed: --op, --kernel, --tokens, --cols"));
  CHECK_THAT(fault_of("backends/simt --op matmul_stored --kernel naive"), Contains("--kernel: says nothing of --op matmul_stored, which has one kernel"));
  CHECK_THAT(fault_of("--model tiny-shakespeare --rows 8"), Contains("--rows: says nothing of a model's steps; allowed: --prompt, --generate, --threads"));
  CHECK_THAT(fault_of("formats/fp16 --tokens 2 kv_store.format=fp16"), Contains("kv_store"));
  CHECK_THAT(fault_of("backends/simt --op add wrong=1"), Contains("wrong"));
  CHECK_THAT(fault_of("backends/simt --op add checked=false"), Contains("checked: is not profile's to change"));
  CHECK_THAT(fault_of("formats/fp16 --kernel gemv --tokens 8"), Contains("--kernel: gemv is for phase decode, and a step of 8 tokens is prefill: another kernel would run; allowed: --tokens 1 to 4"));
  CHECK_THAT(fault_of("formats/q4_0 --tokens 8 --cols 64 kernel=gemv"), Contains("gemv is for phase decode"));
  CHECK_THAT(fault_of("attention/flash --kernel split_kv --tokens 2"), Contains("split_kv is for phase decode, and a step of 2 tokens is prefill: another kernel would run; allowed: --tokens 1"));
  CHECK_THAT(fault_of("attention/naive --context -5"), Contains("--context: -5 is no count; allowed: 0 to"));
  CHECK_THAT(fault_of("attention/naive --context 16389 --heads 1 --kv-heads 1 --head-size 8"), Contains("--context 16389 --tokens 1: "));
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
  CHECK_THAT(fault_of("processors/top_k"), Contains("have no kernel for a GPU"));
  CHECK_THAT(fault_of("formats/fp16 --line fp16.cu:1"), Contains("give --picture too"));
  CHECK_THAT(fault_of("formats/fp16 --picture x.png"), Contains(".svg or .html"));
  CHECK_THAT(fault_of("formats/fp16 --rows 16 --cols 16 --picture x.svg --line nowhere.cu:1"), Contains("no access at 'nowhere.cu:1'"));
}

// Who may include whom: the rules of docs/architecture.md, read off the #include lines of the tree.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <sstream>
#include <string_view>
#include <vector>

#include "support.h"

namespace fs = std::filesystem;

namespace {

struct Include {
  std::string header;
  bool quoted = false;  ///< "header", else <header>
};

bool starts_with(const std::string& text, std::string_view prefix) { return text.rfind(prefix, 0) == 0; }
bool contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}
std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

/// Layer of each header of core/include/patchbay: a new one has to be placed here.
std::optional<int> layer_of(const std::string& header) {
  static const std::map<std::string, int> layers = {
      {"error.h", 0},         {"gpu.h", 0},       {"half.h", 0},      {"fp8.h", 0},      {"tensor.h", 0},    {"activation.h", 1}, {"attention.h", 1},
      {"backend.h", 1},       {"decoder.h", 1},   {"drafter.h", 1},   {"kv_prefix.h", 1},  {"kv_retention.h", 1},
      {"kv_rows.h", 1},       {"kv_store.h", 1},  {"processor.h", 1}, {"quantizer.h", 1},  {"model_runner.h", 1}, {"statistics.h", 1}, {"transform.h", 1},
      {"weight_format.h", 1}, {"integer_codes.h", 1}, {"block_format.h", 2}, {"build_id.h", 2}, {"float_format.h", 2},
      {"format_kit.h", 2},    {"fp8_kv_format.h", 2},    {"params.h", 2},    {"plugin.h", 2},    {"iq4_levels.h", 0},
      {"six_bit_scales.h", 2}, {"double_quantisation.h", 0}, {"weight_seed.h", 0}, {"level_format.h", 2}, {"super_block_search.h", 2}, {"scale_search.h", 2}, {"eight_bit_scales.h", 2},
      {"group_scaling.h", 2},
      {"super_block_format.h", 2}, {"gpu_device.h", 2}, {"gpu_kv_cache.cuh", 1}, {"gpu_linear.h", 2}, {"rounded_inputs.h", 2}};
  const auto found = layers.find(header);
  return found == layers.end() ? std::nullopt : std::optional<int>(found->second);
}

/// A header of the C++ standard library: <vector>, and no folder or ending.
bool standard(const std::string& header) { return header.find_first_of("/.") == std::string::npos; }

bool is_gpu_header(const std::string& path) { return path == "core/include/patchbay/gpu.h" || starts_with(path, "core/include/patchbay/gpu/"); }

std::string interface_fault(const std::string& path, const Include& include) {
  if (is_gpu_header(path)) {  // layer 0, with CUDA where nvcc compiles it
    static const std::regex allowed("[a-z0-9_]+|math\\.h|dlfcn\\.h|cu(da|blas)[a-z0-9_]*\\.h"), quoted("patchbay/(gpu\\.h|gpu/[a-z0-9_]+\\.(h|cuh)|error\\.h|fp8\\.h|half\\.h|iq4_levels\\.h|tensor\\.h)");
    return std::regex_match(include.header, include.quoted ? quoted : allowed) ? "" : "gpu headers stand on layer 0 and CUDA alone";
  }
  if (!include.quoted) return standard(include.header) ? "" : "core/include stands on the standard library alone";
  if (!starts_with(include.header, "patchbay/")) return "core/include includes only patchbay/*.h";
  const bool gpu = is_gpu_header("core/include/" + include.header);
  const auto own = layer_of(file_name(path)), other = gpu ? std::optional<int>(0) : layer_of(file_name(include.header));
  if (!own || !other) return "this header has no layer yet: give it one in tests/core/layers_test.cpp";
  return *other <= *own ? "" : "arrows go down only: layer " + std::to_string(*own) + " includes layer " + std::to_string(*other);
}

/// The libraries that have one home each, in core/ and everywhere else but the tests.
std::string third_party_fault(const std::string& path, const Include& include) {
  if (starts_with(include.header, "boost/") && path != "core/src/registry.cpp") return "Boost.DLL lives in registry.cpp alone";
  if (starts_with(include.header, "yaml-cpp/") && !std::regex_match(path, std::regex("core/src/config[^/]*\\.cpp")))
    return "yaml-cpp lives in config*.cpp alone";
  if (starts_with(include.header, "CLI/") && path != "core/app/command_line.h" && path != "core/app/usage_errors.h")
    return "CLI11 lives in command_line.h and usage_errors.h alone";
  if (starts_with(include.header, "xtensor") && (path.ends_with(".cu") || path.ends_with(".cuh"))) return "no xtensor in CUDA sources";
  return "";
}

std::string core_fault(const std::string& path, const Include& include, const std::vector<std::string>& files) {
  if (!include.quoted || starts_with(include.header, "patchbay/")) return "";
  const std::string beside = (fs::path(path).parent_path() / include.header).lexically_normal().string();
  if (contains(files, beside) || contains(files, "core/src/" + include.header)) {
    const bool upwards = starts_with(path, "core/src/") && !starts_with(beside, "core/src/");
    return upwards ? "core/src does not include the program" : "";
  }
  return "core includes patchbay/*.h and its own headers only";
}

/// Plugins reach nothing but the interfaces: what they need arrives as parameters or arguments.
std::string plugin_fault(const std::string& path, const Include& include, const std::vector<std::string>& files) {
  if (include.quoted) {
    if (starts_with(include.header, "patchbay/")) return "";
    const bool own = include.header.find('/') == std::string::npos &&
                     contains(files, (fs::path(path).parent_path() / include.header).string());
    // One backend under two names: simt is cuda's sources, run by the emulator.
    const bool twin = starts_with(path, "plugins/backends/simt/") && contains(files, "plugins/backends/cuda/" + include.header);
    return own || twin ? "" : "a plugin includes patchbay/*.h and its own folder only";
  }
  static const std::vector<std::string> refused = {"chrono", "ctime", "filesystem", "fstream"};
  if (contains(refused, include.header)) return "a plugin sees neither the clock nor the file system";
  static const std::regex allowed("[a-z0-9_]+|(xtensor|xtensor-blas|xtl)/.+|[a-z0-9]*intrin\\.h|cpuid\\.h");
  static const std::regex device("sched\\.h|pthread\\.h|sys/mman\\.h|cuda[a-z_]*\\.h");  // threads and memory are a backend's business
  if (starts_with(path, "plugins/backends/") && std::regex_match(include.header, device)) return "";
  return std::regex_match(include.header, allowed) ? "" : "not among the libraries that a plugin may use";
}

/// Why `path` (relative to the root) may not have this include, or "". `files` are all sources of the tree.
std::string fault(const std::string& path, const Include& include, const std::vector<std::string>& files) {
  if (const std::string problem = third_party_fault(path, include); !problem.empty()) return problem;
  if (starts_with(path, "core/include/")) return interface_fault(path, include);
  if (starts_with(path, "core/")) return core_fault(path, include, files);
  if (starts_with(path, "plugins/") && !path.ends_with("_test.cpp")) return plugin_fault(path, include, files);
  return include.quoted && include.header.find("plugins/") != std::string::npos ? "tests reach plugins through the registry" : "";
}

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex pattern("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  std::vector<Include> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (line.find("include") != std::string::npos && std::regex_search(line, match, pattern)) found.push_back({match[2], match[1] == "\""});
  }
  return found;
}

/// Every C++ and CUDA source below core/ and plugins/, relative to the root.
std::vector<std::string> sources() {
  static const std::vector<std::string> endings = {".h", ".cpp", ".cu", ".cuh"};
  std::vector<std::string> files;
  for (const char* folder : {"core", "plugins"})
    for (const auto& entry : fs::recursive_directory_iterator(patchbay::test::source_path(folder)))
      if (entry.is_regular_file() && contains(endings, entry.path().extension().string()))
        files.push_back(fs::relative(entry.path(), PATCHBAY_SOURCE_DIR).string());
  return files;
}

}  // namespace

TEST_CASE("every include goes along an arrow of the design") {
  const auto files = sources();
  REQUIRE(files.size() > 40);
  for (const auto& path : files)
    for (const auto& include : includes_of(patchbay::test::read_file(patchbay::test::source_path(path)))) {
      INFO(path << " includes " << include.header);
      CHECK(fault(path, include, files) == "");
    }
}

TEST_CASE("every header of core/include has a layer") {
  for (const auto& entry : fs::directory_iterator(patchbay::test::source_path("core/include/patchbay"))) {
    if (!entry.is_regular_file()) continue;
    INFO(entry.path().filename().string());
    CHECK(layer_of(entry.path().filename().string()).has_value());
  }
}

TEST_CASE("a plugin's source reads neither the environment nor the clock") {
  static const std::regex forbidden("\\b(getenv|secure_getenv|clock_gettime|gettimeofday|fopen|dlopen|time\\(nullptr\\))");
  for (const auto& path : sources()) {
    if (!starts_with(path, "plugins/") || path.ends_with("_test.cpp")) continue;
    INFO(path);
    CHECK_FALSE(std::regex_search(patchbay::test::read_file(patchbay::test::source_path(path)), forbidden));
  }
}

TEST_CASE("core names quantizers, transforms and formats where docs/decisions/009 says, and nowhere else") {
  static const std::vector<std::string> allowed = {
      "core/src/gguf_types.cpp",          "core/src/safetensors_reader.cpp",     "core/src/quantize/write_gguf.cpp", "core/src/layouts/eight_bits.cpp",
      "core/src/layouts/folded_modules.cpp", "core/src/layouts/folder_layout.cpp", "core/src/layouts/quantization_config.cpp",
      "core/app/quantize.cpp",            "core/app/profile_format.cpp"};
  static const std::vector<std::string> elsewhere = {"fp32", "fp16", "bf16",  // how tensors lie
                                                     "none", "noise"};        // other things of the same name
  std::string names;
  for (const char* kind : {"quantizers", "transforms", "formats"})
    for (const auto& entry : fs::directory_iterator(patchbay::test::source_path(std::string("plugins/") + kind)))
      if (const auto name = entry.path().filename().string(); entry.is_directory() && !contains(elsewhere, name)) names += (names.empty() ? "" : "|") + name;
  REQUIRE(names.find("gptq") != std::string::npos);
  const std::regex literal("\"(" + names + ")\""), comment("//[^\n]*");
  std::vector<std::string> naming;
  for (const auto& path : sources())
    if (starts_with(path, "core/src/") || starts_with(path, "core/app/"))
      if (std::regex_search(std::regex_replace(patchbay::test::read_file(patchbay::test::source_path(path)), comment, ""), literal)) naming.push_back(path);
  for (const auto& path : naming) {
    INFO(path);
    CHECK(contains(allowed, path));
  }
  CHECK(contains(naming, "core/src/gguf_types.cpp"));  // it finds what there is
}

TEST_CASE("an include that breaks the layers is refused") {
  const std::vector<std::string> files = {"core/src/session.h",          "core/src/engine/runner.h", "core/app/commands.h",
                                          "plugins/formats/nf4/nf4.cpp", "plugins/formats/nf4/nf4.h", "plugins/formats/int8/int8.h"};
  struct Case { const char* path; Include include; bool allowed; };
  const std::vector<Case> cases = {
      {"core/include/patchbay/tensor.h", {"vector", false}, true},
      {"core/include/patchbay/tensor.h", {"patchbay/decoder.h", true}, false},
      {"core/include/patchbay/decoder.h", {"patchbay/params.h", true}, false},
      {"core/include/patchbay/plugin.h", {"patchbay/tensor.h", true}, true},
      {"core/include/patchbay/decoder.h", {"xtensor/xarray.hpp", false}, false},
      {"core/include/patchbay/brand_new.h", {"patchbay/tensor.h", true}, false},
      {"core/include/patchbay/decoder.h", {"session.h", true}, false},
      {"core/include/patchbay/gpu/warp.cuh", {"patchbay/gpu.h", true}, true},
      {"core/include/patchbay/gpu/host.h", {"cuda_fp16.h", false}, true},
      {"core/include/patchbay/gpu/host.h", {"patchbay/weight_format.h", true}, false},
      {"core/src/registry.cpp", {"boost/dll.hpp", false}, true},
      {"core/src/session.cpp", {"boost/dll.hpp", false}, false},
      {"core/src/config_events.cpp", {"yaml-cpp/yaml.h", false}, true},
      {"core/src/run_config.cpp", {"yaml-cpp/yaml.h", false}, false},
      {"core/src/session.cpp", {"engine/runner.h", true}, true},
      {"core/src/session.cpp", {"../app/commands.h", true}, false},
      {"core/src/session.cpp", {"../../plugins/formats/nf4/nf4.h", true}, false},
      {"core/app/command_line.h", {"CLI/CLI.hpp", false}, true},
      {"core/app/run.cpp", {"CLI/CLI.hpp", false}, false},
      {"core/app/run.cpp", {"session.h", true}, true},
      {"plugins/formats/nf4/nf4.cpp", {"nf4.h", true}, true},
      {"plugins/formats/nf4/nf4.cpp", {"patchbay/weight_format.h", true}, true},
      {"plugins/formats/nf4/nf4.cpp", {"immintrin.h", false}, true},
      {"plugins/formats/nf4/nf4.cpp", {"xtensor/xmath.hpp", false}, true},
      {"plugins/formats/nf4/nf4.cpp", {"../int8/int8.h", true}, false},
      {"plugins/formats/nf4/nf4.cpp", {"session.h", true}, false},
      {"plugins/formats/nf4/nf4.cpp", {"chrono", false}, false},
      {"plugins/formats/nf4/nf4.cpp", {"fstream", false}, false},
      {"plugins/formats/nf4/nf4.cpp", {"unistd.h", false}, false},
      {"plugins/formats/nf4/nf4.cpp", {"sched.h", false}, false},
      {"plugins/backends/cpu/thread_pool.cpp", {"sched.h", false}, true},
      {"plugins/formats/nf4/nf4.cpp", {"yaml-cpp/yaml.h", false}, false},
      {"plugins/formats/nf4/nf4.cpp", {"boost/dll.hpp", false}, false},
      {"plugins/formats/nf4/nf4.cu", {"xtensor/xmath.hpp", false}, false},
      {"plugins/formats/nf4/nf4_test.cpp", {"catch2/catch.hpp", false}, true},
      {"plugins/formats/nf4/nf4_test.cpp", {"../../plugins/formats/int8/int8.h", true}, false},
  };
  for (const auto& [path, include, allowed] : cases) {
    INFO(path << " includes " << include.header);
    CHECK((fault(path, include, files) == "") == allowed);
  }
}

TEST_CASE("include lines are found as the compiler finds them") {
  const auto found = includes_of("#include <a>\n  #  include \"b/c.h\"  // why\n// #include <no>\nint include;\n");
  REQUIRE(found.size() == 2);
  CHECK((found[0].header == "a" && !found[0].quoted));
  CHECK((found[1].header == "b/c.h" && found[1].quoted));
}

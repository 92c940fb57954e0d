// Parameters read from settings: every way a value can be wrong, and what the message says.
#include "patchbay/params.h"

#include <catch2/catch.hpp>
#include <functional>

#include "config.h"
#include "patchbay/plugin.h"
#include "registry.h"
#include "settings_reader.h"
#include "support.h"

using namespace patchbay;
using Catch::Contains;

namespace {

bool never() { return false; }
constexpr KernelInfo kKernels[] = {
    {"slow", "cpu", "both", "one loop"},
    {"wide", "cpu", "prefill", "eight at a time"},
    {"split", "cpu", "decode", "keys split over threads"},
    {"other", "cpu", "both", "for a machine that does not exist", never},
};

struct Params {
  int bits = 4;
  std::int64_t size = 128;
  double rate = 0.25;
  bool strict = false;
  std::string note = "plain";
  std::string mode = "fast";
  KernelChoice kernel;
  PluginSpec format{"fp16", nullptr};
  void visit(Fields& f) {
    f.choice("bits", bits, {2, 3, 4, 8}, {"width of one code", "bit"});
    f.integer("size", size, -1, 4096, {"weights that share a scale"});
    f.real("rate", rate, 0, 1, {"how fast"});
    f.boolean("strict", strict, {"whether"});
    f.text("note", note, {"free text"});
    f.choice("mode", mode, {"fast", "exact"}, {"which way"});
    f.kernel("kernel", kernel, kKernels, {"which implementation"});
    f.plugin("format", format, "kv_formats", {"how rows are stored"});
  }
};

Params read(const std::string& yaml) {
  const Settings root = parse_yaml("p:" + yaml, "a.yaml");
  Params params;
  read_settings(root.find("p"), "example", [&](Fields& f) { params.visit(f); });
  return params;
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}
std::string refusal(const std::string& yaml) {
  return refusal([&] { read(yaml); });
}

}  // namespace

TEST_CASE("settings change what they name and nothing else") {
  const Params p =
      read(" {bits: 8, size: -1, rate: 1, strict: true, note: hello world, mode: exact, kernel: slow, format: int8}");
  CHECK(p.bits == 8);
  CHECK(p.size == -1);
  CHECK(p.rate == 1.0);
  CHECK(p.strict);
  CHECK(p.note == "hello world");
  CHECK(p.mode == "exact");
  CHECK(p.kernel.prefill == "slow");
  CHECK(p.kernel.decode == "slow");
  CHECK(p.format.type == "int8");
  CHECK(read(" {}").size == 128);
  Params untouched;
  read_settings(nullptr, "example", [&](Fields& f) { untouched.visit(f); });
  CHECK(untouched.bits == 4);
}

TEST_CASE("numbers are those of the core schema") {
  CHECK(read(" {size: 0x2A}").size == 42);
  CHECK(read(" {size: 0o17}").size == 15);
  CHECK(read(" {size: +7}").size == 7);
  CHECK(read(" {size: 007}").size == 7);
  CHECK(read(" {bits: 0x8}").bits == 8);
  CHECK(read(" {rate: .5}").rate == 0.5);
  CHECK(read(" {rate: 5e-1}").rate == 0.5);
  CHECK(read(" {rate: 0x1}").rate == 1.0);
}

TEST_CASE("each wrong value is refused with its place, its fault and what is allowed") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {" {bits: 4.7}", "a.yaml:1: p.bits: 4.7 is not an integer; allowed: 2, 3, 4, 8"},
      {" {bits: four}", "a.yaml:1: p.bits: four is not an integer"},
      {" {bits: 0}", "a.yaml:1: p.bits: 0 is out of range; allowed: 2, 3, 4, 8"},
      {" {bits: 5}", "a.yaml:1: p.bits: 5 is out of range; allowed: 2, 3, 4, 8"},
      {"\n  size: 9999", "a.yaml:2: p.size: 9999 is out of range; allowed: -1 to 4096"},
      {" {size: 99999999999999999999999}", "is out of range"},
      {" {size: -99999999999999999999999}", "is out of range"},
      {" {size: 1_000}", "1_000 is not an integer"},
      {" {size: 1e3}", "1e3 is not an integer"},
      {" {size: \"4\"}", "p.size: \"4\" is text in quotes; allowed: an integer; write it without quotes"},
      {" {size: true}", "true is not an integer"},
      {" {size: }", "p.size: missing value; allowed: an integer"},
      {" {size: ~}", "missing value"},
      {" {size: [4]}", "p.size: a list where one value is expected"},
      {" {size: {a: 4}}", "p.size: a map where one value is expected"},
      {" {rate: .nan}", "p.rate: .nan is not finite; allowed: 0 to 1"},
      {" {rate: -.inf}", "-.inf is not finite"},
      {" {rate: nan}", "nan is not a number"},
      {" {rate: 1e999}", "1e999 is out of range"},
      {" {rate: 1.5}", "1.5 is out of range; allowed: 0 to 1"},
      {" {rate: 0x2}", "0x2 is out of range"},
      {" {rate: \"0.5\"}", "write it without quotes"},
      {" {rate: 0.5x}", "0.5x is not a number"},
      {" {strict: yes}", "p.strict: yes is not a boolean; allowed: true, false"},
      {" {strict: no}", "no is not a boolean"},
      {" {strict: 1}", "1 is not a boolean"},
      {" {strict: True}", "True is not a boolean"},
      {" {strict: \"true\"}", "write it without quotes"},
      {" {note: no}", "p.note: no could be a boolean where text is expected; put it in quotes if this text is meant"},
      {" {note: Off}", "could be a boolean"},
      {" {note: true}", "could be a boolean"},
      {" {note: }", "missing value"},
      {" {mode: fats}", "p.mode: unknown value fats; allowed: fast, exact; did you mean fast?"},
      {" {mode: FAST}", "did you mean fast?"},
      {" {mode: 3}", "unknown value 3"},
      {" {siez: 3}",
       "a.yaml:1: p.siez: unknown parameter; allowed: bits, size, rate, strict, note, mode, kernel, format; did you mean size?"},
      {" {zzzzzz: 3}", "p.zzzzzz: unknown parameter; allowed: bits, size"},
      {" [bits, 4]", "a.yaml:1: p: a list where a map is expected"},
      {" 4", "one value where a map is expected"},
      {"", "missing value"},
  };
  for (const auto& [yaml, expected] : cases) {
    INFO(yaml);
    CHECK_THAT(refusal(yaml), Contains(expected));
  }
  CHECK(read(" {note: \"no\"}").note == "no");
  CHECK(read(" {note: \"\"}").note.empty());
  CHECK(read(" {note: 42}").note == "42");
}

TEST_CASE("kernels are named alone or by phase") {
  const Params both = read(" {kernel: {prefill: wide, decode: split}}");
  CHECK(both.kernel.prefill == "wide");
  CHECK(both.kernel.decode == "split");
  CHECK(read(" {kernel: wide}").kernel.decode.empty());  // decode stays open to the best
  CHECK_THAT(refusal(" {kernel: {prefill: split}}"),
             Contains("p.kernel.prefill: unknown prefill kernel split; allowed: slow, wide"));
  CHECK_THAT(refusal(" {kernel: wid}"),
             Contains("unknown kernel wid; allowed: slow, wide, split; did you mean wide?"));
  CHECK_THAT(refusal(" {kernel: other}"), Contains("kernel other cannot run on this machine"));
  CHECK_THAT(refusal(" {kernel: {prefil: slow}}"),
             Contains("p.kernel.prefil: unknown parameter") && Contains("did you mean prefill?"));
  CHECK(pick_kernel("", kKernels, "example", "prefill").name == "wide");
  CHECK(pick_kernel("", kKernels, "example", "decode").name == "split");
  CHECK(pick_kernel("slow", kKernels, "example", "decode").name == "slow");
  CHECK_THAT(refusal([] { pick_kernel("other", kKernels, "example", "decode"); }), Contains("example: kernel other cannot run"));
  constexpr KernelInfo kTwoBackends[] = {{"plain", "cpu", "both", "on the host"}, {"tiled", "cuda", "both", "on a GPU"}};
  CHECK(pick_kernel("", kTwoBackends, "example", "decode").name == "plain");
  CHECK(pick_kernel("", kTwoBackends, "example", "decode", "cuda").name == "tiled");
  CHECK_THAT(refusal([&] { pick_kernel("tiled", kTwoBackends, "example", "decode"); }),
             Contains("kernel tiled is of backend cuda, and what is to run is of backend cpu; allowed: plain"));
  CHECK_THAT(refusal([] { pick_kernel("", std::span(kKernels).last(1), "example", "both"); }),
             Contains("no kernel runs on this machine"));
}

TEST_CASE("an unknown kernel's message names those of the backend that is to run, and only names") {
  constexpr KernelInfo kTwo[] = {{"plain", "cpu", "both", "on the host"}, {"wide", "cpu", "both", "eight at a time"}, {"tiled", "cuda", "both", "tiles"}};
  const Settings value = parse_yaml("kernel: pline\n", "a.yaml");
  const auto message = [&](std::string_view backend) { return refusal([&] { read_kernel(*value.find("kernel"), kTwo, backend); }); };
  CHECK(message("") == "a.yaml:1: kernel: unknown kernel pline; allowed: plain, wide; of cuda: tiled; did you mean plain?");
  CHECK(message("cpu") == "a.yaml:1: kernel: unknown kernel pline; allowed: plain, wide; did you mean plain?");
  CHECK(message("cuda") == "a.yaml:1: kernel: unknown kernel pline; allowed: tiled");
}

TEST_CASE("a group of parameters is a map of its own") {
  const auto values_of = [](const std::string& yaml) {
    const Settings root = parse_yaml("p:" + yaml, "a.yaml");
    std::pair<int, int> values = {1, 2};
    int after = 3;
    read_settings(root.find("p"), "example", [&](Fields& f) {
      f.group("sizes", [&](Fields& group) {
        group.integer("inner", values.first, 0, 9, {"of the group"});
        group.integer("outer", values.second, 0, 9, {"likewise"});
      }, {"sizes"});
      f.integer("after", after, 0, 9, {"outside of it"});
    });
    return std::vector<int>{values.first, values.second, after};
  };
  CHECK(values_of(" {}") == std::vector<int>{1, 2, 3});
  CHECK(values_of(" {sizes: {outer: 7}, after: 8}") == std::vector<int>{1, 7, 8});
  CHECK_THAT(refusal([&] { values_of(" {sizes: {inne: 7}}"); }), Contains("a.yaml:1: p.sizes.inne: unknown parameter; allowed: inner, outer; did you mean inner?"));
  CHECK_THAT(refusal([&] { values_of(" {sizes: {inner: 10}}"); }), Contains("a.yaml:1: p.sizes.inner: 10 is out of range"));
  CHECK_THAT(refusal([&] { values_of(" {sizes: {after: 1}}"); }), Contains("p.sizes.after: unknown parameter"));
  CHECK_THAT(refusal([&] { values_of(" {sizes: 4}"); }), Contains("p.sizes: one value where a map is expected"));
  CHECK_THAT(refusal([&] { values_of(" {size: {}}"); }), Contains("did you mean sizes?"));
}

TEST_CASE("nested plugins: a name, or a map with type, checked where they stand") {
  const Params p = read(" {format: {type: int8}}");
  CHECK(p.format.type == "int8");
  REQUIRE(p.format.settings != nullptr);
  CHECK(p.format.settings->entries.empty());
  CHECK(read(" {format: {bits: 4}}").format.type == "fp16");  // parameters of the default
  CHECK_THAT(refusal(" {format: itn8}"),
             Contains("a.yaml:1: p.format: kv_formats/itn8: unknown plugin") && Contains("did you mean int8?"));
  CHECK_THAT(refusal(" {format: {type: itn8}}"), Contains("a.yaml:1: p.format.type"));
  CHECK_THAT(refusal(" {format: [int8]}"), Contains("a list where one value is expected"));
  CHECK_THAT(refusal(" {format: }"), Contains("missing value"));
  PluginSpec required;
  const auto visit = [&](Fields& f) { f.plugin("format", required, "kv_formats", {"no default"}); };
  CHECK_THAT(refusal([&] { read_settings(nullptr, "example", visit); }),
             Contains("example: format: missing value") && Contains("int8"));
  const Settings untyped = parse_yaml("format: {bits: 4}\n", "a.yaml");
  CHECK_THAT(refusal([&] { read_settings(&untyped, "example", visit); }), Contains("a.yaml:1: format.type: missing key"));
}

TEST_CASE("hostile text in a value or key is shown escaped and short") {
  Settings map;
  map.kind = Settings::Kind::map;
  map.entries.emplace_back("size", plain_settings("\x1b[2J" + std::string(5000, 'x')));
  const std::string message = refusal([&] {
    Params params;
    read_settings(&map, "example", [&](Fields& f) { params.visit(f); });
  });
  CHECK_THAT(message, Contains("example: size: \\x1b[2J") && Contains("... is not an integer"));
  CHECK(message.size() < 200);
  CHECK(printable("größe") == "größe");
}

TEST_CASE("ranges and reals as messages state them") {
  constexpr auto kLow = std::numeric_limits<std::int64_t>::min(), kHigh = std::numeric_limits<std::int64_t>::max();
  CHECK(range_text(std::int64_t{1}, std::int64_t{8}) == "1 to 8");
  CHECK(range_text(std::int64_t{0}, kHigh) == "an integer of at least 0");
  CHECK(range_text(kLow, kHigh) == "any integer");
  CHECK(range_text(0.0, 1e300) == "a number of at least 0");
  CHECK(range_text(0.0, 0.95) == "0 to 0.95");
  CHECK(real_text(1) == "1.0");
  CHECK(real_text(0.1) == "0.1");
  CHECK(real_text(1e-5) == "1e-05");
}

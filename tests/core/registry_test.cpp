// Plugin libraries: found, checked, refused with a reason, made.
#include "registry.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "patchbay/processor.h"
#include "settings_reader.h"
#include "support.h"

using namespace patchbay;
using Catch::Contains;

namespace {

/// The working fixture as a linker leaves it when the disk fills up: whole headers, half of the rest.
void cut_fixture() {
  const std::string folder = PATCHBAY_BINARY_DIR "/lib/patchbay/test_plugins/processors/";
  const std::string whole = test::read_file(folder + "fixture.so");
  std::ofstream(folder + "bad_cut.so", std::ios::binary) << whole.substr(0, whole.size() / 2);
}

// The registry reads the environment and its folders once, at its first use: both must be ready before main.
const bool kPathIsSet = [] {
  cut_fixture();
  setenv("PATCHBAY_PLUGIN_PATH",
         PATCHBAY_BINARY_DIR "/lib/patchbay/test_plugins:/no/such/folder:" PATCHBAY_BINARY_DIR "/lib/patchbay/plugins", 1);
  return true;
}();

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
std::string refusal(const std::string& name, const std::string& kind = "processors") {
  return message_of([&] { Registry::instance().find(kind, name); });
}

Settings map_of(std::vector<std::pair<std::string, Settings>> entries) {
  Settings map;
  map.kind = Settings::Kind::map;
  map.where = "a.yaml:7: base.processor";
  map.entries = std::move(entries);
  return map;
}
PluginSpec fixture(std::vector<std::pair<std::string, Settings>> entries) {
  return {"fixture", std::make_shared<const Settings>(map_of(std::move(entries)))};
}

}  // namespace

TEST_CASE("a plugin is found, described and made") {
  REQUIRE(kPathIsSet);
  const PluginTable& table = Registry::instance().find("processors", "fixture");
  CHECK(std::string(table.name) == "fixture");
  CHECK(std::string(table.build_id) == PATCHBAY_BUILD_ID);
  const auto params = Registry::instance().describe(table);
  REQUIRE(params.size() == 7);
  CHECK(params[0].name == "count");
  CHECK(params[0].default_value == "3");
  CHECK(params[0].range == "1 to 8");
  CHECK(params[0].unit == "token");
  CHECK(params[4].choices == std::vector<std::string>{"fast", "exact"});
  CHECK(params[6].kernels.size() == 3);
  CHECK(make<LogitsProcessor>({"fixture", nullptr}) != nullptr);
}

TEST_CASE("strangers are refused with both sides named") {
  CHECK_THAT(refusal("bad_abi"), Contains("plugin interface 2, this program has 1") && Contains("cmake --build build/release"));
  CHECK_THAT(refusal("bad_build_id"), Contains("other-compiler-1.0") && Contains(PATCHBAY_BUILD_ID) && Contains("cmake --build"));
  CHECK_THAT(refusal("bad_name"), Contains("calls itself processors/another_name") && Contains("processors/bad_name"));
  CHECK_THAT(refusal("bad_kind", "test_kind"), Contains("calls itself processors/bad_kind") && Contains("test_kind/bad_kind"));
  CHECK_THAT(refusal("bad_duplicate"), Contains("declares the parameter count twice"));
}

TEST_CASE("the loader's own message is shown") {
  CHECK_THAT(refusal("bad_no_symbol"), Contains("undefined symbol") && Contains("patchbay_plugin"));
  CHECK_THAT(refusal("bad_undefined"), Contains("undefined symbol") && Contains("patchbay_function_that_nobody_defines"));
  CHECK_THAT(refusal("bad_text"), Contains("invalid ELF header") || Contains("file too short"));
  CHECK_THAT(refusal("bad_empty"), Contains("file too short"));
}

TEST_CASE("a library that was cut short is refused before the loader maps it, which would be the end of the process") {
  CHECK_THAT(refusal("bad_cut"), Contains("is cut short") && Contains("cmake --build"));
}

TEST_CASE("an unknown plugin brings the known names and the nearest") {
  CHECK_THAT(refusal("fixtrue"), Contains("unknown plugin") && Contains("did you mean fixture?") && Contains("bad_abi"));
  CHECK_THAT(refusal("fixture", "procesors"), Contains("no plugin of this kind") && Contains("processors"));
  CHECK_THAT(refusal("../../etc/passwd"), Contains("unknown plugin"));
}

TEST_CASE("refused libraries and missing folders are listed, and names stay in order") {
  const auto refused = Registry::instance().refused();
  const auto has = [&](const std::string& name) {
    return std::any_of(refused.begin(), refused.end(),
                       [&](const RefusedPlugin& one) { return one.name == name && !one.reason.empty(); });
  };
  for (const char* name :
       {"bad_abi", "bad_build_id", "bad_no_symbol", "bad_undefined", "bad_duplicate", "bad_name", "bad_kind", "bad_text"}) {
    CHECK(has(name));
  }
  CHECK_THAT(refused.front().path, Contains("/no/such/folder"));
  const auto names = Registry::instance().names("processors");
  CHECK(std::is_sorted(names.begin(), names.end()));
}

TEST_CASE("references by kind, by singular and by a bare name that is unique") {
  Registry& registry = Registry::instance();
  CHECK(std::string(registry.resolve("processors/fixture").name) == "fixture");
  CHECK(std::string(registry.resolve("processor/fixture").name) == "fixture");
  CHECK(std::string(registry.resolve("logits_processor/fixture").name) == "fixture");
  CHECK_THAT(message_of([&] { registry.resolve("fixture"); }), Contains("processors/fixture") && Contains("test_kind/fixture"));
  CHECK_THAT(message_of([&] { registry.resolve("nothing_like_it"); }), Contains("unknown plugin"));
  CHECK_THAT(message_of([&] { registry.resolve("nonsense/fixture"); }), Contains("unknown kind") && Contains("processors"));
}

TEST_CASE("what a constructor throws becomes an error that names the plugin and its place") {
  const auto make_with = [](const std::string& note) {
    return message_of([&] { make_plugin("processors", fixture({{"note", text_settings(note)}})); });
  };
  CHECK_THAT(make_with("throw"), Contains("a.yaml:7: base.processor") && Contains("processors/fixture") && Contains("gave up"));
  CHECK_THAT(make_with("number"), Contains("processors/fixture") && Contains("no exception"));
  CHECK(make_with("fine") == "no error");
}

TEST_CASE("effective settings hold every value, and rules between parameters are checked without making the plugin") {
  Registry& registry = Registry::instance();
  const Settings all =
      registry.effective("processors", fixture({{"bits", plain_settings("0x8")}, {"rate", plain_settings("1")}}));
  CHECK(all.find("type")->text == "fixture");
  CHECK(all.find("count")->text == "3");
  CHECK(all.find("bits")->text == "8");
  CHECK(all.find("rate")->text == "1.0");
  CHECK(all.find("note")->quoted);
  REQUIRE(all.find("kernel")->kind == Settings::Kind::map);  // the best that runs here, by phase
  CHECK(all.find("kernel")->find("prefill")->text == "wide");
  CHECK(all.find("kernel")->find("decode")->text == "slow");
  const auto strict = fixture({{"strict", plain_settings("true")}, {"count", plain_settings("5")}});
  CHECK(message_of([&] { registry.effective("processors", strict); }) ==
        "a.yaml:7: base.processor: count: 5 or more in strict mode; allowed: 1 to 4; set strict=false");
  CHECK_THAT(message_of([&] { make_plugin("processors", strict); }), Contains("5 or more in strict mode"));
  const auto misspelt = fixture({{"strict", plain_settings("true")}, {"cuont", plain_settings("3")}});
  CHECK(message_of([&] { registry.effective("processors", misspelt); }) ==
        "a.yaml:7: base.processor.cuont: unknown parameter; allowed: count, rate, strict, note, mode, bits, kernel; did you mean "
        "count?");
}

TEST_CASE("the registry may be used from several threads") {
  std::vector<std::thread> threads;
  std::atomic<int> made = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        made += make_plugin("processors", {"fixture", nullptr}) != nullptr;
        Registry::instance().names("processors");
        refusal("bad_abi");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(made == 400);
}

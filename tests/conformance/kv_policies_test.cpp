// Every retention and prefix policy found, at its defaults: victims are slots that exist, and a match leaves a token to compute.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "patchbay/kv_prefix.h"
#include "patchbay/kv_retention.h"
#include "patchbay/plugin.h"
#include "registry.h"

namespace patchbay::test {
namespace {

TEST_CASE("kv retention: victims ascend within the sequence; keep_all has none") {
  const auto names = Registry::instance().names("kv_retention");
  REQUIRE(std::count(names.begin(), names.end(), "keep_all") == 1);
  for (const std::string& name : names) {
    DYNAMIC_SECTION(name) {
      const auto policy = make<KvRetention>(PluginSpec{name, nullptr});
      for (const std::int64_t length : {0, 1, 2, 63, 64, 1000, 10000}) {
        const auto victims = policy->victims(1, length);
        CHECK(std::is_sorted(victims.begin(), victims.end(), std::less_equal<>()));  // strictly
        for (const std::int32_t slot : victims) CHECK((slot >= 0 && slot < length));
        if (name == "keep_all") CHECK(victims.empty());
      }
    }
  }
}

TEST_CASE("kv prefix: a match is a true prefix, shorter than the prompt, of a sequence that was kept") {
  for (const std::string& name : Registry::instance().names("kv_prefix")) {
    DYNAMIC_SECTION(name) {
      const auto policy = make<KvPrefix>(PluginSpec{name, nullptr});
      std::vector<std::int32_t> text(100);
      std::iota(text.begin(), text.end(), 0);
      CHECK(policy->match(text).tokens == 0);  // nothing was donated yet
      const bool kept = policy->donate(3, text);
      for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{16}, std::size_t{99}, text.size()}) {
        const PrefixMatch match = policy->match({text.data(), length});
        CHECK(match.tokens <= std::max<std::int64_t>(0, static_cast<std::int64_t>(length) - 1));
        if (match.tokens > 0) CHECK((kept && match.donor == 3));
        if (name == "none") CHECK((match.tokens == 0 && !kept));
      }
      text[0] = -1;
      CHECK(policy->match(text).tokens == 0);
    }
  }
}

}  // namespace
}  // namespace patchbay::test

// Short forms of the processors' settings: what --temperature and the like come to.
#include "short_forms.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "patchbay/error.h"

using namespace patchbay;
using namespace patchbay::app;
using Strings = std::vector<std::string>;

TEST_CASE("each processor's first parameter has a short form") {
  const std::vector<ShortForm> forms = short_forms();
  const auto has = [&](const std::string& option, const std::string& parameter) {
    return std::any_of(forms.begin(), forms.end(),
                       [&](const ShortForm& form) { return form.option == option && form.parameter == parameter; });
  };
  CHECK(has("--temperature", "value"));
  CHECK(has("--top-k", "k"));
  CHECK(has("--top-p", "p"));
}

TEST_CASE("nothing given changes nothing") { CHECK(with_short_forms({}, {"kv_store=paged"}) == Strings{"kv_store=paged"}); }

TEST_CASE("temperature 0 is greedy decoding without processors") {
  CHECK(with_short_forms({{"--temperature", "0"}}, {}) == Strings{"decoder=greedy"});
  CHECK(with_short_forms({{"--temperature", "0.0"}}, {"decoder=speculative"}) == Strings{"decoder=speculative"});
  CHECK_THROWS_AS(with_short_forms({{"--temperature", "0"}, {"--top-k", "40"}}, {}), Error);
}

TEST_CASE("other values make a list of processors, in order, and a decoder that draws") {
  CHECK(with_short_forms({{"--top-p", "0.9"}, {"--temperature", "0.8"}, {"--top-k", "40"}}, {"kv_store=paged"}) ==
        Strings{"kv_store=paged", "processors=[{type: temperature, value: 0.8}, {type: top_k, k: 40}, {type: top_p, p: 0.9}]",
                "decoder=sampling"});
  CHECK(with_short_forms({{"--top-k", "40"}}, {}) == Strings{"processors=[{type: top_k, k: 40}]", "decoder=sampling"});
}

TEST_CASE("a decoder that the user names stays, and samples when it has to be told") {
  const Strings processors = {"processors=[{type: temperature, value: 1}]"};
  const auto with = [](const Strings& assignments) { return with_short_forms({{"--temperature", "1"}}, assignments); };
  CHECK(with({"decoder=speculative", "decoder.k=3"}).back() == "decoder.accept=sample");
  CHECK(with({"decoder={type: speculative, accept: greedy}"}).back() == processors[0]);
  CHECK(with({"decoder=sampling"}) == Strings{"decoder=sampling", processors[0]});
}

TEST_CASE("contradictions and values that are none are refused") {
  CHECK_THROWS_AS(with_short_forms({{"--temperature", "1"}}, {"processors=[top_k]"}), Error);
  CHECK_THROWS_AS(with_short_forms({{"--temperature", "hot"}}, {}), Error);
  CHECK_THROWS_WITH(with_short_forms({{"--temperature", "-1"}}, {}), Catch::Contains("allowed: 0, which is greedy decoding, or more"));
  CHECK_THROWS_AS(with_short_forms({{"--top-k", "1}, {type: temperature"}}, {}), Error);
}

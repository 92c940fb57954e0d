// One way to name a run: by number, labels, name or hash; what fits several is never guessed at.
#include "experiment/run_reference.h"

#include <catch2/catch.hpp>

#include "support.h"

using namespace patchbay;
using Catch::Contains;

namespace {

NamedRun run(std::int64_t number, const std::string& bits, const std::string& cache, const std::string& hash, bool noise = false) {
  return {number, noise ? "baseline again" : "weights.bits=" + bits + ", kv=" + cache, hash, {{"weights.bits", bits}, {"kv", cache}}, noise};
}

const std::vector<NamedRun> kRuns = {run(1, "none", "fp16", "0123abcd"), run(2, "none", "fp16", "4567abcd", true), run(3, "8", "fp16", "89ab0000"),
                                     run(4, "3", "fp16", "89ab1111"),    run(5, "3", "int8, g64", "cdef0000")};

std::int64_t number_of(const std::string& wanted) { return kRuns[find_run(wanted, kRuns, "results:" + wanted)].number; }
std::string refusal(const std::string& wanted) {
  return test::message_of([&] { number_of(wanted); });
}

}  // namespace

TEST_CASE("a run is named by its number, by labels that only it has, by its name or by the beginning of its hash") {
  CHECK(number_of("5") == 5);
  CHECK(number_of("3") == 3);  // never the label of the fourth and the fifth
  CHECK(number_of("4") == 4);
  CHECK(number_of("weights.bits=8") == 3);
  CHECK(number_of("int8, g64") == 5);  // a label that holds a comma
  CHECK(number_of("3,fp16") == 4);
  CHECK(number_of("fp16, weights.bits=3") == 4);
  CHECK(number_of("weights.bits=3, kv=fp16") == 4);
  CHECK(number_of("none") == 1);  // the baseline, not its second measurement
  CHECK(number_of("2") == 2);
  CHECK(number_of("baseline again") == 2);
  CHECK(number_of("cd") == 5);
  CHECK(number_of("89ab1") == 4);
}

TEST_CASE("what fits several runs lists them, and what fits none lists all") {
  CHECK_THAT(refusal("weights.bits=3"), Contains("2 runs fit; allowed: 4: weights.bits=3, kv=fp16 (89ab1111); 5: ") && !Contains("1: ") &&
                                            Contains("give one of these numbers"));
  CHECK_THAT(refusal("8"), Contains("no run has this number; as a label it is written weights.bits=8; allowed: 1: "));
  CHECK_THAT(refusal("fp16"), Contains("3 runs fit") && !Contains("baseline again"));
  CHECK_THAT(refusal("89ab"), Contains("2 runs fit"));
  CHECK_THAT(refusal("int4"), Contains("no such run; allowed: 1: weights.bits=none, kv=fp16 (0123abcd); 2: baseline again") && Contains("a run's number in `plan`"));
  CHECK_THAT(refusal("6"), Contains("no such run;"));
  CHECK_THAT(refusal(","), Contains("no such run"));
  CHECK_THAT(refusal(""), Contains("no such run"));
}

TEST_CASE("labels of several runs put each run beside the one of them that has the run's other labels") {
  const std::vector<NamedRun> runs = {run(1, "none", "none", "00"), run(2, "4", "fp16", "01"), run(3, "4", "int8", "02"),
                                      run(4, "3", "fp16", "03"),    run(5, "3", "int8", "04"), run(6, "2", "q4, g64", "05")};
  const auto partners = [&](const std::string& wanted) {
    std::string text;
    for (const auto& partner : find_partners(wanted, runs, "results")) text += partner ? std::to_string(runs[*partner].number) : "-";
    return text;
  };
  CHECK(partners("weights.bits=4") == "-2323-");
  CHECK(partners("fp16") == "-2244-");
  CHECK(partners("fp16, weights.bits=3") == "444444");
  CHECK(partners("none") == "111111");
  CHECK(partners("q4, g64") == "666666");
  CHECK(partners("5") == "555555");
  CHECK(partners("04") == "555555");
  CHECK_THAT(test::message_of([&] { partners("0"); }), Contains("no such run"));
  auto twice = runs;
  twice.push_back(run(7, "4", "fp16", "06"));
  CHECK_THAT(test::message_of([&] { find_partners("weights.bits=4", twice, "results"); }), Contains("results: 3 runs fit"));
}

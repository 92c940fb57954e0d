// What is particular to planted outliers: how many, how large, and the same ones wherever the size is the same.
#include <catch2/catch.hpp>

#include "patchbay/transform.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

/// The norm's weights afterwards; they are 1 before.
std::vector<float> planted(const char* count, const char* factor, const char* seed, std::int64_t cols = 64) {
  Matrix w = normal_matrix(8, cols, 1.0f, 1);
  std::vector<float> norm(static_cast<std::size_t>(cols), 1.0f);
  LinearGroup group;
  group.consumers.push_back({"blk.0.ffn_up.weight", w.view(), {}, nullptr});
  group.norm_weight = {norm.data(), {cols}};
  make<Transform>(spec_of("outliers", {{"count", count}, {"factor", factor}, {"seed", seed}}))->apply(group, host_backend().device());
  return norm;
}

}  // namespace

TEST_CASE("outliers: so many channels are larger by so much, drawn by the seed") {
  for (const char* count : {"0", "1", "5"}) {
    const std::vector<float> norm = planted(count, "50", "3");
    REQUIRE(std::count(norm.begin(), norm.end(), 50.0f) == std::atoi(count));
    REQUIRE(std::count(norm.begin(), norm.end(), 1.0f) == 64 - std::atoi(count));
  }
  REQUIRE(planted("5", "50", "3") == planted("5", "50", "3"));
  REQUIRE(planted("5", "50", "3") != planted("5", "50", "4"));
  const std::vector<float> most = planted("15", "50", "3", 16);
  REQUIRE(std::count(most.begin(), most.end(), 1.0f) == 1);
  for (const char* count : {"16", "300"})
    REQUIRE_THAT(message_of([&] { planted(count, "50", "3", 16); }), Catch::Contains("outliers: count: " + std::string(count) + " of 16 channels leave no ordinary one") && Catch::Contains("0 to 15"));
}

// What is particular to planted outliers: how many, how large, and the same ones wherever the size is the same.
#include <catch2/catch.hpp>

#include "patchbay/transform.h"
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
  REQUIRE(planted("1000", "50", "3", 16) == std::vector<float>(16, 50.0f));  // no more than there are
}

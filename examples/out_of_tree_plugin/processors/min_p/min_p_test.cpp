#include <catch2/catch.hpp>
#include <cmath>

#include "patchbay/plugin.h"
#include "patchbay/processor.h"

using namespace patchbay;

TEST_CASE("min_p: what is likely enough stays as it was, the rest can never come") {
  const auto min_p = make<LogitsProcessor>({"min_p", nullptr});  // 0.1: ln(0.1) = -2.303 below the best
  float logits[] = {1.0f, 3.0f, 0.7f, 0.6f};
  min_p->apply({logits, {4}});
  CHECK(logits[0] == 1.0f);
  CHECK(logits[1] == 3.0f);
  CHECK(logits[2] == 0.7f);
  CHECK(std::isinf(logits[3]));
}

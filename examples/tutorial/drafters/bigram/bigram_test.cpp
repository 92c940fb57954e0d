// What is particular to bigram. What every plugin of its kind must do is tested in tests/conformance/.
#include <catch2/catch.hpp>

#include "patchbay/drafter.h"
#include "patchbay/plugin.h"

TEST_CASE("drafters/bigram: is found under its name and made with its defaults") {
  CHECK(patchbay::make<patchbay::Drafter>({"bigram", nullptr}) != nullptr);
}

// What is particular to clip_search. What every plugin of its kind must do is tested in tests/conformance/.
#include <catch2/catch.hpp>

#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

TEST_CASE("quantizers/clip_search: is found under its name and made with its defaults") {
  CHECK(patchbay::make<patchbay::Quantizer>({"clip_search", nullptr}) != nullptr);
}

// What is particular to growing: memory follows the text. What every store must do is tested in tests/conformance/.
#include <catch2/catch.hpp>
#include <vector>

#include "patchbay/kv_rows.h"
#include "patchbay/plugin.h"

using namespace patchbay;

TEST_CASE("kv_stores/growing: room doubles, and nothing is held for a sequence that is empty or closed") {
  const auto backend = make<Backend>({"cpu", nullptr});
  const auto store = make<KvStore>({"growing", nullptr});
  store->configure({.layers = 1, .kv_heads = 1, .head_size = 32, .max_tokens = 100, .max_sequences = 2}, backend->device());
  store->open(0);
  CHECK(store->usage().bytes_reserved == 0);
  REQUIRE(store->grow(0, 16));
  const std::int64_t sixteen = store->usage().bytes_reserved;
  REQUIRE(store->grow(0, 17));
  CHECK(store->usage().bytes_reserved == 2 * sixteen);
  CHECK_FALSE(store->grow(0, 101));
  store->close(0);
  CHECK(store->usage().bytes_reserved == 0);
}

// Every KV store with every format: random histories of open, grow, write, commit, truncate, fork and close against a model that
// keeps plain vectors; and the accounting of paged blocks.
#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "kv_support.h"
#include "patchbay/half.h"
#include "registry.h"

namespace patchbay::test {
namespace {

using TokenRows = std::vector<float>;  // one token's keys and values in all layers: (layers, 2, G, D)

/// What a store should hold of a sequence.
struct ModelSequence {
  std::vector<TokenRows> committed, tentative;
};
using Model = std::map<SeqId, ModelSequence>;

const KvSpec kSpec{.layers = 2, .kv_heads = 2, .head_size = 24, .max_tokens = 40, .max_sequences = 4};
const std::int64_t kHeadsRow = std::int64_t{kSpec.kv_heads} * kSpec.head_size;

/// (G,D) values after a trip through the format.
std::vector<float> rounded(const KvFormat& format, const float* values) {
  std::vector<float> out(kHeadsRow);
  std::vector<std::byte> stored(format.row_bytes(kSpec.head_size));
  for (std::int64_t at = 0; at < kHeadsRow; at += kSpec.head_size) {
    Half scale{};
    format.encode(View<const float, 1>(values + at, {kSpec.head_size}), stored.data(), &scale);
    format.decode(stored.data(), scale, View<float, 1>(out.data() + at, {kSpec.head_size}));
  }
  return out;
}

/// The store's content, through view() and gather(), equals the model's.
void require_equal(KvStore& store, SeqId seq, const ModelSequence& expected) {
  std::vector<TokenRows> tokens = expected.committed;
  tokens.insert(tokens.end(), expected.tentative.begin(), expected.tentative.end());
  const std::int64_t length = static_cast<std::int64_t>(tokens.size());
  REQUIRE(store.length(seq) == static_cast<std::int64_t>(expected.committed.size()));
  for (int layer = 0; layer < kSpec.layers; ++layer) {
    const KvView view = store.view(layer, seq);
    REQUIRE(view.length == length);
    REQUIRE(view.layout == store.format().layout());
    std::int64_t next = 0;
    for (const KvSegment& segment : view.segments) {
      REQUIRE(segment.first == next);
      next += segment.count;
    }
    REQUIRE(next == length);
    std::vector<float> k(length * kHeadsRow), v(length * kHeadsRow);
    const std::array<std::int64_t, 3> shape{length, kSpec.kv_heads, kSpec.head_size};
    gather(view, store.format(), View<float, 3>(k.data(), shape), View<float, 3>(v.data(), shape));
    for (std::int64_t t = 0; t < length; ++t) {
      const float* token = tokens[t].data() + layer * 2 * kHeadsRow;
      const auto keys = rounded(store.format(), token), values = rounded(store.format(), token + kHeadsRow);
      REQUIRE(std::equal(keys.begin(), keys.end(), k.begin() + t * kHeadsRow));
      REQUIRE(std::equal(values.begin(), values.end(), v.begin() + t * kHeadsRow));
    }
  }
}

/// Writes the model's tentative tokens into every layer, as strided (n,G,D) tensors.
void write_tentative(KvStore& store, SeqId seq, const ModelSequence& sequence) {
  const std::int64_t n = static_cast<std::int64_t>(sequence.tentative.size());
  const std::array<std::int64_t, 3> shape{n, kSpec.kv_heads, kSpec.head_size}, strides{2 * kHeadsRow, kSpec.head_size, 1};
  for (int layer = 0; layer < kSpec.layers; ++layer) {
    std::vector<float> both(n * 2 * kHeadsRow);
    for (std::int64_t t = 0; t < n; ++t) {
      const float* token = sequence.tentative[t].data() + layer * 2 * kHeadsRow;
      std::copy(token, token + 2 * kHeadsRow, both.begin() + t * 2 * kHeadsRow);
    }
    store.write(layer, seq, View<float, 3>(both.data(), shape, strides), View<float, 3>(both.data() + kHeadsRow, shape, strides));
  }
}

/// The same random operations on a store and on its model.
class History {
 public:
  /// pool_limited: grow may say no before max_tokens is reached.
  History(const PluginSpec& spec, std::uint32_t seed, bool pool_limited)
      : store_(make<KvStore>(spec)), random_(seed), pool_limited_(pool_limited) {
    store_->configure(kSpec, device_);
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      this->step();
      for (const auto& [seq, sequence] : model_) require_equal(*store_, seq, sequence);
    }
    for (const auto& [seq, sequence] : model_) store_->close(seq);
    REQUIRE(store_->usage().bytes_used == 0);
    REQUIRE(store_->usage().blocks_free == store_->usage().blocks_total);
    REQUIRE(refused_ + commits_ + forks_ > 10);  // the history was worth its name
    if (pool_limited_) REQUIRE(refused_ > 0);
  }

 private:
  void step() {
    const SeqId seq = static_cast<SeqId>(random_() % 6);
    if (!model_.contains(seq)) return begin(seq);
    switch (random_() % 9) {
      case 0:
        return close(seq);
      case 1:
        return truncate(seq);
      case 2:
      case 3:
      case 4:
        return commit(seq);
      default:
        return grow(seq);
    }
  }
  void begin(SeqId seq) {
    if (static_cast<int>(model_.size()) == kSpec.max_sequences) return;
    ModelSequence fresh;
    if (!model_.empty() && random_() % 2) {
      const auto parent = std::next(model_.begin(), random_() % model_.size());
      store_->fork(parent->first, seq);
      fresh.committed = parent->second.committed;
      ++forks_;
    } else {
      store_->open(seq);
    }
    model_[seq] = fresh;
  }
  void close(SeqId seq) {
    if (random_() % 3) return;
    store_->close(seq);
    model_.erase(seq);
  }
  void truncate(SeqId seq) {
    ModelSequence& sequence = model_[seq];
    const std::size_t n = random_() % std::min<std::size_t>(sequence.committed.size() + 1, 12);
    store_->truncate(seq, static_cast<std::int64_t>(n));
    sequence.committed.resize(sequence.committed.size() - n);
    sequence.tentative.clear();
  }
  void commit(SeqId seq) {
    ModelSequence& sequence = model_[seq];
    std::vector<std::int32_t> path;
    const unsigned keep = random_() % 4;  // of 3: none, some, most, all
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(sequence.tentative.size()); ++i) {
      if (random_() % 3 < keep) path.push_back(i);
    }
    store_->commit(seq, path);
    for (const auto index : path) sequence.committed.push_back(sequence.tentative[index]);
    sequence.tentative.clear();
    ++commits_;
  }
  void grow(SeqId seq) {
    ModelSequence& sequence = model_[seq];
    const std::int64_t n = random_() % 4 == 0 ? random_() % 24 : 1 + random_() % 5;
    const bool fits = static_cast<std::int64_t>(sequence.committed.size()) + n <= kSpec.max_tokens;
    const bool grown = store_->grow(seq, n);
    if (!fits || !pool_limited_) REQUIRE(grown == fits);
    refused_ += !grown;
    if (!grown) return;  // require_equal after the step shows that nothing changed
    sequence.tentative.clear();
    for (std::int64_t t = 0; t < n; ++t) sequence.tentative.push_back(random_values(random_, kSpec.layers * 2 * kHeadsRow));
    write_tentative(*store_, seq, sequence);
  }

  std::shared_ptr<KvStore> store_;
  DirtyDevice device_;
  std::mt19937 random_;
  bool pool_limited_;
  Model model_;
  int refused_ = 0, commits_ = 0, forks_ = 0;
};

/// n tokens of `value`, committed.
void append(KvStore& store, SeqId seq, std::int64_t n, float value) {
  REQUIRE(store.grow(seq, n));
  ModelSequence sequence;
  sequence.tentative.assign(n, TokenRows(kSpec.layers * 2 * kHeadsRow, value));
  write_tentative(store, seq, sequence);
  std::vector<std::int32_t> path(n);
  std::iota(path.begin(), path.end(), 0);
  store.commit(seq, path);
}

TEST_CASE("kv stores: random histories equal a model of plain vectors, in every format") {
  for (const std::string& name : Registry::instance().names("kv_stores")) {
    for (const std::string& format : Registry::instance().names("kv_formats")) {
      DYNAMIC_SECTION(name << " " << format) { History(plugin(name, {{"format", scalar(format)}}), 7, false).run(300); }
    }
  }
}

TEST_CASE("kv store paged: every block size, and a pool that is too small") {
  for (const char* size : {"1", "2", "3", "5", "16", "64"}) {
    DYNAMIC_SECTION(size) { History(plugin("paged", {{"block_size", scalar(size)}}), 11, false).run(300); }
  }
  for (const char* blocks : {"3", "9", "14"}) {
    DYNAMIC_SECTION(blocks << " blocks of 4") {
      History(plugin("paged", {{"block_size", scalar("4")}, {"blocks", scalar(blocks)}, {"format", scalar("int8")}}), 13, true)
          .run(500);
    }
  }
}

TEST_CASE("kv stores: usage is exact, and misuse is an error") {
  for (const std::string& name : Registry::instance().names("kv_stores")) {
    for (const std::string& format : Registry::instance().names("kv_formats")) {
      DYNAMIC_SECTION(name << " " << format) {
        const auto store = make<KvStore>(plugin(name, {{"format", scalar(format)}}));
        DirtyDevice device;
        store->configure(kSpec, device);
        const KvLayout layout = store->format().layout();
        const std::int64_t row = kSpec.head_size * bytes_of(layout.dtype) + (layout.scaled ? 2 : 0);
        CHECK(store->usage().bytes_per_token == kSpec.layers * 2 * kSpec.kv_heads * row);
        store->open(1);
        append(*store, 1, 10, 1.0f);
        CHECK(store->usage().bytes_used == 10 * store->usage().bytes_per_token);
        CHECK(store->usage().bytes_reserved >= store->usage().bytes_used);
        store->truncate(1, 3);
        CHECK(store->usage().bytes_used == 7 * store->usage().bytes_per_token);

        std::vector<float> values(2 * kHeadsRow);
        const View<float, 3> two(values.data(), {2, kSpec.kv_heads, kSpec.head_size});
        CHECK(store->grow(1, 1));
        CHECK_THROWS_AS(store->write(0, 1, two, two), Error);
        CHECK_THROWS_AS(store->commit(1, std::vector<std::int32_t>{1}), Error);
        CHECK_THROWS_AS(store->commit(1, std::vector<std::int32_t>{-1}), Error);
        CHECK_THROWS_AS(store->truncate(1, 8), Error);
        CHECK_THROWS_AS(store->open(1), Error);
        CHECK_THROWS_AS(store->fork(1, 1), Error);
        CHECK_THROWS_AS(store->fork(9, 2), Error);
        CHECK_THROWS_AS(store->view(0, 9), Error);
        CHECK_THROWS_AS(store->close(2), Error);  // the fork that failed left nothing behind
        store->close(1);
        for (const SeqId seq : {3, 4, 5, 6}) store->open(seq);  // nor did it take a place
        CHECK(store->usage().bytes_used == 0);
        CHECK(store->usage().blocks_free == store->usage().blocks_total);
      }
    }
  }
}

/// All keys of a view, decoded.
std::vector<float> keys_of(const KvView& view, const KvFormat& format) {
  const std::array<std::int64_t, 3> shape{view.length, kSpec.kv_heads, kSpec.head_size};
  std::vector<float> k(view.length * kHeadsRow), v(view.length * kHeadsRow);
  gather(view, format, View<float, 3>(k.data(), shape), View<float, 3>(v.data(), shape));
  return k;
}

TEST_CASE("kv stores: views of several layers and sequences hold at once, and cost no memory when taken again") {
  for (const std::string& name : Registry::instance().names("kv_stores")) {
    DYNAMIC_SECTION(name) {
      const auto store = make<KvStore>(plugin(name, {{"format", scalar("fp16")}}));
      DirtyDevice device;
      store->configure(kSpec, device);
      for (const SeqId seq : {0, 1}) {
        store->open(seq);
        append(*store, seq, 20 + seq, 1.0f + static_cast<float>(seq));
      }
      const KvView first = store->view(0, 0), second = store->view(1, 0), other = store->view(0, 1);
      CHECK(keys_of(first, store->format()) == std::vector<float>(20 * kHeadsRow, 1.0f));
      CHECK(keys_of(second, store->format()) == std::vector<float>(20 * kHeadsRow, 1.0f));
      CHECK(keys_of(other, store->format()) == std::vector<float>(21 * kHeadsRow, 2.0f));
      append(*store, 0, 1, 1.0f);
      CHECK(store->view(0, 0).segments.data() == first.segments.data());
    }
  }
}

TEST_CASE("kv store paged: blocks are shared by forks, copied when written, counted once") {
  const auto store =
      make<KvStore>(plugin("paged", {{"block_size", scalar("4")}, {"blocks", scalar("6")}, {"format", scalar("fp32")}}));
  DirtyDevice device;
  store->configure(kSpec, device);
  const auto free_blocks = [&] { return store->usage().blocks_free; };
  store->open(0);
  append(*store, 0, 10, 1.0f);  // blocks with 4, 4, 2 tokens
  CHECK(free_blocks() == 3);
  store->fork(0, 1);
  store->fork(0, 2);
  CHECK(free_blocks() == 3);
  CHECK(store->usage().bytes_used == 10 * store->usage().bytes_per_token);
  append(*store, 1, 1, 2.0f);  // copies the half-full tail
  CHECK(free_blocks() == 2);
  CHECK(store->usage().bytes_used == 13 * store->usage().bytes_per_token);
  append(*store, 2, 3, 3.0f);  // copies the tail and takes one more
  CHECK(free_blocks() == 0);
  CHECK(store->grow(0, 2));  // 0 owns its tail alone again: no copy, no block
  CHECK_FALSE(store->grow(0, 3));
  CHECK(store->view(0, 0).length == 12);  // the refused growth left the accepted one
  store->truncate(2, 3);
  CHECK(free_blocks() == 1);
  store->close(0);
  CHECK(free_blocks() == 2);  // its two full blocks are still shared, its tail was its own
  store->close(1);
  CHECK(free_blocks() == 3);
  store->close(2);
  CHECK(free_blocks() == 6);
}

TEST_CASE("kv stores: paged memory comes with use, contiguous takes it all at once") {
  DirtyDevice device;
  const auto contiguous = make<KvStore>(plugin("contiguous", {{"format", scalar("fp16")}}));
  const auto paged = make<KvStore>(plugin("paged", {{"format", scalar("fp16")}}));
  for (KvStore* store : {contiguous.get(), paged.get()}) {
    store->configure(kSpec, device);
    store->open(0);
    append(*store, 0, 17, 1.0f);
  }
  CHECK(contiguous->usage().bytes_reserved == kSpec.max_sequences * kSpec.max_tokens * contiguous->usage().bytes_per_token);
  CHECK(paged->usage().bytes_reserved == 2 * 16 * paged->usage().bytes_per_token);
  CHECK(paged->usage().blocks_total == 4 * 3);  // 40 tokens need 3 blocks of 16
  for (const SeqId seq : {1, 2, 3}) contiguous->open(seq);
  CHECK_THROWS_WITH(contiguous->open(4), Catch::Contains("4 at once"));
}

}  // namespace
}  // namespace patchbay::test

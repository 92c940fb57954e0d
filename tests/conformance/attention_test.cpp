// Every attention found, with each of its kernels: equal to naive; and the same bits whatever the store, the batch, the chunks
// and the threads are.
#include "patchbay/attention.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kv_support.h"
#include "registry.h"
#include "support.h"

namespace patchbay::test {
namespace {

/// One sequence's queries (S,H,D), keys and values (S,G,D).
struct Tokens {
  std::vector<float> q, k, v;
};

/// A step over caches with known contents: sequence s has committed[s] tokens and rows[s] tentative ones.
struct Scene {
  AttentionSpec spec;
  std::string store = "contiguous", format = "fp32", block_size = "16";
  std::vector<std::int64_t> committed, rows;
  std::vector<std::vector<std::uint8_t>> trees;  // empty: causal
  std::vector<Tokens> tokens;                    // empty: random, by seed
  std::uint32_t seed = 1;
  float spread = 1.0f;  // of random queries and keys
};

/// All tokens of sequence s. Random ones depend on seed, s and the token only, not on how they are fed.
Tokens tokens_of(const Scene& scene, std::size_t s) {
  if (!scene.tokens.empty()) return scene.tokens[s];
  const std::int64_t n = scene.committed[s] + scene.rows[s], d = scene.spec.head_size;
  std::mt19937 random(scene.seed * 1000 + static_cast<std::uint32_t>(s));
  Tokens tokens;
  const auto append = [&](std::vector<float>& to, int heads, float spread) {
    const auto values = random_values(random, heads * d, spread);
    to.insert(to.end(), values.begin(), values.end());
  };
  for (std::int64_t t = 0; t < n; ++t) {  // token by token, so that a longer sequence begins like a shorter one
    append(tokens.q, scene.spec.heads, scene.spread);
    append(tokens.k, scene.spec.kv_heads, scene.spread);
    append(tokens.v, scene.spec.kv_heads, 1.0f);
  }
  return tokens;
}

void feed(KvStore& store, SeqId seq, const Scene& scene, const Tokens& tokens, std::int64_t first, std::int64_t n, bool commit) {
  const std::int64_t row = scene.spec.kv_heads * scene.spec.head_size;
  const std::array<std::int64_t, 3> shape{n, scene.spec.kv_heads, scene.spec.head_size};
  REQUIRE(store.grow(seq, n));
  store.write(0, seq, View<const float, 3>(tokens.k.data() + first * row, shape),
              View<const float, 3>(tokens.v.data() + first * row, shape));
  if (!commit) return;
  std::vector<std::int32_t> path(n);
  std::iota(path.begin(), path.end(), 0);
  store.commit(seq, path);
}

/// Runs the scene's step; returns out (T,H,D). The query tensor has a stride between rows, as q in a joint qkv would.
std::vector<float> attend(Attention& attention, const Scene& scene, int threads = 1) {
  DirtyDevice device(threads);
  const auto parameters = scene.store == "paged"
                              ? std::vector<std::pair<std::string, Settings>>{{"format", scalar(scene.format)},
                                                                              {"block_size", scalar(scene.block_size)}}
                              : std::vector<std::pair<std::string, Settings>>{{"format", scalar(scene.format)}};
  const auto store = make<KvStore>(plugin(scene.store, parameters));
  const int sequences = static_cast<int>(scene.committed.size());
  store->configure({.layers = 1,
                    .kv_heads = scene.spec.kv_heads,
                    .head_size = scene.spec.head_size,
                    .max_tokens = 1200,
                    .max_sequences = sequences},
                   device);
  const std::int64_t row = scene.spec.heads * scene.spec.head_size, stride = row + 5;
  std::vector<StepSequence> step;
  std::vector<float> q;
  std::int64_t first_row = 0;
  for (int s = 0; s < sequences; ++s) {
    const Tokens tokens = tokens_of(scene, s);
    store->open(s);
    feed(*store, s, scene, tokens, 0, scene.committed[s], true);
    feed(*store, s, scene, tokens, scene.committed[s], scene.rows[s], false);
    step.push_back(
        {s, first_row, scene.rows[s], scene.committed[s], scene.trees.empty() ? std::vector<std::uint8_t>{} : scene.trees[s]});
    for (std::int64_t t = scene.committed[s]; t < scene.committed[s] + scene.rows[s]; ++t) {
      q.insert(q.end(), tokens.q.begin() + t * row, tokens.q.begin() + (t + 1) * row);
      q.resize(q.size() + 5);
    }
    first_row += scene.rows[s];
  }
  std::vector<KvView> views;
  for (int s = 0; s < sequences; ++s) views.push_back(store->view(0, s));
  std::vector<float> out(first_row * row, std::nanf(""));
  const std::array<std::int64_t, 3> shape{first_row, scene.spec.heads, scene.spec.head_size};
  attention.run(scene.spec, step, views, View<float, 3>(q.data(), shape, {stride, scene.spec.head_size, 1}),
                View<float, 3>(out.data(), shape), device);
  return out;
}

AttentionSpec spec(int heads, int kv_heads, int head_size, std::int64_t window = 0, float soft_cap = 0) {
  return {heads, kv_heads, head_size, 1.0f / std::sqrt(static_cast<float>(head_size)), window, soft_cap};
}

/// Every attention with every kernel that this machine has.
void for_each_attention(const std::function<void(Attention&)>& check) {
  for (const std::string& name : Registry::instance().names("attention")) {
    const PluginTable& table = Registry::instance().find("attention", name);
    std::vector<PluginSpec> variants;
    for (const ParamInfo& parameter : Registry::instance().describe(table)) {
      for (const KernelInfo& kernel : parameter.kernels) {
        if (kernel.backend == "cpu" && (kernel.available == nullptr || kernel.available()))
          variants.push_back(plugin(name, {{parameter.name, scalar(std::string(kernel.name))}}));
      }
    }
    if (variants.empty()) variants.push_back({name, nullptr});
    for (const PluginSpec& variant : variants) {
      const auto attention = make<Attention>(variant);
      DirtyDevice host;
      attention->prepare(host);
      DYNAMIC_SECTION(attention->path()) { check(*attention); }
    }
  }
}

void require_close(const std::vector<float>& a, const std::vector<float>& b, double tolerance = 1e-5) {
  REQUIRE(a.size() == b.size());
  const auto far = [&](float x, float y) { return !(std::fabs(double{x} - y) <= tolerance); };  // a NaN is
  const auto differs = std::mismatch(a.begin(), a.end(), b.begin(), std::not_fn(far));
  INFO("element " << differs.first - a.begin());
  REQUIRE(differs.first == a.end());
}
void require_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  REQUIRE(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// A tree of n drafts: each follows a random earlier one, or the committed tokens.
std::vector<std::uint8_t> random_tree(std::mt19937& random, std::int64_t n) {
  std::vector<std::uint8_t> tree(n * n, 0);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t parent = static_cast<std::int64_t>(random() % (i + 1)) - 1;
    if (parent >= 0) std::copy_n(tree.begin() + parent * n, n, tree.begin() + i * n);
    tree[i * n + i] = 1;
  }
  return tree;
}

TEST_CASE("attention: equals PyTorch's") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/attention/attention.json")));
  for_each_attention([&](Attention& attention) {
    for (const auto& expected : golden["cases"]) {
      INFO(expected["name"].get<std::string>());
      Scene scene;
      scene.spec = spec(expected["heads"], expected["kv_heads"], expected["head_size"], expected["window"], expected["soft_cap"]);
      scene.committed = {expected["committed"]};
      scene.rows = {expected["rows"]};
      scene.trees = {expected["tree"].get<std::vector<std::uint8_t>>()};
      Tokens tokens{test::floats_of_hex(expected["q"]), test::floats_of_hex(expected["k"]), test::floats_of_hex(expected["v"])};
      tokens.q.insert(tokens.q.begin(), scene.committed[0] * scene.spec.heads * scene.spec.head_size, 0.0f);  // long gone
      scene.tokens = {tokens};
      require_close(attend(attention, scene), test::floats_of_hex(expected["out"]), 2e-6);
    }
  });
}

TEST_CASE("attention: equals naive for shapes, ratios, windows, caps, formats and stores") {
  const auto naive = make<Attention>(PluginSpec{"naive", nullptr});
  for_each_attention([&](Attention& attention) {
    std::mt19937 random(3);
    const std::pair<int, int> heads[] = {{4, 4}, {6, 2}, {9, 3}, {5, 1}, {8, 1}, {1, 1}};
    for (const int head_size : {32, 40, 64, 80, 96, 128, 256, 1, 3, 65}) {
      for (const auto& [h, g] : heads) {
        Scene scene;
        scene.spec = spec(h, g, head_size, random() % 2 ? 0 : 1 + random() % 150, random() % 3 ? 0 : 5.0f);
        const char* formats[] = {"fp32", "fp16", "int8"};
        const char* block_sizes[] = {"1", "7", "16", "64", "100"};
        scene.store = random() % 2 ? "paged" : "contiguous";
        scene.format = formats[random() % 3];
        scene.block_size = block_sizes[random() % 5];
        scene.committed = {static_cast<std::int64_t>(random() % 200), 0, static_cast<std::int64_t>(random() % 70)};
        scene.rows = {1 + static_cast<std::int64_t>(random() % 3), 1 + static_cast<std::int64_t>(random() % 80), 1};
        scene.seed = random();
        INFO("H " << h << " G " << g << " D " << head_size << " window " << scene.spec.window << " cap " << scene.spec.soft_cap
                  << " " << scene.store << " " << scene.format << " rows " << scene.rows[1]);
        require_close(attend(attention, scene, 2), attend(*naive, scene));
      }
    }
  });
}

TEST_CASE("attention: trees of drafts see their own branch only") {
  const auto naive = make<Attention>(PluginSpec{"naive", nullptr});
  for_each_attention([&](Attention& attention) {
    std::mt19937 random(4);
    for (int trial = 0; trial < 20; ++trial) {
      Scene scene;
      scene.spec = spec(6, 2, 64, trial % 4 == 3 ? 20 : 0);
      scene.store = trial % 2 ? "paged" : "contiguous";
      scene.committed = {static_cast<std::int64_t>(random() % 130), 60};
      scene.rows = {1 + static_cast<std::int64_t>(random() % 70), 5};
      scene.trees = {random_tree(random, scene.rows[0]), {}};
      require_close(attend(attention, scene), attend(*naive, scene));
    }
    // A chain written as a tree is the causal mask, to the bit.
    Scene chain;
    chain.spec = spec(9, 3, 64);
    chain.committed = {50};
    chain.rows = {40};
    Scene as_tree = chain;
    as_tree.trees = {std::vector<std::uint8_t>(40 * 40)};
    for (int i = 0; i < 40; ++i) std::fill_n(as_tree.trees[0].begin() + i * 40, i + 1, 1);
    require_same_bits(attend(attention, chain), attend(attention, as_tree));
  });
}

TEST_CASE("attention: the same bits from paged and contiguous, alone and in a batch, on 1 and 2 threads") {
  for_each_attention([](Attention& attention) {
    for (const char* format : {"fp32", "fp16", "int8"}) {
      Scene scene;
      scene.spec = spec(9, 3, 64);
      scene.format = format;
      scene.committed = {131, 0, 300, 64, 1};
      scene.rows = {1, 150, 5, 1, 33};
      const auto expected = attend(attention, scene);
      require_same_bits(attend(attention, scene, 2), expected);
      for (const char* block_size : {"1", "5", "16", "64", "200"}) {
        Scene paged = scene;
        paged.store = "paged";
        paged.block_size = block_size;
        require_same_bits(attend(attention, paged), expected);
      }
      Scene first = scene;
      first.committed.resize(1);
      first.rows.resize(1);
      const auto alone = attend(attention, first);
      require_same_bits(alone, {expected.begin(), expected.begin() + alone.size()});
    }
  });
}

TEST_CASE("attention: the same bits from a whole prefill, from chunks and from decoding token by token") {
  for_each_attention([](Attention& attention) {
    for (const std::int64_t window : {std::int64_t{0}, std::int64_t{4}, std::int64_t{100}}) {
      Scene whole;
      whole.spec = spec(6, 2, 80, window);
      whole.format = "fp16";
      whole.committed = {0};
      whole.rows = {200};
      const auto expected = attend(attention, whole);
      for (const std::int64_t chunk : {1, 13, 64, 101}) {
        for (std::int64_t first = 0; first < 200; first += chunk == 1 ? 33 : chunk) {
          Scene part = whole;
          part.committed = {first};
          part.rows = {std::min<std::int64_t>(chunk, 200 - first)};
          const auto out = attend(attention, part);
          const auto begin = expected.begin() + first * 6 * 80;
          require_same_bits(out, {begin, begin + static_cast<std::int64_t>(out.size())});
        }
      }
    }
  });
}

TEST_CASE("attention: a window counts positions along a tree's branch, not slots") {
  for_each_attention([](Attention& attention) {
    for (const std::int64_t committed : {0, 3, 70}) {
      for (const std::int64_t window : {1, 2, 3, 66}) {
        Scene tree;  // rows 0, 2, 4 are one branch; 1 and 3 are another
        tree.spec = spec(4, 2, 16, window);
        tree.committed = {committed};
        tree.rows = {5};
        tree.trees = {{1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}};
        Scene branch = tree;
        branch.trees.clear();
        branch.rows = {3};
        Tokens tokens = tokens_of(tree, 0);
        for (const auto& [list, row] : {std::pair{&tokens.q, 64}, {&tokens.k, 32}, {&tokens.v, 32}}) {
          const auto at = [&](std::int64_t t) { return list->begin() + (committed + t) * row; };
          std::copy(at(2), at(3), at(1));
          std::copy(at(4), at(5), at(2));
          list->erase(at(3), list->end());
        }
        branch.tokens = {tokens};
        const auto rows = attend(attention, tree), alone = attend(attention, branch);
        for (int i = 0; i < 3; ++i) {
          require_close({rows.begin() + 2 * i * 64, rows.begin() + (2 * i + 1) * 64}, {alone.begin() + i * 64, alone.begin() + (i + 1) * 64});
        }
      }
    }
  });
}

TEST_CASE("attention: no NaN from masked rows, huge scores or scores far below zero (A08)") {
  const auto naive = make<Attention>(PluginSpec{"naive", nullptr});
  for_each_attention([&](Attention& attention) {
    Scene blind;  // a tree that forbids even the row itself, over an empty cache: a row that sees nothing
    blind.spec = spec(2, 1, 40);
    blind.committed = {0};
    blind.rows = {2};
    blind.trees = {{0, 0, 0, 1}};
    const auto out = attend(attention, blind);
    for (int i = 0; i < 80; ++i) REQUIRE(out[i] == 0.0f);
    for (int i = 80; i < 160; ++i) REQUIRE(std::isfinite(out[i]));

    Scene scene;
    scene.committed = {70};
    scene.rows = {3};
    for (const float spread : {300.0f, 1e10f, 1e18f}) {  // scores near 1e5, 1e20, and the edge of float
      scene.spec = spec(4, 2, 64);
      scene.spread = spread;
      for (const float value : attend(attention, scene)) REQUIRE(std::isfinite(value));
    }
    scene.spread = 1.0f;
    scene.spec.scale = -6e4f;  // scores of -6e4 and beyond
    require_close(attend(attention, scene), attend(*naive, scene), 0.05);
  });
}

// Fault A04: a window one too wide, or one that rolls one step early. Scores are all equal and values name their token, so that the mean
// tells who was seen.
TEST_CASE("attention: with a window of 4, token i sees exactly tokens i-3 to i, one at a time and in one piece (A04)") {
  constexpr std::int64_t kTokens = 7, kWindow = 4;
  for_each_attention([&](Attention& attention) {
    for (const char* store : {"contiguous", "paged"}) {
      Scene scene;
      scene.spec = spec(2, 1, 8, kWindow);
      scene.store = store;
      scene.block_size = "4";
      Tokens tokens{std::vector<float>(kTokens * 16, 0.0f), std::vector<float>(kTokens * 8, 0.0f), {}};
      for (std::int64_t i = 0; i < kTokens; ++i) tokens.v.insert(tokens.v.end(), 8, static_cast<float>(1 << i));
      scene.tokens = {tokens};
      scene.committed = {0};
      scene.rows = {kTokens};
      const auto whole = attend(attention, scene);
      for (std::int64_t i = 0; i < kTokens; ++i) {
        float sum = 0;
        const std::int64_t first = std::max<std::int64_t>(0, i - kWindow + 1);
        for (std::int64_t j = first; j <= i; ++j) sum += static_cast<float>(1 << j);
        for (int value = 0; value < 16; ++value) REQUIRE(whole[i * 16 + value] == Approx(sum / static_cast<float>(i - first + 1)));
        scene.committed = {i};
        scene.rows = {1};
        require_same_bits(attend(attention, scene), {whole.begin() + i * 16, whole.begin() + (i + 1) * 16});
      }
    }
  });
}

// Fault A07: 0 times what lies in unused cells of the pool, which may be NaN (here all memory is, until it is written).
TEST_CASE("attention: 5 tokens in blocks of 4 over a pool of NaN give finite numbers (A07)") {
  for_each_attention([](Attention& attention) {
    for (const char* format : {"fp32", "fp16", "int8"}) {
      Scene scene;
      scene.spec = spec(2, 1, 8);
      scene.store = "paged";
      scene.block_size = "4";
      scene.format = format;
      for (const std::int64_t rows : {5, 1}) {
        scene.committed = {5 - rows};
        scene.rows = {rows};
        for (const float value : attend(attention, scene)) REQUIRE(std::isfinite(value));
      }
    }
  });
}

/// One row over two slots whose scores are `score` and 0, with values 1 and 0: the result is e^score / (1 + e^score).
float weight_of(Attention& attention, float score, float soft_cap = 0) {
  DirtyDevice device;
  const auto store = make<KvStore>(plugin("contiguous", {{"format", scalar("fp32")}}));
  store->configure({.layers = 1, .kv_heads = 1, .head_size = 1, .max_tokens = 2, .max_sequences = 1}, device);
  store->open(0);
  float keys[] = {score, 0}, values[] = {1, 0}, query = 1, out = 0;
  REQUIRE(store->grow(0, 2));
  store->write(0, 0, View<float, 3>(keys, {2, 1, 1}), View<float, 3>(values, {2, 1, 1}));
  store->commit(0, std::vector<std::int32_t>{0});
  REQUIRE(store->grow(0, 1));
  store->write(0, 0, View<float, 3>(keys + 1, {1, 1, 1}), View<float, 3>(values + 1, {1, 1, 1}));
  const StepSequence step{0, 0, 1, 1, {}};
  const KvView view = store->view(0, 0);
  attention.run({1, 1, 1, 1.0f, 0, soft_cap}, {&step, 1}, {&view, 1}, View<float, 3>(&query, {1, 1, 1}),
                View<float, 3>(&out, {1, 1, 1}), device);
  return out;
}

TEST_CASE("attention: the exponential is right to 1e-6 over its whole range, the soft cap with it") {
  for_each_attention([](Attention& attention) {
    double worst = 0, worst_capped = 0;
    for (double score = -87.0; score <= 0; score += 0.0371) {
      const float s = static_cast<float>(score);
      worst = std::max(worst, std::fabs(weight_of(attention, s) * (1 + std::exp(-double{s})) - 1));
      const double capped = 30 * std::tanh(double{s} / 30);
      worst_capped = std::max(worst_capped, std::fabs(weight_of(attention, s, 30) * (1 + std::exp(-capped)) - 1));
    }
    CHECK(worst < 1e-6);
    CHECK(worst_capped < 2e-5);  // an error of one unit in the last place of a score near 30 is 2e-6 of its exponential
    CHECK(weight_of(attention, -1000.0f) == 0.0f);
    CHECK(weight_of(attention, 0.0f) == 0.5f);
    CHECK(weight_of(attention, std::numeric_limits<float>::infinity()) == 1.0f);  // a score that overflowed
    CHECK(weight_of(attention, -std::numeric_limits<float>::infinity()) == 0.0f);
  });
}

}  // namespace
}  // namespace patchbay::test

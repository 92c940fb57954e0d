// The CUDA kernels of flash on the checked emulator, each under 8 schedules, against attention in double.
#include "flash_gpu.h"

#include <catch2/catch.hpp>

#include "gpu/attention_scene.h"
#include "patchbay/gpu/emulator.h"
#include "support.h"

namespace patchbay::test {
namespace {

constexpr int kSchedules = 8;
const auto kWorld = test_world();

std::vector<float> attend(const std::string& kernel, const StagedAttention& staged, SequenceRows which = {}) {
  gpu::EmulatorOptions options = gpu::emulator_options();
  options.architecture = 89;  // the least shared memory: what runs there runs on all
  const gpu::ScopedOptions scope(options);
  return staged.run([&](const AttentionSpec& spec, const GpuStep& step, int layer, TensorRef q, TensorRef out) {
    // NaN in one launch for all; zeros, as others leave them, where a kernel that took a sequence too many would make numbers of them.
    const std::vector<float> before(split_kv_scratch(spec, step), which.least == SequenceRows{}.least ? NAN : 0.0f);
    const DeviceArray<float> scratch(before);
    const FlashJob job{spec, step, layer, q, out, which, scratch.data()};
    const auto& launcher = kernel == "tiled"   ? gpu_launchers::tiled_attention
                           : kernel == "flash" ? gpu_launchers::flash_attention
                                               : gpu_launchers::split_kv_attention;
    gpu::pick(launcher, kWorld)(job, {});
  });
}
AttentionScene scene_of(const AttentionSpec& spec, DType activations = DType::f16, const KvLayout& layout = {DType::f16, false}) {
  AttentionScene scene;
  scene.spec = spec;
  scene.activations = activations;
  scene.layout = layout;
  return scene;
}
/// What rounding allows: the output to the activations' type; flash rounds keys, values and weights to it, too.
double tolerance(const std::string& kernel, const AttentionScene& scene) {
  return (kernel == "flash" ? 6 : 1) * epsilon_of(scene.activations) + 1e-5;
}
void check(const std::string& kernel, const AttentionScene& scene) {
  INFO(kernel << ": " << describe(scene));
  const StagedAttention staged(scene);
  const auto expected = staged.expected();
  for_each_schedule(kSchedules, [&] { CHECK(difference(attend(kernel, staged), expected) < tolerance(kernel, scene)); });
}
/// Kernels that take the scene.
std::vector<std::string> kernels_for(const AttentionScene& scene) {
  std::vector<std::string> kernels = {"tiled"};
  if (scene.spec.head_size % 8 == 0) kernels.push_back("split_kv");
  if (scene.spec.head_size % 8 == 0 && scene.activations != DType::f32) kernels.push_back("flash");
  return kernels;
}

constexpr KvLayout kLayouts[] = {{DType::f16, false},     {DType::i8, true},    {DType::f8_e4m3, false},
                                 {DType::f8_e5m2, false}, {DType::bf16, false}, {DType::f32, false}};

/// Small, but with a second tile of slots; among its neighbours each layout meets three head sizes, contiguous and paged memory.
void check_layouts(const std::string& kernel) {
  int at = 0;
  for (const KvLayout& layout : kLayouts) {
    int turn = at++;
    for (const DType activations : {DType::f16, DType::bf16, DType::f32}) {
      AttentionScene scene = scene_of(attention_spec(3, 1, std::array{64, 24, 40}[turn % 3]), activations, layout);
      scene.committed = {66, 0};
      scene.rows = {2, 3};
      scene.slab_tokens = turn % 2 ? 7 : 0;
      scene.seed = 1 + turn++;
      const auto kernels = kernels_for(scene);
      if (std::ranges::find(kernels, kernel) != kernels.end()) check(kernel, scene);
    }
  }
}
TEST_CASE("flash cuda: kernel tiled on every layout and activation type, contiguous and paged") { check_layouts("tiled"); }
TEST_CASE("flash cuda: kernel flash on every layout and activation type, contiguous and paged") { check_layouts("flash"); }
TEST_CASE("flash cuda: kernel split_kv on every layout and activation type, contiguous and paged") { check_layouts("split_kv"); }

TEST_CASE("flash cuda: head sizes, ratios of heads, one row and one slot, windows and caps, under every schedule") {
  std::mt19937 random(3);
  const std::pair<int, int> heads[] = {{1, 1}, {3, 1}, {6, 2}, {2, 2}, {8, 1}, {9, 1}};
  int at = 0;
  for (const int size : {64, 80, 96, 128, 256, 40, 8, 5}) {
    const auto& [h, g] = heads[at++ % std::size(heads)];
    AttentionScene scene = scene_of(attention_spec(h, g, size, at % 3 ? 0 : 1 + random() % 90, at % 4 ? 0.0f : 5.0f));
    if (size == 5) scene.activations = DType::f32;
    scene.committed = {0, 129, static_cast<std::int64_t>(random() % 40)};
    scene.rows = {1, 1, 1 + static_cast<std::int64_t>(random() % 5)};
    scene.slab_tokens = at % 2 ? 7 : 0;
    scene.seed = random();
    for (const std::string& kernel : kernels_for(scene)) check(kernel, scene);
  }
}

/// Seven small ones in which every step of a kernel counts: more rows and slots than a tile or piece takes, with tails; scores that are
/// all far below 0, where a maximum that began at 0 would leave no weight; drafts, windows, caps; more heads than a block takes.
std::vector<AttentionScene> small_scenes() {
  AttentionScene tails = scene_of(attention_spec(3, 1, 8));
  tails.committed = {66, 0, 129, 0};
  tails.rows = {1, 22, 1, 1};
  tails.slab_tokens = 8;  // full slabs of 8 x 16 bytes: what lies behind the last row is out of bounds
  AttentionScene below = scene_of(attention_spec(4, 2, 16, 40));
  below.committed = {166};  // of the first 128 slots the first row sees the last alone
  below.rows = {5};
  below.spread = 12;
  below.opposed = true;
  AttentionScene drafts = scene_of(attention_spec(8, 1, 24, 4, 5.0f), DType::f16, {DType::f8_e4m3, false});
  std::mt19937 random(5);
  drafts.committed = {66, 0};
  drafts.rows = {5, 2};
  drafts.trees = {random_tree(random, 5), {0, 0, 0, 1}};  // a row that sees nothing
  AttentionScene wide = scene_of(attention_spec(9, 1, 72), DType::bf16, {DType::i8, true});
  wide.committed = {3};
  wide.rows = {1};
  AttentionScene across = scene_of(attention_spec(3, 1, 8, 64));  // 63 queries, one less than tiles hold; some see all of a tile
  across.committed = {44};                                        // and one slot more: a tile of one
  across.rows = {21};
  across.spread = 2;
  AttentionScene whole = scene_of(attention_spec(32, 1, 64));  // 96 and 64 queries: a whole tile, and a block that has none
  whole.committed = {66, 0};
  whole.rows = {3, 2};
  whole.spread = 6;  // maxima that move far from tile to tile, and differ from query to query
  AttentionScene largest = scene_of(attention_spec(1, 1, 256));  // every lane has all values that it may have
  largest.committed = {2};
  largest.rows = {1};
  return {tails, below, drafts, wide, across, whole, largest};
}
TEST_CASE("flash cuda: kernel tiled on small scenes") {
  for (const AttentionScene& scene : small_scenes()) check("tiled", scene);
}
TEST_CASE("flash cuda: kernel flash on small scenes") {
  for (const AttentionScene& scene : small_scenes()) check("flash", scene);
}
TEST_CASE("flash cuda: kernel split_kv on small scenes") {
  for (const AttentionScene& scene : small_scenes()) check("split_kv", scene);
}

TEST_CASE("flash cuda: many rows of several sequences, with tails of every tile") {
  for (const auto& [h, g] : {std::pair{3, 1}, {2, 2}}) {
    AttentionScene scene = scene_of(attention_spec(h, g, 16, h == 3 ? 50 : 0));
    scene.committed = {63, 0, 128};
    scene.rows = {65, 1, 3};
    scene.slab_tokens = 64;
    for (const std::string& kernel : kernels_for(scene)) check(kernel, scene);
  }
}

TEST_CASE("flash cuda: trees of drafts see their own branch, also through a window; a row that sees nothing gives zeros") {
  std::mt19937 random(4);
  for (const std::int64_t window : {0, 4}) {
    AttentionScene scene = scene_of(attention_spec(6, 2, 64, window));
    scene.committed = {0, 66, 9};
    scene.rows = {2, 9, 1};
    scene.trees = {{0, 0, 0, 1}, random_tree(random, 9), {1}};  // the first row of all is forbidden even itself
    scene.slab_tokens = 16;
    for (const std::string& kernel : kernels_for(scene)) {
      check(kernel, scene);
      const auto out = attend(kernel, StagedAttention(scene));
      CHECK(std::all_of(out.begin(), out.begin() + 6 * 64, [](float value) { return value == 0.0f; }));
    }
  }
}

TEST_CASE("flash cuda: a row gets the same bits alone and in a batch, from contiguous and from paged memory") {
  for (const char* kernel : {"tiled", "flash", "split_kv"}) {
    AttentionScene alone = scene_of(attention_spec(6, 2, 64));
    alone.committed = {150};
    alone.rows = {1};
    AttentionScene batch = alone;
    batch.committed = {150, 5, 300};
    batch.rows = {1, 40, 1};
    const auto expected = attend(kernel, StagedAttention(alone));
    for (const std::int64_t slab_tokens : {0, 16, 5}) {
      batch.slab_tokens = slab_tokens;
      const auto out = attend(kernel, StagedAttention(batch));
      CHECK(std::equal(expected.begin(), expected.end(), out.begin()));
    }
  }
}

TEST_CASE("flash cuda: a launch for some sequences of a step leaves the others alone") {
  for (const char* kernel : {"tiled", "flash", "split_kv"}) {
    AttentionScene scene = scene_of(attention_spec(6, 2, 64));
    scene.committed = {70, 5, 9};
    scene.rows = {1, 4, 1};
    const StagedAttention staged(scene);
    const auto all = attend(kernel, staged), one = attend(kernel, staged, {1, 1}), several = attend(kernel, staged, {2, 100});
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t row = i / (6 * 64);
      const bool alone = row == 0 || row == 5;
      wrong += (alone ? one : several)[i] != all[i] || !std::isnan((alone ? several : one)[i]);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("flash cuda: huge scores stay finite") {
  for (const char* kernel : {"tiled", "flash", "split_kv"}) {
    AttentionScene scene = scene_of(attention_spec(4, 2, 64));
    scene.activations = DType::bf16;
    scene.layout = {DType::bf16, false};
    scene.committed = {70};
    scene.rows = {3};
    for (const float spread : {300.0f, 1e10f, 1e18f}) {
      scene.spread = spread;
      for (const float value : attend(kernel, StagedAttention(scene))) REQUIRE(std::isfinite(value));
    }
  }
}

TEST_CASE("flash cuda: a kernel that cannot take a shape says so") {
  AttentionScene odd = scene_of(attention_spec(2, 1, 20));
  odd.committed = {3};
  odd.rows = {1};
  CHECK(message_of([&] { attend("flash", StagedAttention(odd)); }).find("kernel flash cannot take heads of 20 values") !=
        std::string::npos);
  CHECK(message_of([&] { attend("split_kv", StagedAttention(odd)); }).find("kernel split_kv cannot take heads of 20") !=
        std::string::npos);
  odd.spec.head_size = 264;
  CHECK(message_of([&] { attend("tiled", StagedAttention(odd)); }).find("kernel tiled cannot take heads of 264") !=
        std::string::npos);
  odd.spec.head_size = 64;
  const StagedAttention staged(odd);
  for (const char* kernel : {"flash", "split_kv"}) {
    const auto shifted = [&] {
      staged.run([&](const AttentionSpec& spec, const GpuStep& step, int layer, TensorRef q, TensorRef out) {
        q.strides[0] += 1;
        const FlashJob job{spec, step, layer, q, out, {}, nullptr};
        const auto& launcher =
            kernel == std::string("flash") ? gpu_launchers::flash_attention : gpu_launchers::split_kv_attention;
        gpu::pick(launcher, kWorld)(job, {});
      });
    };
    CHECK(message_of(shifted).find("do not begin at multiples of 16 bytes") != std::string::npos);
  }
  odd.activations = DType::f32;
  CHECK(message_of([&] { attend("flash", StagedAttention(odd)); }).find("activations of type f32") != std::string::npos);
}

}  // namespace
}  // namespace patchbay::test

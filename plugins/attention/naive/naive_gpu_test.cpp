// The CUDA kernel of naive on the checked emulator, under 8 schedules, against attention in double.
#include "naive_gpu.h"

#include <catch2/catch.hpp>

#include "gpu/attention_scene.h"
#include "patchbay/gpu/emulator.h"
#include "support.h"

namespace patchbay::test {
namespace {

void check(const AttentionScene& scene) {
  INFO(describe(scene));
  const StagedAttention staged(scene);
  const auto expected = staged.expected();
  for_each_schedule(8, [&] {
    const auto out = staged.run([](const AttentionSpec& spec, const GpuStep& step, int layer, TensorRef q, TensorRef result) {
      gpu::pick(gpu_launchers::naive_attention, test_world())(spec, step, layer, q, result, {});
    });
    CHECK(difference(out, expected) < epsilon_of(scene.activations) + 1e-5);
  });
}

TEST_CASE("naive cuda: every layout, head size and ratio of heads, windows, caps, contiguous and paged") {
  constexpr KvLayout kLayouts[] = {{DType::f16, false},     {DType::i8, true},    {DType::f8_e4m3, false},
                                   {DType::f8_e5m2, false}, {DType::bf16, false}, {DType::f32, false}};
  const std::pair<int, int> heads[] = {{1, 1}, {3, 1}, {6, 2}, {2, 2}, {8, 1}};
  std::mt19937 random(1);
  int at = 0;
  for (const int size : {64, 80, 128, 1, 5, 256}) {
    AttentionScene scene;
    const auto [h, g] = heads[at % std::size(heads)];
    scene.spec = attention_spec(h, g, size, at % 2 ? 0 : 1 + random() % 90, at % 3 ? 0.0f : 5.0f);
    scene.layout = kLayouts[at % std::size(kLayouts)];
    scene.activations = std::array{DType::f32, DType::f16, DType::bf16}[at % 3];
    scene.committed = {0, 100, 3};
    scene.rows = {1, 1, 4};
    scene.slab_tokens = at % 2 ? 7 : 0;
    scene.seed = random();
    ++at;
    check(scene);
  }
}

TEST_CASE("naive cuda: trees of drafts, also through a window, and a row that sees nothing") {
  std::mt19937 random(2);
  for (const std::int64_t window : {0, 4}) {
    AttentionScene scene;
    scene.spec = attention_spec(4, 2, 32, window);
    scene.committed = {0, 20};
    scene.rows = {2, 9};
    scene.trees = {{0, 0, 0, 1}, random_tree(random, 9)};
    scene.slab_tokens = 16;
    check(scene);
  }
}

TEST_CASE("naive cuda: scores that are all far below 0") {
  AttentionScene scene;
  scene.spec = attention_spec(3, 1, 16);
  scene.committed = {62};  // 64 slots: no room in shared memory for one more
  scene.rows = {2};
  scene.spread = 12;
  scene.opposed = true;
  check(scene);
}

TEST_CASE("naive cuda: a sequence too long for its scores is an error") {
  GpuStep step;
  step.rows = 1;
  step.longest = 32768;
  const auto attend = [&] { gpu::pick(gpu_launchers::naive_attention, fast_world())({}, step, 0, {}, {}, {}); };
  CHECK(message_of(attend).find("cannot take a sequence of 32768 tokens") != std::string::npos);
}

}  // namespace
}  // namespace patchbay::test

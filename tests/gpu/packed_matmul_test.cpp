// Products with packed weights, emulated: GGUF's blocks and integer groups. What the bytes mean is asked of the format's own
// decode().
#include <map>

#include "int_grouped_gpu.h"
#include "matmul_support.h"
#include "patchbay/double_quantisation.h"
#include "patchbay/gpu/level_matmul.h"
#include "support.h"
#include "weight_support.h"

#define PATCHBAY_EACH_BLOCK_FORMAT(apply)                                                                                 \
  apply(q4_0) apply(q4_1) apply(q5_0) apply(q5_1) apply(q8_0) apply(q2_k) apply(q3_k) apply(q4_k) apply(q5_k) apply(q6_k) \
      apply(q8_k) apply(iq4_nl) apply(iq4_xs)

namespace patchbay {
#define PATCHBAY_DECLARE(name) PATCHBAY_GPU_LAUNCHER(void, name##_matmul, (const MatmulArgs&, gpu::Stream))
PATCHBAY_EACH_BLOCK_FORMAT(PATCHBAY_DECLARE)
#undef PATCHBAY_DECLARE
PATCHBAY_GPU_LAUNCHER(void, int_grouped_matmul, (const IntGroupedArgs&, gpu::Stream))
PATCHBAY_GPU_LAUNCHER(void, nf4_matmul, (const LevelMatmulArgs&, gpu::Stream))
PATCHBAY_GPU_LAUNCHER(void, fp4_matmul, (const LevelMatmulArgs&, gpu::Stream))
PATCHBAY_GPU_LAUNCHER(void, int_grouped_gather, (const GatherArgs&, gpu::Stream))
}  // namespace patchbay

using namespace patchbay;
using namespace patchbay::test;

namespace {

using Launch = void (*)(const MatmulArgs&, gpu::Stream);

std::map<std::string, Launch> block_launchers() {
  std::map<std::string, Launch> all;
#define PATCHBAY_ADD(name) all[#name] = gpu::pick(gpu_launchers::name##_matmul, test_world());
  PATCHBAY_EACH_BLOCK_FORMAT(PATCHBAY_ADD)
#undef PATCHBAY_ADD
  return all;
}

constexpr MatmulKernel kKernels[] = {MatmulKernel::naive, MatmulKernel::gemv, MatmulKernel::tensor_core};

/// Normal weights with a few outliers, rounded to the format.
MatmulProblem problem(const WeightFormat& format, int tokens, int rows, int cols, DType x_type) {
  MatmulProblem p(tokens, rows, cols, x_type);
  Matrix w = normal_matrix(rows, cols, 0.05f, 11, 0.01f), decoded(rows, cols);
  for (int r = 0; r < rows; ++r) w.at(r, r * 7 % cols) = r % 2 ? 0.9f : -1.1f;
  const PackedWeight packed = round_to_format(format, w, host_backend().device(), decoded);
  for (const TensorRef& part : packed.parts) {
    const auto* data = static_cast<const std::byte*>(part.data);
    std::int64_t bytes = bytes_of(part.dtype);
    for (int i = 0; i < part.rank; ++i) bytes *= part.shape[i];
    p.parts.emplace_back(data, data + bytes);
  }
  format.decode(packed, 0, decoded.view());
  p.w = decoded.values;
  return p;
}

struct Grouping {
  int bits, group_size, cols;
  bool symmetric;
};

std::shared_ptr<WeightFormat> int_grouped(const Grouping& g) {
  return make<WeightFormat>(spec_of("int_grouped", {{"bits", std::to_string(g.bits)},
                                                    {"group_size", std::to_string(g.group_size)},
                                                    {"symmetric", g.symmetric ? "true" : "false"}}));
}
auto int_launcher(const Grouping& g, gpu::World world = test_world()) {
  return [g, world](const MatmulArgs& args, gpu::Stream stream) {
    gpu::pick(gpu_launchers::int_grouped_matmul, world)({args, g.bits, g.group_size}, stream);
  };
}

struct Levels {
  const char* name;
  int block_size;
  bool nested;
};

std::shared_ptr<WeightFormat> level_format(const Levels& l) {
  return make<WeightFormat>(
      spec_of(l.name, {{"block_size", std::to_string(l.block_size)}, {"double_quantisation", l.nested ? "true" : "false"}}));
}
/// The sixteen levels, as decode() has them, and the 256 of the scales.
std::vector<float> level_tables(const Levels& l) {
  const auto format = level_format({l.name, 16, false});
  const PackedWeight all = format->allocate("w", 1, 16, host_backend().device());
  for (int i = 0; i < 8; ++i) all.parts[0].as<std::uint8_t, 2>()(0, i) = static_cast<std::uint8_t>(2 * i << 4 | (2 * i + 1));
  all.parts[1].as<float, 2>()(0, 0) = 1.0f;
  Matrix levels(1, 16);
  format->decode(all, 0, levels.view());
  levels.values.insert(levels.values.end(), dynamic_map().begin(), dynamic_map().end());
  return levels.values;
}
auto level_launcher(const Levels& l) {
  const auto launch = gpu::pick(l.name == std::string("nf4") ? gpu_launchers::nf4_matmul : gpu_launchers::fp4_matmul, test_world());
  const auto tables = std::make_shared<DeviceArray<float>>(level_tables(l), "levels");
  return [=](const MatmulArgs& args, gpu::Stream stream) { launch({args, tables->data(), l.block_size, l.nested}, stream); };
}
constexpr Levels kLevels[] = {{"nf4", 64, false}, {"nf4", 16, true}, {"fp4", 48, false}, {"fp4", 32, true}};

}  // namespace

TEST_CASE("blocks of every format: all kernels equal decode, then fp64") {
  for (const auto& [name, launch] : block_launchers()) {
    const auto format = make<WeightFormat>({name, nullptr});
    const int cols = format->tile_columns(512) == 32 ? 96 : 512;
    for (MatmulKernel kernel : kKernels)
      for (int tokens : {1, 3, 17}) {
        INFO(name);
        const MatmulProblem p = problem(*format, tokens, 19, cols, tokens == 3 ? DType::bf16 : DType::f16);
        check_matmul(p, kernel, DType::f32, run_matmul(p, kernel, DType::f32, launch));
      }
  }
}

TEST_CASE("blocks of random bytes: every code, scale and minimum") {
  std::mt19937 random(3);
  for (const auto& [name, launch] : block_launchers()) {
    const auto format = make<WeightFormat>({name, nullptr});
    const int cols = static_cast<int>(format->tile_columns(512)), rows = 64;
    MatmulProblem p(1, rows, cols, DType::f16);
    const PackedWeight packed = format->allocate("w", rows, cols, host_backend().device());
    auto* bytes = static_cast<std::byte*>(packed.parts[0].data);
    const std::int64_t row_bytes = packed.parts[0].shape[1];
    for (std::int64_t r = 0; r < rows; ++r) {
      Matrix row(1, cols);
      do {  // until the scales of this row are numbers
        for (std::int64_t i = 0; i < row_bytes; ++i) bytes[r * row_bytes + i] = static_cast<std::byte>(random());
        format->decode(packed, r, row.view());
      } while (!std::all_of(row.values.begin(), row.values.end(), [](float v) { return std::fabs(v) < 1e30f; }));
      p.w.insert(p.w.end(), row.values.begin(), row.values.end());
    }
    p.parts = {Bytes(bytes, bytes + rows * row_bytes)};
    INFO(name);
    for (MatmulKernel kernel : {MatmulKernel::naive, MatmulKernel::gemv})
      check_matmul(p, kernel, DType::f32, run_matmul(p, kernel, DType::f32, launch));
  }
}

TEST_CASE("blocks of every format under eight schedules") {
  for (const auto& [name, launch] : block_launchers()) {
    const auto format = make<WeightFormat>({name, nullptr});
    INFO(name);
    for (const auto& [tokens, rows] : {std::pair{1, 5}, {3, 9}, {17, 5}}) {
      const DType type = tokens == 3 ? DType::bf16 : DType::f16;
      const MatmulProblem p = problem(*format, tokens, rows, 256, type);
      for (MatmulKernel kernel : kKernels)
        for_each_schedule(8, [&] { check_matmul(p, kernel, type, run_matmul(p, kernel, type, launch)); });
    }
  }
}

TEST_CASE("integer groups of every width, with and without zero points") {
  for (int bits : {2, 3, 4, 5, 6, 7, 8})
    for (bool symmetric : {false, true})
      for (MatmulKernel kernel : kKernels) {
        const Grouping g{bits, 48, 144, symmetric};
        const MatmulProblem p = problem(*int_grouped(g), 3, 21, g.cols, DType::f16);
        INFO(bits << " bits" << (symmetric ? ", symmetric" : ""));
        for_each_schedule(8, [&] { check_matmul(p, kernel, DType::f32, run_matmul(p, kernel, DType::f32, int_launcher(g))); });
      }
}

TEST_CASE("columns in another order are gathered, whatever their number") {
  for (int cols : {1, 127, 129, 300})
    for_each_schedule(8, [&] {
      constexpr int kTokens = 3;
      std::vector<std::uint16_t> x(static_cast<std::size_t>(kTokens) * cols);
      std::vector<std::int32_t> order(static_cast<std::size_t>(cols));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(i + 1);
      for (int j = 0; j < cols; ++j) order[j] = cols - 1 - j;
      const DeviceArray<std::uint16_t> from(x, "x"), to(x.size(), "out");
      const DeviceArray<std::int32_t> places(order, "order");
      gpu::pick(gpu_launchers::int_grouped_gather, test_world())({from.data(), places.data(), to.data(), kTokens, cols}, {});
      const std::vector<std::uint16_t> got = to.host();
      for (int t = 0; t < kTokens; ++t)
        for (int j = 0; j < cols; ++j) REQUIRE(got[t * cols + j] == x[t * cols + order[j]]);
    });
}

TEST_CASE("integer groups under eight schedules") {
  const Grouping g{4, 32, 160, false};
  for (MatmulKernel kernel : kKernels)
    for (int tokens : {1, 2, 33})
      for_each_schedule(8, [&] {
        const MatmulProblem p = problem(*int_grouped(g), tokens, 33, g.cols, DType::bf16);
        check_matmul(p, kernel, DType::bf16, run_matmul(p, kernel, DType::bf16, int_launcher(g)));
      });
}

TEST_CASE(
    "integer groups that are no multiple of 16, and a whole row: the naive kernel takes all, the others say what they need") {
  for (const Grouping& g :
       {Grouping{3, 5, 35, false}, Grouping{4, 7, 21, true}, Grouping{2, 33, 33, false}, Grouping{7, 9, 27, false}, Grouping{8, 1, 9, false}}) {
    const MatmulProblem p = problem(*int_grouped(g), 2, 7, g.cols, DType::f16);
    for_each_schedule(8, [&] {
      check_matmul(p, MatmulKernel::naive, DType::f32, run_matmul(p, MatmulKernel::naive, DType::f32, int_launcher(g)));
    });
    CHECK_THROWS_WITH(run_matmul(p, MatmulKernel::gemv, DType::f32, int_launcher(g)),
                      Catch::Contains("these groups have " + std::to_string(g.group_size)));
  }
}

TEST_CASE("a token's result does not depend on the tokens beside it: packed weights") {
  const Grouping g{4, 32, 160, false};
  const MatmulProblem all = problem(*int_grouped(g), 33, 33, g.cols, DType::f16);
  for (MatmulKernel kernel : kKernels) {
    const auto together = run_matmul(all, kernel, DType::f32, int_launcher(g, fast_world()));
    for (int tokens : {1, 2, 16, 17}) {
      const auto alone = run_matmul(all.first(tokens), kernel, DType::f32, int_launcher(g, fast_world()));
      CHECK(std::equal(alone.begin(), alone.end(), together.begin()));
    }
  }
}

TEST_CASE("uneven levels, their scales in floats and doubly quantised, under eight schedules") {
  for (const Levels& l : kLevels) {
    INFO(l.name << " in blocks of " << l.block_size << (l.nested ? ", doubly quantised" : ""));
    const auto launch = level_launcher(l);
    for (const auto& [tokens, rows, cols] : {std::tuple{1, 5, 192}, {3, 259, 96}, {17, 21, 192}}) {  // two second scales of 259 rows
      if (cols % l.block_size != 0) continue;
      const DType type = tokens == 3 ? DType::bf16 : DType::f16;
      const MatmulProblem p = problem(*level_format(l), tokens, rows, cols, type);
      for (MatmulKernel kernel : kKernels)
        for_each_schedule(8, [&] { check_matmul(p, kernel, DType::f32, run_matmul(p, kernel, DType::f32, launch)); });
    }
  }
}

namespace {

/// y(ids,C) of take_rows, y in f32.
template <class Launch>
std::vector<float> taken_rows(const MatmulProblem& p, const std::vector<std::int32_t>& ids, Launch launch) {
  const DeviceArray<std::int32_t> numbers(ids, "ids");
  const DeviceArray<float> y(ids.size() * p.cols, "y");
  std::vector<std::unique_ptr<DeviceArray<std::byte>>> parts;
  MatmulArgs args{MatmulKernel::take_rows, nullptr, p.x_type, {}, y.data(), DType::f32, static_cast<int>(ids.size()), p.rows, p.cols, numbers.data()};
  for (std::size_t i = 0; i < p.parts.size(); ++i) {
    parts.push_back(std::make_unique<DeviceArray<std::byte>>(p.parts[i], "weights"));
    args.parts[i] = parts[i]->data();
  }
  launch(args, gpu::Stream{});
  return y.host();
}
template <class Launch>
void check_taken_rows(const MatmulProblem& p, Launch launch) {
  const std::vector<std::int32_t> ids = {p.rows - 1, 0, 2, 2, p.rows, -1};
  const auto taken = taken_rows(p, ids, launch);
  for (std::size_t t = 0; t < ids.size(); ++t)
    for (int c = 0; c < p.cols; ++c) {
      const float value = taken[t * p.cols + c];
      if (ids[t] < 0 || ids[t] >= p.rows) REQUIRE(std::isnan(value));
      else REQUIRE(value == Approx(p.w[static_cast<std::size_t>(ids[t]) * p.cols + c]).epsilon(1e-6).margin(1e-7));
    }
}

}  // namespace

TEST_CASE("rows of a packed table are what the host decodes; a number that no row has gives NaN") {
  for (const auto& [name, launch] : block_launchers()) {
    INFO(name);
    const auto format = make<WeightFormat>({name, nullptr});
    const MatmulProblem p = problem(*format, 1, 9, format->tile_columns(512) == 32 ? 96 : 512, DType::f16);
    for_each_schedule(8, [&] { check_taken_rows(p, launch); });
  }
  for (const Grouping& g : {Grouping{4, 32, 160, false}, Grouping{3, 48, 144, true}, Grouping{3, 5, 35, false}, Grouping{8, 1, 9, false}}) {
    INFO(g.bits << " bits, groups of " << g.group_size);
    const MatmulProblem p = problem(*int_grouped(g), 1, 7, g.cols, DType::f16);
    for_each_schedule(8, [&] { check_taken_rows(p, int_launcher(g)); });
  }
}

TEST_CASE("rows of a table of uneven levels") {
  for (const Levels& l : kLevels)
    for_each_schedule(4, [&] { check_taken_rows(problem(*level_format(l), 1, 7, 192, DType::f16), level_launcher(l)); });
}

TEST_CASE("packed weights have no tiled kernel") {
  const auto format = make<WeightFormat>({"q8_0", nullptr});
  const MatmulProblem p = problem(*format, 1, 3, 32, DType::f16);
  CHECK_THROWS_WITH(run_matmul(p, MatmulKernel::tiled, DType::f32, block_launchers().at("q8_0")),
                    Catch::Contains("naive, gemv, tensor_core"));
}

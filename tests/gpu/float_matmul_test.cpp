// Products with weights of fp32, fp16 and bf16: every kernel of the ladder, emulated.
#include "matmul_support.h"
#include "patchbay/gpu_linear.h"
#include "support.h"

namespace patchbay {
PATCHBAY_GPU_LAUNCHER(void, fp32_matmul, (const MatmulArgs&, gpu::Stream))
PATCHBAY_GPU_LAUNCHER(void, fp16_matmul, (const MatmulArgs&, gpu::Stream))
PATCHBAY_GPU_LAUNCHER(void, bf16_matmul, (const MatmulArgs&, gpu::Stream))
}  // namespace patchbay

using namespace patchbay;
using namespace patchbay::test;

namespace {

using Launch = void (*)(const MatmulArgs&, gpu::Stream);

Launch launcher_of(DType type, gpu::World world = test_world()) {
  return gpu::pick(type == DType::f32   ? gpu_launchers::fp32_matmul
                   : type == DType::f16 ? gpu_launchers::fp16_matmul
                                        : gpu_launchers::bf16_matmul,
                   world);
}

MatmulProblem problem(int tokens, int rows, int cols, DType x_type, DType w_type) {
  MatmulProblem p(tokens, rows, cols, x_type);
  p.w = normal_numbers(static_cast<std::size_t>(rows) * cols, 5);
  for (float& v : p.w) v = rounded_to(w_type, v);
  p.parts = {stored_as(w_type, p.w)};
  return p;
}

constexpr MatmulKernel kKernels[] = {MatmulKernel::naive, MatmulKernel::tiled, MatmulKernel::vectorised, MatmulKernel::gemv,
                                     MatmulKernel::tensor_core};
constexpr DType kTypes[] = {DType::f32, DType::f16, DType::bf16};

/// A token and a row more than a block of a kernel takes; columns with a tail of its steps.
struct PastOneBlock { int tokens, rows, cols; };
PastOneBlock past_one_block(MatmulKernel kernel) {
  switch (kernel) {
    case MatmulKernel::vectorised: return {65, 65, 40};
    case MatmulKernel::tensor_core: return {65, 129, 40};
    case MatmulKernel::gemv: return {5, 5, 1032};
    default: return {33, 33, 40};
  }
}
/// One token, tails of every tile, columns that fill every tile, a second tile in each direction.
void check_odd_shapes(MatmulKernel kernel) {
  const bool in_packs = kernel == MatmulKernel::vectorised || kernel == MatmulKernel::tensor_core;  // of 8 columns
  for (DType type : kTypes) {
    const DType x_type = type == DType::bf16 ? DType::bf16 : DType::f16;
    const auto [many, rows, cols] = past_one_block(kernel);
    for (const auto& [tokens, r, c] : {std::array{1, 33, 72}, {3, 33, 64}, {17, 1, in_packs ? 8 : 33}, {many, rows, cols}}) {
      const MatmulProblem p = problem(tokens, r, c, x_type, type);
      for_each_schedule(8, [&] { check_matmul(p, kernel, DType::f32, run_matmul(p, kernel, DType::f32, launcher_of(type))); });
    }
  }
  const MatmulProblem wide = problem(17, 130, 136, DType::f16, DType::f16);
  check_matmul(wide, kernel, DType::f32, run_matmul(wide, kernel, DType::f32, launcher_of(DType::f16)));
}

}  // namespace

TEST_CASE("naive equals fp64 on odd shapes") { check_odd_shapes(MatmulKernel::naive); }
TEST_CASE("tiled equals fp64 on odd shapes") { check_odd_shapes(MatmulKernel::tiled); }
TEST_CASE("vectorised equals fp64 on odd shapes") { check_odd_shapes(MatmulKernel::vectorised); }
TEST_CASE("gemv equals fp64 on odd shapes") { check_odd_shapes(MatmulKernel::gemv); }
TEST_CASE("tensor_core equals fp64 on odd shapes") { check_odd_shapes(MatmulKernel::tensor_core); }

TEST_CASE("every pair of types, y in three") {
  for (MatmulKernel kernel : kKernels)
    for (DType w_type : kTypes)
      for (DType x_type : {DType::f16, DType::bf16})
        for (DType y_type : kTypes) {
          const MatmulProblem p = problem(2, 9, 40, x_type, w_type);
          for_each_schedule(8, [&] { check_matmul(p, kernel, y_type, run_matmul(p, kernel, y_type, launcher_of(w_type))); });
        }
}

TEST_CASE("tensor_core stores whole stretches of y where its rows are aligned, and one by one where they are not") {
  for (int tokens : {2, 20})
    for (int rows : {40, 36, 200})
      for (DType y_type : kTypes) {
        const MatmulProblem p = problem(tokens, rows, 40, DType::f16, DType::f16);
        for_each_schedule(8, [&] {
          check_matmul(p, MatmulKernel::tensor_core, y_type, run_matmul(p, MatmulKernel::tensor_core, y_type, launcher_of(DType::f16)));
        });
      }
}

TEST_CASE("more tokens than CUDA has blocks along y") {
  const MatmulProblem p = problem(65537, 1, 8, DType::f16, DType::f16);
  check_matmul(p, MatmulKernel::naive, DType::f32, run_matmul(p, MatmulKernel::naive, DType::f32, launcher_of(DType::f16, fast_world())));
}

TEST_CASE("rows of any number of columns, where a kernel says so") {
  for (DType type : kTypes)
    for (int cols : {1, 7, 33}) {
      const MatmulProblem p = problem(3, 5, cols, type == DType::bf16 ? DType::bf16 : DType::f16, type);
      for (MatmulKernel kernel : {MatmulKernel::naive, MatmulKernel::tiled, MatmulKernel::gemv})
        for_each_schedule(8, [&] { check_matmul(p, kernel, DType::f32, run_matmul(p, kernel, DType::f32, launcher_of(type))); });
      for (MatmulKernel kernel : {MatmulKernel::vectorised, MatmulKernel::tensor_core})
        CHECK_THROWS_WITH(run_matmul(p, kernel, DType::f32, launcher_of(type)),
                          Catch::Contains("multiple of 8 columns") && Catch::Contains("5 x"));
    }
}

TEST_CASE("a token's result does not depend on the tokens beside it") {
  const MatmulProblem all = problem(33, 33, 136, DType::f16, DType::f16);
  for (MatmulKernel kernel : kKernels) {
    const auto together = run_matmul(all, kernel, DType::f32, launcher_of(DType::f16, fast_world()));
    for (int tokens : {1, 2, 16, 17}) {
      const auto alone = run_matmul(all.first(tokens), kernel, DType::f32, launcher_of(DType::f16, fast_world()));
      CHECK(std::equal(alone.begin(), alone.end(), together.begin()));
    }
  }
}

TEST_CASE("an input of fp32 and the yardstick without a GPU are refused") {
  const MatmulProblem p = problem(1, 8, 8, DType::f32, DType::f16);
  CHECK_THROWS_WITH(run_matmul(p, MatmulKernel::naive, DType::f32, launcher_of(DType::f16)),
                    Catch::Contains("an input of type f32"));
  if (on_gpu()) return;
  const MatmulProblem q = problem(1, 8, 8, DType::f16, DType::f16);
  CHECK_THROWS_WITH(run_matmul(q, MatmulKernel::cublas, DType::f32, launcher_of(DType::f16)), Catch::Contains("device cuda"));
}

TEST_CASE("cuBLAS, the yardstick, computes the same product on a GPU") {
  if (!on_gpu()) return;
  PATCHBAY_NEEDS(std::string(finds_cublas() ? "found" : ""), "the library libcublas");
  for (const DType type : {DType::f16, DType::bf16}) {
    const MatmulProblem p = problem(17, 130, 136, type, type);
    check_matmul(p, MatmulKernel::cublas, DType::f32, run_matmul(p, MatmulKernel::cublas, DType::f32, launcher_of(type)));
  }
}

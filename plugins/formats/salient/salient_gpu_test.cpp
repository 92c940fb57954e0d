// The kernel that adds the kept columns' share to a product.
#include "gpu/matmul_support.h"
#include "salient_gpu.h"

namespace patchbay {
PATCHBAY_GPU_LAUNCHER(void, salient_add, (const KeptColumnsArgs&, gpu::Stream))
}

using namespace patchbay;
using namespace patchbay::test;

namespace {

struct Shape {
  int tokens, rows, cols, kept;
  DType x_type, y_type;
};

void check_added(const Shape& s) {
  std::vector<float> x = normal_numbers(static_cast<std::size_t>(s.tokens) * s.cols, 1), y = normal_numbers(static_cast<std::size_t>(s.tokens) * s.rows, 2);
  for (float& value : x) value = rounded_to(s.x_type, value);
  for (float& value : y) value = rounded_to(s.y_type, value);
  const std::vector<float> differences = normal_numbers(static_cast<std::size_t>(s.rows) * s.kept, 3);
  std::vector<std::int32_t> columns;
  for (int k = 0; k < s.kept; ++k) columns.push_back(s.cols - 1 - 3 * k);
  const DeviceArray<std::byte> x_there(stored_as(s.x_type, x), "x"), y_there(stored_as(s.y_type, y), "y");
  const DeviceArray<float> differences_there(differences, "differences");
  const DeviceArray<std::int32_t> columns_there(columns, "columns");
  gpu::pick(gpu_launchers::salient_add, test_world())({x_there.data(), s.x_type, columns_there.data(), differences_there.data(), y_there.data(), s.y_type, s.tokens,
                                                       s.rows, s.cols, s.kept}, {});
  const Bytes bytes = y_there.host();
  const double last_place = s.y_type == DType::f32 ? 1e-6 : s.y_type == DType::f16 ? 0x1p-11 : 0x1p-8;
  for (int t = 0; t < s.tokens; ++t)
    for (int r = 0; r < s.rows; ++r) {
      double sum = y[static_cast<std::size_t>(t) * s.rows + r], size = std::fabs(sum);
      for (int k = 0; k < s.kept; ++k) {
        const double term = static_cast<double>(x[static_cast<std::size_t>(t) * s.cols + columns[k]]) * differences[static_cast<std::size_t>(r) * s.kept + k];
        sum += term;
        size += std::fabs(term);
      }
      REQUIRE(std::fabs(number_at(s.y_type, bytes, static_cast<std::size_t>(t) * s.rows + r) - sum) <= last_place * std::fabs(sum) + 1e-6 * size);
    }
}

}  // namespace

TEST_CASE("kept columns are added to a product, whatever its type and shape, under eight schedules") {
  for (const DType x_type : {DType::f16, DType::bf16})
    for (const DType y_type : {DType::f32, DType::f16, DType::bf16})
      for (const auto& [tokens, rows, cols, kept] : {std::tuple{1, 1, 1, 1}, {3, 129, 40, 5}, {2, 7, 96, 32}})
        for_each_schedule(8, [&] { check_added({tokens, rows, cols, kept, x_type, y_type}); });
}

// Columns in another order: how it is stored, and how a product undoes it. Formula (I7): README.md.
#include "column_order.h"

#include <cstring>
#include <string>
#include <utility>

#include "int_grouped_gpu.h"
#include "patchbay/gpu_linear.h"

namespace patchbay {

PATCHBAY_GPU_LAUNCHER(void, int_grouped_gather, (const GatherArgs&, gpu::Stream))  // int_grouped.cu

namespace {

constexpr const char* kWhere = "int_grouped: order of columns";

class HostProductInOrder final : public LinearKernel {
 public:
  HostProductInOrder(std::unique_ptr<LinearKernel> product, std::vector<std::int32_t> order, Ops& ops)
      : product_(std::move(product)), order_(std::move(order)), ops_(ops) {}

  void run(Activation& x, TensorRef y) override {
    const View<const float, 2> given = as_given(x).as<const float, 2>();
    const std::int64_t tokens = given.shape[0], cols = given.shape[1];
    std::vector<float> gathered(static_cast<std::size_t>(tokens * cols));
    ops_.device().parallel_for(tokens, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t t = begin; t < end; ++t)
        for (std::int64_t j = 0; j < cols; ++j) gathered[t * cols + j] = given(t, order_[j]);
    });
    Activation in_order(x.mode(), ops_);
    in_order.reset(View<const float, 2>(gathered.data(), {tokens, cols}));
    product_->run(in_order, y);
  }
  std::string path() const override { return product_->path(); }

 private:
  /// Not as rounded: in the 8-bit form 32 columns share a scale that do not lie side by side here.
  static TensorRef as_given(Activation& x) {
    TensorRef given;
    const auto keep = [](TensorRef input, std::byte* out) { std::memcpy(out, &input, sizeof input); };
    std::memcpy(&given, x.form("as given", sizeof given, keep), sizeof given);
    return given;
  }

  std::unique_ptr<LinearKernel> product_;
  std::vector<std::int32_t> order_;
  Ops& ops_;
};

class GpuProductInOrder final : public LinearKernel {
 public:
  GpuProductInOrder(std::unique_ptr<LinearKernel> product, const std::vector<std::int32_t>& order, Ops& ops)
      : product_(std::move(product)),
        device_(ops.device()),
        gather_(gpu::pick(gpu_launchers::int_grouped_gather, gpu::world_of(device_))),
        order_(device_.allocate(static_cast<std::int64_t>(order.size()) * bytes_of(DType::i32))),
        in_order_(ActivationMode::fp32, ops) {
    const auto cols = static_cast<std::int64_t>(order.size());
    device_.copy(View<const std::int32_t, 1>(order.data(), {cols}), order_.tensor(DType::i32, {cols}));
  }

  void run(Activation& x, TensorRef y) override {
    TensorRef gathered = x.values();
    const TensorRef given = gathered;
    if (given.shape[0] == 0) return;
    // Memory alone: another weight may have another order.
    gathered.data = x.form("int_grouped: in order", given.size() * bytes_of(given.dtype), [](TensorRef, std::byte*) {});
    gather_({given.data, order_.view<const std::int32_t, 1>({given.shape[1]}).data, gathered.data, static_cast<int>(given.shape[0]),
             static_cast<int>(given.shape[1])},
            gpu::stream_of(device_));
    in_order_.reset(gathered);
    product_->run(in_order_, y);
  }
  std::string path() const override { return product_->path(); }

 private:
  std::unique_ptr<LinearKernel> product_;
  Device& device_;
  void (*gather_)(const GatherArgs&, gpu::Stream);
  Buffer order_;
  Activation in_order_;
};

}  // namespace

void ColumnOrder::store(View<const std::int32_t, 1> order, TensorRef part) {
  const std::int64_t cols = order.shape[0];
  std::vector<bool> seen(static_cast<std::size_t>(cols));
  const auto bytes = part.as<std::uint8_t, 2>();
  for (std::int64_t j = 0; j < cols; ++j) {
    if (order[j] < 0 || order[j] >= cols || seen[order[j]])
      throw Error(kWhere, "place " + std::to_string(j) + " is given column " + std::to_string(order[j]) + " of " + std::to_string(cols),
                  "each column once");
    seen[order[j]] = true;
    const auto moved = static_cast<std::uint16_t>(order[j] - j);
    bytes(j, 0) = static_cast<std::uint8_t>(moved & 255);
    bytes(j, 1) = static_cast<std::uint8_t>(moved >> 8);
  }
}

std::vector<std::int32_t> ColumnOrder::load(const TensorRef& part) {
  const auto bytes = part.as<const std::uint8_t, 2>();
  const std::int64_t cols = bytes.shape[0];
  std::vector<std::int32_t> order(static_cast<std::size_t>(cols));
  for (std::int64_t j = 0; j < cols; ++j) {
    order[j] = static_cast<std::uint16_t>(j + (bytes(j, 0) | bytes(j, 1) << 8));
    if (order[j] >= cols)
      throw Error(kWhere, "place " + std::to_string(j) + " has column " + std::to_string(order[j]) + " of " + std::to_string(cols), "each column once",
                  "make the weight again");
  }
  return order;
}

std::unique_ptr<LinearKernel> multiply_in_order(std::unique_ptr<LinearKernel> product, std::vector<std::int32_t> order, Ops& ops) {
  if (ops.device().is_host()) return std::make_unique<HostProductInOrder>(std::move(product), std::move(order), ops);
  return std::make_unique<GpuProductInOrder>(std::move(product), order, ops);
}

}  // namespace patchbay

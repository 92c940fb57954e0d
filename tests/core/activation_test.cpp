// Activation: what products see of their input in both modes, and that rounding happens once per reset.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "patchbay/activation.h"

using namespace patchbay;

namespace {

/// Rounds to whole numbers with scale 0.5, and counts its calls; nothing else is called.
class CountingOps : public Ops, public HostProducts {
 public:
  int quantized = 0;
  void quantize_q8(TensorRef x, std::int8_t* codes, float* scales, std::int32_t* sums) override {
    ++quantized;
    const auto in = x.as<const float, 2>();
    const std::int64_t blocks = (in.shape[1] + 31) / 32;
    for (std::int64_t t = 0; t < in.shape[0]; ++t) {
      for (std::int64_t b = 0; b < blocks; ++b) {
        scales[t * blocks + b] = 0.5f;
        sums[t * blocks + b] = 0;
        for (std::int64_t i = 0; i < 32; ++i) {
          const std::int64_t c = b * 32 + i;
          const int code = c < in.shape[1] ? static_cast<int>(std::lround(in(t, c) * 2.0f)) : 0;
          codes[(t * blocks + b) * 32 + i] = static_cast<std::int8_t>(code);
          sums[t * blocks + b] += code;
        }
      }
    }
  }
  Device& device() override { throw Error("test", "no device"); }
  void matmul_decoded(TensorRef, std::int64_t, FunctionRef<void(std::int64_t, View<float, 2>)>, TensorRef) override {}
  std::unique_ptr<AffineWeight> prepare_affine(const AffineSource&) override { return nullptr; }
  void matmul_affine(const Q8Rows&, const AffineWeight&, TensorRef) override {}
  void rms_norm(TensorRef, TensorRef, float, TensorRef) override {}
  void rope(TensorRef, TensorRef, const RopeSpec&) override {}
  void gated(Gate, TensorRef, TensorRef, TensorRef) override {}
  void add(TensorRef, TensorRef) override {}
  std::string_view kernel() const override { return "counting"; }
  HostProducts& host() override { return *this; }
};

std::vector<float> ramp(std::int64_t n) {
  std::vector<float> values(n);
  for (std::int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 50) * 0.3f;
  return values;
}

}  // namespace

TEST_CASE("mode fp32: products see the input itself, and there is no 8-bit form") {
  CountingOps ops;
  Activation activation(ActivationMode::fp32, ops);
  auto x = ramp(80);
  activation.reset(View<float, 2>(x.data(), {2, 40}));
  CHECK(activation.values().data == x.data());
  CHECK(activation.rows() == 2);
  CHECK(activation.cols() == 40);
  CHECK_THROWS_AS(activation.q8(), Error);
  CHECK(ops.quantized == 0);
}

TEST_CASE("mode q8: codes and values are one rounding, made once per reset") {
  CountingOps ops;
  Activation activation(ActivationMode::q8, ops);
  auto x = ramp(80);
  activation.reset(View<float, 2>(x.data(), {2, 40}));
  CHECK(ops.quantized == 0);  // nobody asked yet
  for (int round = 0; round < 3; ++round) {
    const Q8Rows& q8 = activation.q8();
    CHECK(q8.rows == 2);
    CHECK(q8.cols == 40);
    CHECK(q8.blocks == 2);
    const auto values = activation.values().as<const float, 2>();
    for (int t = 0; t < 2; ++t) for (int c = 0; c < 40; ++c) CHECK(values(t, c) == std::round(x[t * 40 + c] * 2.0f) * 0.5f);
  }
  CHECK(ops.quantized == 1);
  x[0] = 100.0f * 0.5f;
  activation.reset(View<float, 2>(x.data(), {2, 40}));
  CHECK(activation.values().as<const float, 2>()(0, 0) == 50.0f);
  CHECK(ops.quantized == 2);
  activation.reset(View<float, 2>(x.data(), {1, 64}));  // another shape
  CHECK(activation.values().as<const float, 2>()(0, 63) == std::round(x[63] * 2.0f) * 0.5f);
}

TEST_CASE("an input of another type or rank is refused at once") {
  CountingOps ops;
  Activation activation(ActivationMode::q8, ops);
  std::vector<std::int32_t> codes(4);
  CHECK_THROWS_AS(activation.reset(View<std::int32_t, 2>(codes.data(), {2, 2})), Error);
}

namespace {

/// As much of a device as Activation needs.
class PlainDevice : public Device {
 public:
  Buffer allocate(std::int64_t bytes) override {
    return {std::shared_ptr<std::byte>(new std::byte[static_cast<std::size_t>(bytes)], std::default_delete<std::byte[]>()), bytes, 0};
  }
  void copy(TensorRef, TensorRef) override {}
  int concurrency() const override { return 1; }
  void parallel_for(std::int64_t n, std::int64_t, FunctionRef<void(std::int64_t, std::int64_t, int)> body) override { body(0, n, 0); }
};
class DeviceOps : public CountingOps {
 public:
  Device& device() override { return device_; }

 private:
  PlainDevice device_;
};

}  // namespace

TEST_CASE("a form is made once per reset, and forms are told apart by their names") {
  DeviceOps ops;
  Activation activation(ActivationMode::fp32, ops);
  auto x = ramp(8);
  int made = 0;
  const auto first_byte = [&](std::string_view name, std::int64_t bytes) {
    return activation.form(name, bytes, [&](TensorRef input, std::byte* out) {
      CHECK(input.data == x.data());
      out[0] = static_cast<std::byte>(++made);
    })[0];
  };
  activation.reset(View<float, 2>(x.data(), {2, 4}));
  CHECK(first_byte("int8", 8) == std::byte{1});
  CHECK(first_byte("fp8", 8) == std::byte{2});
  CHECK(first_byte("int8", 8) == std::byte{1});
  activation.reset(View<float, 2>(x.data(), {2, 4}));
  CHECK(first_byte("int8", 4) == std::byte{3});
  CHECK(first_byte("int8", 4) == std::byte{3});
}

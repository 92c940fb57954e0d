// Every backend, with every kernel set that this machine has, against double-precision references written here.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>
#include <thread>

#include "patchbay/activation.h"
#include "patchbay/attention.h"
#include "patchbay/half.h"
#include "patchbay/plugin.h"
#include "registry.h"

using namespace patchbay;

/// Asked by AddressSanitizer: a refused allocation is a null pointer, as without it, and not the end of the process.
extern "C" PATCHBAY_API const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Variant { std::string backend, kernel; };

std::shared_ptr<Backend> make_backend(const Variant& variant, int threads) {
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  const auto set = [&](const char* key, const std::string& value) {
    Settings node;
    node.kind = Settings::Kind::scalar;
    node.text = value;
    node.where = "test";
    settings->entries.emplace_back(key, node);
  };
  set("kernel", variant.kernel);
  set("threads", std::to_string(threads));
  return make<Backend>({variant.backend, settings});
}

/// Every kernel set of the host that this machine has; GPUs and the emulator are tested in tests/gpu.
std::vector<Variant> variants() {
  std::vector<Variant> all;
  Registry& registry = Registry::instance();
  for (const std::string& name : registry.names("backends")) {
    for (const ParamInfo& param : registry.describe(registry.find("backends", name))) {
      for (const KernelInfo& kernel : param.kernels) {
        if (kernel.backend == "cpu" && (!kernel.available || kernel.available())) all.push_back({name, std::string(kernel.name)});
      }
    }
  }
  return all;
}

template <class F>
void for_each_variant(F body) {
  const auto all = variants();
  REQUIRE_FALSE(all.empty());
  for (const Variant& variant : all) {
    INFO(variant.backend << " with kernel " << variant.kernel);
    const auto backend = make_backend(variant, 2);
    REQUIRE(backend->ops().kernel() == variant.kernel);
    body(*backend, variant);
  }
}

using Floats = std::vector<float>;

Floats random_floats(std::size_t n, unsigned seed, float deviation = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, deviation);
  Floats values(n);
  for (float& value : values) value = normal(generator);
  return values;
}
View<float, 2> matrix(Floats& values, std::int64_t rows, std::int64_t cols) { return {values.data(), {rows, cols}}; }

/// One row per position 0 to the last: cosines, then sines, as RopeSpec has them.
Floats angles_of(std::int32_t last, const Floats& frequencies, float magnitude) {
  Floats angles;
  for (std::int32_t position = 0; position <= last; ++position) {
    for (const float frequency : frequencies) angles.push_back(static_cast<float>(magnitude * std::cos(static_cast<double>(position) * frequency)));
    for (const float frequency : frequencies) angles.push_back(static_cast<float>(magnitude * std::sin(static_cast<double>(position) * frequency)));
  }
  return angles;
}
View<const std::int32_t, 1> integers(const std::vector<std::int32_t>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

struct Quantized {
  Q8Rows rows;
  std::vector<std::int8_t> codes;
  Floats scales;
  std::vector<std::int32_t> sums;
};
/// Filled with rubbish first, so that what a kernel leaves out shows.
std::unique_ptr<Quantized> quantize(Ops& ops, Floats& x, std::int64_t rows, std::int64_t cols) {
  auto q = std::make_unique<Quantized>();
  const std::int64_t blocks = (cols + 31) / 32;
  q->codes.assign(rows * blocks * 32, 99);
  q->scales.assign(rows * blocks, kNan);
  q->sums.assign(rows * blocks, 12345);
  ops.host().quantize_q8(matrix(x, rows, cols), q->codes.data(), q->scales.data(), q->sums.data());
  q->rows = {rows, cols, blocks, q->codes.data(), q->scales.data(), q->sums.data()};
  return q;
}

/// Random codes with the scales of one kind of format.
struct RandomAffine : AffineSource {
  enum class Offsets { stored, implied_zero };
  std::vector<std::uint8_t> codes;
  Floats scales, offsets;
  RandomAffine(std::int64_t r, std::int64_t c, int width, int max_code, bool half, Offsets kind, unsigned seed) {
    rows = r;
    cols = c;
    bits = width;
    std::mt19937 generator(seed);
    std::uniform_int_distribution<int> code(0, max_code);
    std::uniform_real_distribution<float> scale(-0.02f, 0.02f);
    for (std::int64_t i = 0; i < r * c; ++i) codes.push_back(static_cast<std::uint8_t>(i % 7 == 0 ? max_code : code(generator)));
    for (std::int64_t i = 0; i < r * c / 32; ++i) {
      const auto draw = [&] { return half ? to_float(to_half(scale(generator))) : scale(generator); };
      scales.push_back(i % 11 == 3 ? 0.0f : draw());
      offsets.push_back(kind == Offsets::stored ? draw() : -static_cast<float>((max_code + 1) / 2) * scales.back());
    }
  }
  void read(std::int64_t row, std::uint8_t* c, float* s, float* o) const override {
    std::copy_n(codes.begin() + row * cols, cols, c);
    std::copy_n(scales.begin() + row * cols / 32, cols / 32, s);
    std::copy_n(offsets.begin() + row * cols / 32, cols / 32, o);
  }
  double weight(std::int64_t row, std::int64_t col) const {
    const std::int64_t at = row * cols + col;
    return static_cast<double>(scales[at / 32]) * codes[at] + static_cast<double>(offsets[at / 32]);
  }
};

Floats affine_product(Ops& ops, Floats& x, std::int64_t tokens, const RandomAffine& source, const AffineWeight& weight) {
  const auto q = quantize(ops, x, tokens, source.cols);
  Floats y(tokens * source.rows, kNan);
  ops.host().matmul_affine(q->rows, weight, matrix(y, tokens, source.rows));
  return y;
}
Floats decoded_product(Ops& ops, Floats& x, std::int64_t tokens, std::int64_t cols, Floats& w, std::int64_t rows) {
  Floats y(tokens * rows, kNan);
  ops.host().matmul_decoded(matrix(x, tokens, cols), rows, [&](std::int64_t first, View<float, 2> out) {
    for (std::int64_t r = 0; r < out.shape[0]; ++r) std::copy_n(w.begin() + (first + r) * cols, cols, &out(r, 0));
  }, matrix(y, tokens, rows));
  return y;
}

}  // namespace

TEST_CASE("parallel_for covers every index once, in pieces of at most the grain") {
  for_each_variant([](Backend&, const Variant& variant) {
    for (const int threads : {1, 2, 5}) {
      const auto backend = make_backend(variant, threads);
      Device& device = backend->device();
      REQUIRE(device.concurrency() == threads);
      for (const std::int64_t n : {0, 1, 7, 1000}) {
        for (const std::int64_t grain : {1, 3, 64, 5000}) {
          std::vector<std::atomic<int>> visits(n);
          std::atomic<bool> sane{true};
          device.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
            if (begin >= end || end - begin > grain || worker < 0 || worker >= threads) sane = false;
            for (std::int64_t i = begin; i < end; ++i) ++visits[i];
          });
          CHECK(sane);
          CHECK(std::all_of(visits.begin(), visits.end(), [](const auto& count) { return count == 1; }));
        }
      }
    }
  });
}

TEST_CASE("parallel_for: many short loops, each seen whole by its caller") {
  for_each_variant([](Backend& backend, const Variant&) {
    std::int64_t total = 0;
    for (int round = 0; round < 20'000; ++round) {
      std::int64_t parts[8] = {};
      backend.device().parallel_for(8, 1, [&](std::int64_t begin, std::int64_t, int) { parts[begin] = begin + round; });
      total += std::accumulate(parts, parts + 8, std::int64_t{0});
      if (round % 5000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // long enough for workers to fall asleep
    }
    CHECK(total == 28LL * 20'000 + 8LL * (20'000LL * 19'999 / 2));
  });
}

TEST_CASE("parallel_for: exceptions reach the caller and the threads go on; loops may nest") {
  for_each_variant([](Backend& backend, const Variant&) {
    Device& device = backend.device();
    for (int round = 0; round < 100; ++round) {
      const auto loop = [&] {
        device.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t, int) {
          if (begin % 8 == round % 8) throw Error("test", "piece " + std::to_string(begin));
        });
      };
      CHECK_THROWS_AS(loop(), Error);
    }
    std::atomic<int> inner_pieces{0};
    std::atomic<bool> same_worker{true};
    device.parallel_for(16, 1, [&](std::int64_t, std::int64_t, int outer) {
      device.parallel_for(10, 2, [&](std::int64_t, std::int64_t, int inner) {
        ++inner_pieces;
        if (inner != outer) same_worker = false;
      });
    });
    CHECK(inner_pieces == 16 * 5);
    CHECK(same_worker);
  });
}

TEST_CASE("idle threads sleep") {
  for_each_variant([](Backend& backend, const Variant&) {
    backend.device().parallel_for(64, 1, [](std::int64_t, std::int64_t, int) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::clock_t before = std::clock();  // processor time of the whole process
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 0.03);
  });
}

TEST_CASE("threads keep the floating-point environment: subnormal numbers are not flushed") {
  for_each_variant([](Backend& backend, const Variant&) {
    Floats x(64 * 4096, 1e-40f), y(x.size(), 2e-40f);
    backend.ops().add(matrix(x, 64, 4096), matrix(y, 64, 4096));
    CHECK(std::all_of(x.begin(), x.end(), [](float value) { return value == 1e-40f + 2e-40f && value > 0.0f; }));
  });
}

TEST_CASE("memory is aligned, zero-filled, and refused with its size") {
  for_each_variant([](Backend& backend, const Variant&) {
    Device& device = backend.device();
    for (const std::int64_t bytes : {0, 1, 1000, 3'000'000}) {
      const Buffer buffer = device.allocate(bytes);
      CHECK(buffer.size() == bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
      CHECK(std::all_of(buffer.data(), buffer.data() + bytes, [](std::byte value) { return value == std::byte{0}; }));
    }
    CHECK_THROWS_WITH(device.allocate(std::int64_t{1} << 60), Catch::Contains("1152921504606846976 bytes"));
    CHECK_THROWS_AS(device.allocate(-1), Error);
  });
}

TEST_CASE("copy follows strides") {
  for_each_variant([](Backend& backend, const Variant&) {
    Floats from(3 * 5), to(5 * 3, -1.0f);
    std::iota(from.begin(), from.end(), 0.0f);
    const View<float, 2> transposed(to.data(), {3, 5}, {1, 3});
    backend.device().copy(matrix(from, 3, 5), transposed);
    for (int i = 0; i < 3; ++i) for (int j = 0; j < 5; ++j) CHECK(to[j * 3 + i] == from[i * 5 + j]);
    CHECK_THROWS_AS(backend.device().copy(matrix(from, 3, 5), matrix(to, 5, 3)), Error);
    CHECK_THROWS_AS(backend.device().copy(View<float, 1>(from.data(), {15}), matrix(to, 5, 3)), Error);
  });
}

TEST_CASE("quantize_q8 is the nearest code of 127 steps") {
  for_each_variant([](Backend& backend, const Variant&) {
    for (const std::int64_t cols : {32, 576, 40, 7}) {
      const std::int64_t rows = 33, blocks = (cols + 31) / 32;
      Floats x = random_floats(rows * cols, 1);
      const auto q = quantize(backend.ops(), x, rows, cols);
      double worst = 0.0;
      bool exact = true;
      for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t block = 0; block < blocks; ++block) {
          const std::int64_t at = t * blocks + block;
          float largest = 0.0f;
          std::int32_t sum = 0;
          for (std::int64_t i = 0; i < 32; ++i) {
            const int code = q->codes[at * 32 + i];
            sum += code;
            if (block * 32 + i >= cols) { exact = exact && code == 0; continue; }
            const float value = x[t * cols + block * 32 + i];
            largest = std::max(largest, std::fabs(value));
            exact = exact && std::abs(code) <= 127;
            worst = std::max(worst, std::fabs(value - static_cast<double>(q->scales[at]) * code) / q->scales[at]);
          }
          exact = exact && sum == q->sums[at] && q->scales[at] == largest / 127.0f;
        }
      }
      CHECK(exact);
      CHECK(worst < 0.5 + 1e-4);
    }
  });
}

TEST_CASE("quantize_q8: ties to even, zeros, tiny and non-finite values") {
  for_each_variant([](Backend& backend, const Variant&) {
    Floats x(6 * 32, 0.0f);
    const float ties[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f};
    std::copy(std::begin(ties), std::end(ties), x.begin());                  // row 0; rows 1 and on:
    std::fill_n(x.begin() + 2 * 32, 32, 1e-40f);                            // 1: zeros; 2: too small to divide by
    x[3 * 32 + 5] = kNan;
    x[4 * 32 + 31] = -kInfinity;
    x[5 * 32] = std::numeric_limits<float>::max();
    const auto q = quantize(backend.ops(), x, 6, 32);
    const int expected[] = {127, 0, 2, 2, 0, -2, -2};
    CHECK(std::equal(std::begin(expected), std::end(expected), q->codes.begin()));
    for (const int row : {1, 2}) {
      CHECK(q->scales[row] == 0.0f);
      CHECK(q->sums[row] == 0);
    }
    for (const int row : {3, 4}) CHECK(std::isnan(q->scales[row]));
    CHECK(std::all_of(q->codes.begin() + 32, q->codes.begin() + 5 * 32, [](int code) { return code == 0; }));
    CHECK(q->codes[5 * 32] == 127);
  });
}

template <class T>
void check_stored(Backend& backend, DType type, std::int64_t cols) {
  const std::int64_t rows = 11;
  Floats values = random_floats(rows * cols, 9);
  std::vector<char> bytes(rows * cols * sizeof(T) + 1);  // one byte in: a mapped file aligns to nothing
  for (std::size_t i = 0; i < values.size(); ++i) {
    T element;
    if constexpr (std::is_same_v<T, Half>) element = to_half(i % 13 == 5 ? values[i] * 0x1p-20f : values[i]);  // subnormal ones, too
    else if constexpr (std::is_same_v<T, BFloat16>) element = to_bfloat16(values[i]);
    else element = values[i];
    std::memcpy(bytes.data() + 1 + i * sizeof(T), &element, sizeof(T));
    if constexpr (std::is_same_v<T, float>) values[i] = element;
    else values[i] = to_float(element);
  }
  TensorRef w;
  w.data = bytes.data() + 1;
  w.dtype = type;
  w.rank = 2;
  w.shape[0] = rows, w.shape[1] = cols, w.strides[0] = cols, w.strides[1] = 1;
  for (const std::int64_t tokens : {1, 2, 7, 19}) {
    INFO(cols << " columns, " << tokens << " tokens");
    Floats x = random_floats(tokens * cols, 10), y(tokens * rows, kNan);
    backend.ops().matmul_stored(matrix(x, tokens, cols), w, matrix(y, tokens, rows));
    CHECK(y == decoded_product(backend.ops(), x, tokens, cols, values, rows));
  }
  Floats x(cols + 1), y(rows);
  CHECK_THROWS_AS(backend.ops().matmul_stored(matrix(x, 1, cols + 1), w, matrix(y, 1, rows)), Error);
}

TEST_CASE("matmul_stored equals matmul_decoded bit for bit, for every type and at any byte") {
  for_each_variant([](Backend& backend, const Variant&) {
    for (const std::int64_t cols : {576, 61, 5, 1}) {
      check_stored<float>(backend, DType::f32, cols);
      check_stored<Half>(backend, DType::f16, cols);
      check_stored<BFloat16>(backend, DType::bf16, cols);
    }
  });
}

TEST_CASE("take_rows and add_rows") {
  for_each_variant([](Backend& backend, const Variant&) {
    Floats table = random_floats(6 * 33, 41), out(3 * 33, kNan), sum(6 * 33, 1.0f), factors = {0.5f, -2.0f, 3.0f};
    const std::vector<std::int32_t> ids = {5, 0, 2};
    std::vector<Half> halves;
    for (const float value : table) halves.push_back(to_half(value));
    backend.ops().take_rows(matrix(table, 6, 33), integers(ids), matrix(out, 3, 33));
    for (int t = 0; t < 3; ++t) for (int c = 0; c < 33; ++c) CHECK(out[t * 33 + c] == table[ids[t] * 33 + c]);
    backend.ops().add_rows(matrix(sum, 6, 33), integers(ids), View<float, 1>(factors.data(), {3}), matrix(out, 3, 33));
    for (int t = 0; t < 3; ++t) for (int c = 0; c < 33; ++c) CHECK(sum[ids[t] * 33 + c] == 1.0f + factors[t] * out[t * 33 + c]);
    CHECK(sum[1 * 33] == 1.0f);
    backend.ops().take_rows(View<Half, 2>(halves.data(), {6, 33}), integers(ids), matrix(out, 3, 33));
    for (int t = 0; t < 3; ++t) for (int c = 0; c < 33; ++c) CHECK(out[t * 33 + c] == to_float(halves[ids[t] * 33 + c]));
    std::vector<std::int8_t> codes(6 * 33);
    CHECK_THROWS_AS(backend.ops().take_rows(View<std::int8_t, 2>(codes.data(), {6, 33}), integers(ids), matrix(out, 3, 33)), Error);
  });
}

TEST_CASE("rms_norm") {
  for_each_variant([](Backend& backend, const Variant&) {
    for (const std::int64_t cols : {576, 61, 1}) {
      const std::int64_t rows = 37;
      Floats x = random_floats(rows * cols, 2), weight = random_floats(cols, 3), out(x.size(), kNan);
      backend.ops().rms_norm(matrix(x, rows, cols), View<float, 1>(weight.data(), {cols}), 1e-5f, matrix(out, rows, cols));
      double worst = 0.0;
      for (std::int64_t t = 0; t < rows; ++t) {
        double squares = 0.0;
        for (std::int64_t c = 0; c < cols; ++c) squares += static_cast<double>(x[t * cols + c]) * x[t * cols + c];
        const double factor = 1.0 / std::sqrt(squares / cols + 1e-5f);
        for (std::int64_t c = 0; c < cols; ++c) {
          worst = std::max(worst, std::fabs(out[t * cols + c] - x[t * cols + c] * factor * weight[c]));
        }
      }
      CHECK(worst < 4e-6);
      backend.ops().rms_norm(matrix(x, rows, cols), View<float, 1>(weight.data(), {cols}), 1e-5f, matrix(x, rows, cols));
      CHECK(x == out);  // in place
    }
  });
}

TEST_CASE("rope turns pairs in both layouts and leaves the rest (A02)") {
  for_each_variant([](Backend& backend, const Variant&) {
    for (const bool interleaved : {false, true}) {
      for (const int dims : {64, 48, 6, 0}) {
        const std::int64_t tokens = 40, heads = 3, size = 64;
        Floats frequencies(dims / 2), x = random_floats(tokens * heads * size, 4);
        const Floats before = x;
        for (int i = 0; i < dims / 2; ++i) frequencies[i] = static_cast<float>(std::pow(10000.0, -2.0 * i / dims));
        std::vector<std::int32_t> positions(tokens);
        for (int t = 0; t < tokens; ++t) positions[t] = t * t * 5;
        const float magnitude = 1.25f;
        Floats angles = angles_of(positions.back(), frequencies, magnitude);
        backend.ops().rope(View<float, 3>(x.data(), {tokens, heads, size}), integers(positions),
                           {dims, interleaved, matrix(angles, positions.back() + 1, dims)});
        double worst = 0.0;
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (std::int64_t h = 0; h < heads; ++h) {
            const std::int64_t at = (t * heads + h) * size;
            for (int i = 0; i < dims / 2; ++i) {
              const int first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + dims / 2;
              const double angle = static_cast<double>(positions[t]) * frequencies[i];
              const double a = before[at + first], b = before[at + second];
              worst = std::max(worst, std::fabs(x[at + first] - magnitude * (a * std::cos(angle) - b * std::sin(angle))));
              worst = std::max(worst, std::fabs(x[at + second] - magnitude * (b * std::cos(angle) + a * std::sin(angle))));
            }
            for (std::int64_t i = dims; i < size; ++i) worst = std::max<double>(worst, std::fabs(x[at + i] - before[at + i]));
          }
        }
        CHECK(worst < 2e-6);
      }
    }
  });
}

TEST_CASE("gated") {
  for_each_variant([](Backend& backend, const Variant&) {
    for (const Gate kind : {Gate::silu, Gate::gelu_tanh}) {
      const std::int64_t rows = 3, cols = 4099;
      Floats g = random_floats(rows * cols, 5, 8.0f), up = random_floats(rows * cols, 6), out(g.size(), kNan);
      const float special[] = {0.0f, -0.0f, 1e-30f, 30.0f, -30.0f, 80.0f, -80.0f, 150.0f, -150.0f};
      std::copy(std::begin(special), std::end(special), g.begin());
      backend.ops().gated(kind, matrix(g, rows, cols), matrix(up, rows, cols), matrix(out, rows, cols));
      double worst = 0.0;
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double x = g[i];
        const double u = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
        const double z = kind == Gate::silu ? x : 2.0 * u;  // 0.5 (1 + tanh u) = 1 / (1 + e^-2u)
        const double expected = x / (1.0 + std::exp(-z)) * up[i];
        // A relative error of e^-z carries over whole where the sigmoid is small; z itself is rounded in fp32.
        const double bound = std::fabs(expected) * (1e-6 + 3e-7 * std::fabs(z)) + 1e-30;
        worst = std::max(worst, std::fabs(out[i] - expected) / bound);
      }
      CHECK(worst < 1.0);
      g[0] = kNan;
      backend.ops().gated(kind, matrix(g, rows, cols), matrix(up, rows, cols), matrix(g, rows, cols));
      CHECK(std::isnan(g[0]));
      CHECK(std::equal(g.begin() + 1, g.end(), out.begin() + 1));  // in place
    }
  });
}

TEST_CASE("matmul_decoded against double precision, each row asked for once") {
  for_each_variant([](Backend& backend, const Variant&) {
    for (const std::int64_t tokens : {1, 2, 7, 20}) {
      for (const auto& [rows, cols] : {std::pair{96, 576}, std::pair{37, 61}, std::pair{1, 5}, std::pair{130, 33}}) {
        Floats x = random_floats(tokens * cols, 7), w = random_floats(rows * cols, 8), y(tokens * rows, kNan);
        std::vector<std::atomic<int>> asked(rows);
        backend.ops().host().matmul_decoded(matrix(x, tokens, cols), rows, [&](std::int64_t first, View<float, 2> out) {
          for (std::int64_t r = 0; r < out.shape[0]; ++r) {
            ++asked[first + r];
            std::copy_n(w.begin() + (first + r) * out.shape[1], out.shape[1], &out(r, 0));
          }
        }, matrix(y, tokens, rows));
        double worst = 0.0;
        for (std::int64_t t = 0; t < tokens; ++t) {
          for (std::int64_t r = 0; r < rows; ++r) {
            double expected = 0.0, magnitude = 0.0;
            for (std::int64_t c = 0; c < cols; ++c) {
              const double product = static_cast<double>(x[t * cols + c]) * w[r * cols + c];
              expected += product;
              magnitude += std::fabs(product);
            }
            worst = std::max(worst, std::fabs(y[t * rows + r] - expected) / magnitude);
          }
        }
        CHECK(worst < 2e-6);
        CHECK(std::all_of(asked.begin(), asked.end(), [](const auto& count) { return count == 1; }));
      }
    }
  });
}

TEST_CASE("matmul_affine is exact but for float sums, whatever the codes, scales and offsets") {
  using Offsets = RandomAffine::Offsets;
  for_each_variant([](Backend& backend, const Variant&) {
    for (const auto& [bits, max_code] : {std::pair{4, 15}, std::pair{8, 15}, std::pair{8, 31}, std::pair{8, 32}, std::pair{8, 33},
                                        std::pair{8, 128}, std::pair{8, 129}, std::pair{8, 130}, std::pair{8, 255}}) {
      for (const bool half : {true, false}) {
        for (const Offsets offsets : {Offsets::stored, Offsets::implied_zero}) {
          for (const auto& [rows, cols] : {std::pair{35, 576}, std::pair{1, 32}, std::pair{16, 96}}) {
            const RandomAffine source(rows, cols, bits, max_code, half, offsets, 9);
            const auto weight = backend.ops().host().prepare_affine(source);
            for (const std::int64_t tokens : {1, 3, 13}) {
              Floats x = random_floats(tokens * cols, 10);
              for (std::int64_t c = 0; c < cols; ++c) x[c] = 3.0f;  // a row of codes 127: the largest sums there can be
              const auto q = quantize(backend.ops(), x, tokens, cols);
              const Floats y = affine_product(backend.ops(), x, tokens, source, *weight);
              double worst = 0.0;
              for (std::int64_t t = 0; t < tokens; ++t) {
                for (std::int64_t r = 0; r < rows; ++r) {
                  double expected = 0.0, magnitude = 1e-12;
                  for (std::int64_t c = 0; c < cols; ++c) {
                    const double input = static_cast<double>(q->scales[(t * cols + c) / 32]) * q->codes[t * cols + c];
                    const std::int64_t at = (r * cols + c) / 32;
                    expected += input * source.weight(r, c);
                    const double scaled = std::fabs(source.scales[at] * source.codes[r * cols + c]);
                    magnitude += std::fabs(input) * (scaled + std::fabs(source.offsets[at]));
                  }
                  worst = std::max(worst, std::fabs(y[t * rows + r] - expected) / magnitude);
                }
              }
              INFO("bits " << bits << ", codes to " << max_code << ", half " << half);
              INFO(rows << " x " << cols << ", tokens " << tokens);
              CHECK(worst < 1e-6);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("results do not depend on the batch or on threads, bit for bit") {
  for_each_variant([](Backend& backend, const Variant& variant) {
    const std::int64_t tokens = 21, rows = 195, cols = 608;
    const RandomAffine four(rows, cols, 4, 15, true, RandomAffine::Offsets::stored, 11);
    const RandomAffine eight(rows, cols, 8, 255, true, RandomAffine::Offsets::implied_zero, 12);
    Floats x = random_floats(tokens * cols, 13), w = random_floats(rows * cols, 14);
    const auto results = [&](Ops& ops, std::int64_t first, std::int64_t n) {
      Floats part(x.begin() + first * cols, x.begin() + (first + n) * cols);
      Floats all = affine_product(ops, part, n, four, *ops.host().prepare_affine(four));
      const Floats more = affine_product(ops, part, n, eight, *ops.host().prepare_affine(eight));
      const Floats decoded = decoded_product(ops, part, n, cols, w, rows);
      Floats normed(part.size()), weight = random_floats(cols, 15);
      ops.rms_norm(matrix(part, n, cols), View<float, 1>(weight.data(), {cols}), 1e-5f, matrix(normed, n, cols));
      ops.gated(Gate::silu, matrix(normed, n, cols), matrix(part, n, cols), matrix(normed, n, cols));
      Floats merged;  // token by token, so that batches can be compared
      for (std::int64_t t = 0; t < n; ++t) {
        for (const Floats* one : {&std::as_const(all), &more, &decoded}) {
          merged.insert(merged.end(), one->begin() + t * rows, one->begin() + (t + 1) * rows);
        }
        merged.insert(merged.end(), normed.begin() + t * cols, normed.begin() + (t + 1) * cols);
      }
      return merged;
    };
    const Floats together = results(backend.ops(), 0, tokens);
    for (const int threads : {1, 3}) CHECK(results(make_backend(variant, threads)->ops(), 0, tokens) == together);
    const std::int64_t width = static_cast<std::int64_t>(together.size()) / tokens;
    for (const std::int64_t size : {1, 2, 5, 8}) {
      for (std::int64_t first = 0; first + size <= tokens; first += size) {
        const Floats part = results(backend.ops(), first, size);
        CHECK(std::equal(part.begin(), part.end(), together.begin() + first * width));
      }
    }
  });
}

TEST_CASE("rows with strides: inputs and outputs may be slices") {
  for_each_variant([](Backend& backend, const Variant&) {
    Floats wide = random_floats(4 * 100, 16), w = random_floats(8 * 64, 17), out(4 * 50, -7.0f);
    const View<float, 2> x(wide.data() + 10, {4, 64}, {100, 1}), y(out.data() + 20, {4, 8}, {50, 1});
    backend.ops().host().matmul_decoded(x, 8, [&](std::int64_t first, View<float, 2> rows) {
      for (std::int64_t r = 0; r < rows.shape[0]; ++r) std::copy_n(w.begin() + (first + r) * 64, 64, &rows(r, 0));
    }, y);
    Floats packed;
    for (int t = 0; t < 4; ++t) packed.insert(packed.end(), &x(t, 0), &x(t, 0) + 64);
    const Floats expected = decoded_product(backend.ops(), packed, 4, 64, w, 8);
    for (int t = 0; t < 4; ++t) for (int r = 0; r < 8; ++r) CHECK(y(t, r) == expected[t * 8 + r]);
    CHECK(std::count(out.begin(), out.end(), -7.0f) == 4 * 50 - 4 * 8);
  });
}

TEST_CASE("a non-finite input shows in the products") {
  for_each_variant([](Backend& backend, const Variant&) {
    const RandomAffine source(5, 64, 4, 15, true, RandomAffine::Offsets::stored, 18);
    const auto weight = backend.ops().host().prepare_affine(source);
    Floats x = random_floats(2 * 64, 19);
    x[3] = kInfinity;
    const Floats y = affine_product(backend.ops(), x, 2, source, *weight);
    for (int r = 0; r < 5; ++r) {
      CHECK(std::isnan(y[r]));
      CHECK(std::isfinite(y[5 + r]));
    }
  });
}

TEST_CASE("shapes that do not fit are refused with both numbers") {
  for_each_variant([](Backend& backend, const Variant&) {
    Ops& ops = backend.ops();
    Floats x = random_floats(4 * 64, 20), y(4 * 64);
    const RandomAffine source(16, 32, 4, 15, true, RandomAffine::Offsets::stored, 21);
    const auto weight = ops.host().prepare_affine(source);
    const auto q = quantize(ops, x, 4, 64);
    CHECK_THROWS_WITH(ops.host().matmul_affine(q->rows, *weight, matrix(y, 4, 16)), Catch::Contains("64") && Catch::Contains("32"));
    CHECK_THROWS_WITH(ops.add(matrix(x, 4, 64), matrix(y, 2, 64)), Catch::Contains("4 x 64"));
    CHECK_THROWS_AS(ops.add(matrix(x, 4, 64), View<float, 1>(y.data(), {256})), Error);
    CHECK_THROWS_AS(ops.add(matrix(x, 16, 16), View<float, 2>(y.data(), {16, 16}, {1, 16})), Error);
    CHECK_THROWS_AS(ops.rms_norm(matrix(x, 4, 64), View<float, 1>(y.data(), {32}), 1e-5f, matrix(y, 4, 64)), Error);
    const View<float, 3> heads(x.data(), {4, 1, 64});
    const std::vector<std::int32_t> two{1, 2}, four{1, 2, 3, 0}, far{1, 2, 3, 4};
    Floats angles(4 * 66, 0.5f);
    CHECK_NOTHROW(ops.rope(heads, integers(four), {2, false, matrix(angles, 4, 2)}));
    CHECK_THROWS_AS(ops.rope(heads, integers(two), {2, false, matrix(angles, 4, 2)}), Error);
    CHECK_THROWS_AS(ops.rope(heads, integers(four), {66, false, matrix(angles, 4, 66)}), Error);
    CHECK_THROWS_AS(ops.rope(heads, integers(four), {4, false, matrix(angles, 4, 2)}), Error);
    CHECK_THROWS_WITH(ops.rope(heads, integers(far), {2, false, matrix(angles, 4, 2)}), Catch::Contains("position 4"));
    CHECK_THROWS_WITH(ops.write_kv(heads, heads, {}, 0), Catch::Contains("stores"));
    RandomAffine bad = source;
    bad.codes[5] = 16;
    CHECK_THROWS_WITH(ops.host().prepare_affine(bad), Catch::Contains("16"));
    bad.cols = 24;
    CHECK_THROWS_WITH(ops.host().prepare_affine(bad), Catch::Contains("multiples of 32"));
    struct Foreign : AffineWeight { std::int64_t bytes() const override { return 0; } } foreign;
    CHECK_THROWS_AS(ops.host().matmul_affine(q->rows, foreign, matrix(y, 4, 64)), Error);
  });
}

TEST_CASE("an unknown kernel or number of threads is an error") {
  const auto all = variants();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK_THROWS_WITH(make_backend({all[i].backend, "no_such_kernel"}, 1), Catch::Contains("no_such_kernel"));
    CHECK_THROWS_AS(make_backend(all[i], -1), Error);
    const bool best = i + 1 == all.size() || all[i + 1].backend != all[i].backend;
    if (best) CHECK(make<Backend>({all[i].backend, nullptr})->ops().kernel() == all[i].kernel);  // by default
  }
}

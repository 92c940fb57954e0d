// bench_kernels: how fast a backend multiplies the shapes of SmolLM2, beside what the machine could do.
//
//   bench_kernels [--backend cpu] [--kernel avx2] [--threads 2] [--seconds 1] [--only affine|fp32|elementwise] [--processor-time]
//
// --processor-time, with --threads 1, counts the processor's time, which other programs disturb less; --seconds are per line.
//
// Weights of a decode step come from memory, so each shape is measured over as many copies as make up 96 MB. Every line is the
// best of many short samples: on a shared machine the best is what repeats.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "patchbay/backend.h"
#include "patchbay/plugin.h"

namespace {

using namespace patchbay;

bool processor_time = false;  // --processor-time

double now() {
  if (processor_time) return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds of the fastest sample; a sample calls body(i) for a few milliseconds with i counting up.
template <class F>
double best_seconds(double total_seconds, F body) {
  double best = 1e30;
  std::int64_t i = 0;
  for (const double end = now() + total_seconds; now() < end;) {
    const double begin = now();
    std::int64_t calls = 0;
    double elapsed = 0.0;
    while (elapsed < 0.002) {
      body(i++);
      ++calls;
      elapsed = now() - begin;
    }
    best = std::min(best, elapsed / static_cast<double>(calls));
  }
  return best;
}

/// A weight in Q4_1's or Q8_0's manner; codes from a cheap generator.
struct Source : AffineSource {
  Source(std::int64_t r, std::int64_t c, int width) { rows = r; cols = c; bits = width; }
  void read(std::int64_t row, std::uint8_t* codes, float* scales, float* offsets) const override {
    std::uint32_t state = static_cast<std::uint32_t>(row) * 2654435761u + 1;
    for (std::int64_t c = 0; c < cols; ++c) {
      state = state * 1664525u + 1013904223u;
      codes[c] = static_cast<std::uint8_t>(state >> (32 - bits));
    }
    for (std::int64_t b = 0; b < cols / 32; ++b) {
      scales[b] = 0x1p-8f;
      offsets[b] = bits == 8 ? -128.0f * scales[b] : -0x1p-5f;
    }
  }
};

/// As the engine's activations: aligned.
View<float, 2> filled(Device& device, Buffer& buffer, std::int64_t rows, std::int64_t cols) {
  buffer = device.allocate(rows * cols * 4);
  const auto view = buffer.view<float, 2>({rows, cols});
  for (std::int64_t i = 0; i < view.size(); ++i) view.data[i] = static_cast<float>(i % 255) * 0.01f - 1.27f;
  return view;
}

struct Shape { std::int64_t rows, cols; int bits; };

void affine(Ops& ops, const Shape& shape, double seconds) {
  std::vector<std::unique_ptr<AffineWeight>> copies;
  std::int64_t bytes = 0;
  while (bytes < 96 << 20) {
    copies.push_back(ops.host().prepare_affine(Source(shape.rows, shape.cols, shape.bits)));
    bytes += copies.back()->bytes();
  }
  for (const std::int64_t tokens : {1, 5, 512}) {
    if (tokens == 512 && shape.rows > 10'000) continue;  // the head sees the last token only
    Buffer inputs, outputs;
    const auto x = filled(ops.device(), inputs, tokens, shape.cols), y = filled(ops.device(), outputs, tokens, shape.rows);
    std::vector<std::int8_t> codes(x.size());
    std::vector<float> scales(x.size() / 32);
    std::vector<std::int32_t> sums(scales.size());
    ops.host().quantize_q8(x, codes.data(), scales.data(), sums.data());
    const Q8Rows q = {tokens, shape.cols, shape.cols / 32, codes.data(), scales.data(), sums.data()};
    const double best = best_seconds(seconds, [&](std::int64_t i) {
      ops.host().matmul_affine(q, *copies[i % copies.size()], y);
    });
    fmt::print("{:>6} x {:<5} {:>2} bit  T {:>3}  {:9.1f} us  {:6.1f} GB/s  {:7.1f} Gop/s\n", shape.rows, shape.cols, shape.bits,
               tokens, best * 1e6, static_cast<double>(copies[0]->bytes()) / best * 1e-9,
               2.0 * static_cast<double>(tokens * shape.rows * shape.cols) / best * 1e-9);
    std::fflush(stdout);
  }
}

void fp32(Ops& ops, const Shape& shape, double seconds) {
  std::vector<float> w(shape.rows * shape.cols, 0.5f);
  for (const std::int64_t tokens : {1, 512}) {
    Buffer inputs, outputs;
    const auto x = filled(ops.device(), inputs, tokens, shape.cols), y = filled(ops.device(), outputs, tokens, shape.rows);
    const double best = best_seconds(seconds, [&](std::int64_t) {
      ops.host().matmul_decoded(x, shape.rows, [&](std::int64_t first, View<float, 2> out) {
        std::memcpy(out.data, w.data() + first * shape.cols, out.size() * sizeof(float));
      }, y);
    });
    fmt::print("{:>6} x {:<5} fp32    T {:>3}  {:9.1f} us  {:6.1f} GB/s  {:7.1f} GFLOP/s\n", shape.rows, shape.cols, tokens,
               best * 1e6, static_cast<double>(w.size() * 4) / best * 1e-9,
               2.0 * static_cast<double>(tokens * shape.rows * shape.cols) / best * 1e-9);
    std::fflush(stdout);
  }
}

void elementwise(Ops& ops, double seconds) {
  constexpr std::int64_t kCols = 576, kHidden = 1536;
  std::vector<float> weight(kCols, 1.0f), angles(8 * 64, 0.1f);
  for (const std::int64_t tokens : {1, 512}) {
    std::vector<float> x(tokens * kHidden, 0.3f), y(tokens * kHidden, 0.1f);
    std::vector<std::int8_t> codes(x.size());
    std::vector<float> scales(x.size() / 32);
    std::vector<std::int32_t> sums(scales.size()), positions(tokens, 7);
    const View<float, 2> a(x.data(), {tokens, kCols}), b(y.data(), {tokens, kCols});
    const View<float, 2> wide(x.data(), {tokens, kHidden}), factor(y.data(), {tokens, kHidden});
    const auto report = [&](const char* name, auto body) {
      fmt::print("{:<22} T {:>3}  {:9.2f} us\n", name, tokens, 1e6 * best_seconds(seconds, [&](std::int64_t) { body(); }));
    };
    report("quantize_q8 576", [&] { ops.host().quantize_q8(a, codes.data(), scales.data(), sums.data()); });
    report("rms_norm 576", [&] { ops.rms_norm(a, View<float, 1>(weight.data(), {kCols}), 1e-5f, b); });
    const View<float, 3> heads(x.data(), {tokens, 9, 64});
    const View<const std::int32_t, 1> places(positions.data(), {tokens});
    const View<const float, 2> rows_of_angles(angles.data(), {8, 64});
    report("rope 9 x 64", [&] { ops.rope(heads, places, {64, true, rows_of_angles}); });
    report("gated silu 1536", [&] { ops.gated(Gate::silu, wide, factor, factor); });
    report("add 576", [&] { ops.add(a, b); });
    report("empty loop of 2", [&] { ops.device().parallel_for(2, 1, [](std::int64_t, std::int64_t, int) {}); });
  }
}

PluginSpec spec(const std::string& type, const std::string& kernel, const std::string& threads) {
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  const auto set = [&](const char* key, const std::string& value) {
    Settings node;
    node.kind = Settings::Kind::scalar;
    node.text = value;
    node.where = "command line";
    settings->entries.emplace_back(key, node);
  };
  if (!kernel.empty()) set("kernel", kernel);
  set("threads", threads);
  return {type, settings};
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options = {
      {"--backend", "cpu"}, {"--kernel", ""}, {"--threads", "0"}, {"--seconds", "1"}, {"--only", ""}};
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--processor-time") {
      processor_time = true;
    } else if (options.contains(argv[i]) && i + 1 < argc) {
      options[argv[i]] = argv[i + 1];
      ++i;
    } else {
      fmt::print(stderr, "bench_kernels: {}: unknown or without a value; see the top of tests/bench/kernels.cpp\n", argv[i]);
      return 2;
    }
  }
  try {
    const auto backend = make<Backend>(spec(options["--backend"], options["--kernel"], options["--threads"]));
    const double seconds = std::stod(options["--seconds"]);
    const std::string only = options["--only"];
    Ops& ops = backend->ops();
    fmt::print("{} {}, {} threads\n", options["--backend"], ops.kernel(), ops.device().concurrency());
    if (only.empty() || only == "affine") {
      affine(ops, {576, 576, 4}, seconds);
      affine(ops, {192, 576, 4}, seconds);
      affine(ops, {1536, 576, 4}, seconds);
      affine(ops, {576, 1536, 4}, seconds);
      affine(ops, {1536, 576, 8}, seconds);
      affine(ops, {49152, 576, 8}, seconds);
    }
    if (only.empty() || only == "fp32") {
      for (const Shape& shape : {Shape{576, 576, 32}, {1536, 576, 32}, {576, 1536, 32}}) fp32(ops, shape, seconds);
    }
    if (only.empty() || only == "elementwise") elementwise(ops, seconds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return 1;
  }
  return 0;
}

// What every weight format promises, over every plugin found and every variant of its parameters.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "patchbay/half.h"
#include "patchbay/rounded_inputs.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;

namespace {

constexpr std::int64_t kRows = 7;  // an odd number

/// 3 groups of 64, or 2 super-blocks of 256.
std::int64_t columns_for(const WeightFormat& format) { return 192 % format.tile_columns(192) == 0 ? 192 : 512; }

/// Formats of 16 bits and more are floats: their codes are too many to try, but their error is relative.
bool is_float(const WeightFormat& format) { return format.bits_per_weight(kRows, columns_for(format)) >= 16; }

std::vector<KernelInfo> kernels_of(const std::string& name) {
  return Registry::instance().describe(Registry::instance().find("formats", name)).back().kernels;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// For each row of a tile the numbers it can be rounded to in `column`, found by rounding a fine ramp.
std::vector<std::vector<float>> grid_values(const Grid& grid, std::int64_t column, const std::vector<float>& largest) {
  constexpr int kSteps = 2048;
  const std::int64_t rows = largest.size();
  std::vector<std::vector<float>> found(largest.size());
  std::vector<float> values(largest.size()), decoded(largest.size());
  std::vector<std::int32_t> codes(largest.size());
  for (int i = -kSteps; i <= kSteps; ++i) {
    for (std::int64_t r = 0; r < rows; ++r) values[r] = 2.5f * largest[r] * static_cast<float>(i) / kSteps;
    grid.round(column, {values.data(), {rows}}, {codes.data(), {rows}}, {decoded.data(), {rows}});
    for (std::int64_t r = 0; r < rows; ++r) found[r].push_back(decoded[r]);
  }
  for (auto& row : found) {
    if (!std::is_sorted(row.begin(), row.end())) std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return found;
}

float nearest_distance(const std::vector<float>& values, float w) {
  float best = std::numeric_limits<float>::infinity();
  for (float value : values) best = std::min(best, std::fabs(w - value));
  return best;
}
float widest_gap(const std::vector<float>& values) {
  float gap = 0;
  for (std::size_t i = 1; i < values.size(); ++i) gap = std::max(gap, values[i] - values[i - 1]);
  return gap;
}

/// Every weight is rounded to the nearest number of its grid, and the grid spans the tile (one step short at one end is allowed:
/// Q4_0). Slack: a scale rounded to fp16 after the codes were chosen, as ggml does, moves a code by up to 127 * 2^-11 steps, and
/// an fp16 offset by 2^-11 of itself; and a scale is a multiple of 2^-24.
void check_nearest(const WeightFormat& format, const Matrix& w, const Matrix& decoded) {
  constexpr std::int64_t kShared = 16;  // columns that have one grid in every format
  const std::int64_t width = format.tile_columns(w.cols);
  for (std::int64_t tile = 0; tile < w.cols; tile += width) {
    const auto grid = format.fit(View<const float, 2>(w.values.data() + tile, {w.rows, width}, {w.cols, 1}), {});
    for (std::int64_t first = tile; first < tile + width; first += kShared) {
      std::vector<float> largest(static_cast<std::size_t>(w.rows));
      for (std::int64_t r = 0; r < w.rows; ++r)
        for (std::int64_t c = tile; c < tile + width; ++c) largest[r] = std::max(largest[r], std::fabs(w.at(r, c)));
      const auto values = grid_values(*grid, first - tile, largest);
      for (std::int64_t r = 0; r < w.rows; ++r) {
        const float gap = widest_gap(values[r]), slack = 0.07f * gap + 0x1p-11f * largest[r] + 127 * 0x1p-25f;
        for (std::int64_t c = first; c < first + kShared; ++c) {
          const float error = std::fabs(w.at(r, c) - decoded.at(r, c));
          INFO("row " << r << " column " << c << " weight " << w.at(r, c) << " became " << decoded.at(r, c));
          REQUIRE(error <= nearest_distance(values[r], w.at(r, c)) + slack);
          REQUIRE(error <= gap + slack);
        }
      }
    }
  }
}

/// Half a step of bf16, and of fp16 below its normal numbers.
void check_relative(const Matrix& w, const Matrix& decoded) {
  for (std::size_t i = 0; i < w.values.size(); ++i)
    REQUIRE(std::fabs(w.values[i] - decoded.values[i]) <= std::fabs(w.values[i]) * 0x1p-8f + 0x1p-25f);
}

std::string unhex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// x w^T in double, and what its terms add up to without their signs: the measure of rounding.
void reference_product(View<const float, 2> x, const Matrix& w, std::vector<double>& y, std::vector<double>& size) {
  y.assign(static_cast<std::size_t>(x.shape[0] * w.rows), 0.0);
  size = y;
  for (std::int64_t t = 0; t < x.shape[0]; ++t)
    for (std::int64_t r = 0; r < w.rows; ++r)
      for (std::int64_t c = 0; c < w.cols; ++c) {
        const double term = static_cast<double>(x(t, c)) * w.at(r, c);
        y[t * w.rows + r] += term;
        size[t * w.rows + r] += std::fabs(term);
      }
}

}  // namespace

TEST_CASE("formats: the parts are laid out as stated, and their bytes are the bits per weight") {
  for (const auto& format : all_formats()) {
    INFO(format->label());
    const std::int64_t cols = columns_for(*format);
    const auto parts = format->layout(kRows, cols);
    const auto packed = format->allocate("w", kRows, cols, host_backend().device());
    REQUIRE(packed.parts.size() == parts.size());
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      bytes += parts[i].bytes();
      REQUIRE(packed.parts[i].dtype == parts[i].dtype);
      REQUIRE(packed.parts[i].rank == static_cast<int>(parts[i].shape.size()));
      for (std::size_t k = 0; k < parts[i].shape.size(); ++k) REQUIRE(packed.parts[i].shape[k] == parts[i].shape[k]);
    }
    REQUIRE(format->bits_per_weight(kRows, cols) == Approx(8.0 * bytes / (kRows * cols)).epsilon(1e-12));
    REQUIRE(cols % format->tile_columns(cols) == 0);
  }
}

TEST_CASE("formats: decode gives exactly what rounding promised, near the weights, whatever they are") {
  for (const auto& format : all_formats()) {
    const std::int64_t cols = columns_for(*format);
    for (const auto& [kind, w] : weights_of_many_kinds(kRows, cols)) {
      INFO(format->label() << ", " << kind);
      Matrix promised(kRows, cols), decoded(kRows, cols);
      const auto packed = round_to_format(*format, w, host_backend().device(), promised);
      format->decode(packed, 0, decoded.view());
      REQUIRE(same_bits(promised.values, decoded.values));
      for (float value : decoded.values) REQUIRE(std::isfinite(value));
      if (is_float(*format)) check_relative(w, decoded); else check_nearest(*format, w, decoded);
    }
  }
}

TEST_CASE("formats: tiles share no byte, and only the first says something: several threads may pack them") {
  for (const auto& format : all_formats()) {
    INFO(format->label());
    const Matrix w = normal_matrix(kRows, 1024, 0.05f, 3);
    const std::int64_t width = format->tile_columns(w.cols);
    PackedWeight packed = format->allocate("w", w.rows, w.cols, host_backend().device());
    const auto parts = format->layout(w.rows, w.cols);
    std::vector<std::vector<std::int64_t>> owners;  // by part and byte: the tile that wrote it
    for (const auto& part : parts) owners.emplace_back(static_cast<std::size_t>(part.bytes()), -1);
    for (std::int64_t first = 0; first < w.cols; first += width) {
      const auto grid = format->fit(View<const float, 2>(w.values.data() + first, {w.rows, width}, {w.cols, 1}), {});
      std::vector<std::int32_t> codes(static_cast<std::size_t>(w.rows * width));
      std::vector<float> decoded(static_cast<std::size_t>(w.rows));
      for (std::int64_t c = 0; c < width; ++c)
        grid->round(c, {&w.values[first + c], {w.rows}, {w.cols}}, {&codes[c], {w.rows}, {width}}, {decoded.data(), {w.rows}});
      for (const int before : {0x00, 0xff}) {
        for (std::size_t p = 0; p < parts.size(); ++p) std::memset(packed.parts[p].data, before, owners[p].size());
        packed.note.clear();
        format->pack(*grid, first, View<const std::int32_t, 2>(codes.data(), {w.rows, width}), packed);
        if (first > 0) REQUIRE(packed.note.empty());
        for (std::size_t p = 0; p < parts.size(); ++p)
          for (std::size_t i = 0; i < owners[p].size(); ++i) {
            if (static_cast<const std::uint8_t*>(packed.parts[p].data)[i] == before) continue;
            REQUIRE((owners[p][i] == -1 || owners[p][i] == first));
            owners[p][i] = first;
          }
      }
    }
  }
}

TEST_CASE("formats: any range of rows decodes as the whole does") {
  for (const auto& format : all_formats()) {
    INFO(format->label());
    const std::int64_t cols = columns_for(*format);
    const Matrix w = normal_matrix(kRows, cols, 0.05f, 11);
    Matrix whole(kRows, cols);
    const auto packed = round_to_format(*format, w, host_backend().device(), whole);
    for (std::int64_t first = 0; first < kRows; ++first) {
      Matrix some(std::min<std::int64_t>(3, kRows - first), cols);
      format->decode(packed, first, some.view());
      REQUIRE(std::memcmp(some.values.data(), &whole.values[first * cols], some.values.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("formats: a weight without a code is refused, and values far outside a tile stay finite") {
  for (const auto& format : all_formats()) {
    INFO(format->label());
    const std::int64_t width = format->tile_columns(columns_for(*format));
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Matrix w = normal_matrix(kRows, width, 0.05f, 12);
      w.at(3, width / 2) = bad;
      REQUIRE_THROWS_AS(format->fit(w.view(), {}), Error);
    }
    const Matrix w = normal_matrix(1, width, 0.05f, 13);
    const auto grid = format->fit(w.view(), {});
    for (float far : {1e30f, -1e30f}) {
      std::int32_t code = 0;
      float decoded = 0;
      grid->round(0, {&far, {1}}, {&code, {1}}, {&decoded, {1}});
      REQUIRE(std::isfinite(decoded));
    }
    const Matrix enormous = normal_matrix(1, width, 1e30f, 14);  // past what an fp16 scale can hold: refused, or held
    try {
      Matrix decoded(1, width);
      round_to_format(*format, enormous, host_backend().device(), decoded);
      for (float value : decoded.values) REQUIRE(std::isfinite(value));
    } catch (const Error& error) {
      REQUIRE_FALSE(error.remedy().empty());
    }
  }
}

TEST_CASE("formats: a shape that does not fit is an error that names it") {
  for (const auto& format : all_formats()) {
    INFO(format->label());
    REQUIRE_THROWS_AS(format->layout(0, columns_for(*format)), Error);
    REQUIRE_THROWS_AS(format->layout(kRows, 0), Error);
    for (std::int64_t cols : {1, 31, 100, 577}) {
      try {
        format->layout(kRows, cols);
        REQUIRE(cols % format->tile_columns(cols) == 0);
      } catch (const Error& error) {
        REQUIRE(error.problem().find(std::to_string(cols)) != std::string::npos);
        REQUIRE_FALSE(error.allowed().empty());
      }
    }
  }
}

TEST_CASE("formats: a product equals decode, then multiply, whatever the kernel and the mode") {
  constexpr std::int64_t kOutputs = 70;  // no multiple of a vector
  for (const auto& name : Registry::instance().names("formats")) {
    for (const auto& spec : variants("formats", name)) {
      const std::int64_t cols = columns_for(*make<WeightFormat>(spec));
      const Matrix w = normal_matrix(kOutputs, cols, 0.05f, 21), inputs = normal_matrix(33, cols, 1.0f, 22);
      for (const KernelInfo& info : kernels_of(name)) {
        const std::string kernel(info.name);
        if (info.available && !info.available()) continue;
        auto settings = std::make_shared<Settings>(*spec.settings);
        settings->entries.push_back(spec_of(name, {{"kernel", kernel}}).settings->entries[0]);
        const auto format = make<WeightFormat>({name, settings});
        Matrix decoded(kOutputs, cols);
        const auto packed = round_to_format(*format, w, host_backend().device(), decoded);
        for (ActivationMode mode : {ActivationMode::fp32, ActivationMode::q8}) {
          INFO(format->label() << " kernel " << kernel << " activations " << (mode == ActivationMode::q8 ? "q8" : "fp32"));
          if (info.backend != "cpu") {
            REQUIRE_THROWS_WITH(format->prepare(packed, host_backend().ops(), mode), Catch::Contains("is of backend " + std::string(info.backend)));
            continue;
          }
          const auto rounding = input_rounding_of(format.get());  // by the format itself, whatever the mode
          if (kernel == "integer" && mode == ActivationMode::fp32 && !rounding) {
            REQUIRE_THROWS_WITH(format->prepare(packed, host_backend().ops(), mode), Catch::Contains("activations"));
            continue;
          }
          const auto product = format->prepare(packed, host_backend().ops(), mode);
          if (kernel != "auto") REQUIRE_THAT(product->path(), Catch::Contains(":" + kernel + "/"));
          REQUIRE_THAT(product->path(), Catch::StartsWith(format->label()));
          std::vector<float> first_row;
          for (std::int64_t tokens : {33, 5, 1}) {
            Matrix y(tokens, kOutputs);
            Activation x(mode, host_backend().ops());
            x.reset(View<const float, 2>(inputs.values.data(), {tokens, cols}));
            product->run(x, y.view());
            std::vector<double> expected, size;
            const auto rounded = input_rounding_of(product.get());
            reference_product((rounded ? rounded_values(x, host_backend().ops(), *rounded) : x.values()).as<const float, 2>(), decoded, expected, size);
            for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(std::fabs(y.values[i] - expected[i]) <= 1e-5 * size[i]);
            if (rounded && rounded->scale == RowRounding::Scale::tensor) continue;
            y.values.resize(kOutputs);
            if (first_row.empty()) first_row = y.values;
            REQUIRE(same_bits(first_row, y.values));  // no output depends on its batch
          }
        }
      }
    }
  }
}

TEST_CASE("formats: on an emulated GPU each kernel multiplies what decode says, and the record names it") {
  constexpr std::int64_t kOutputs = 21;
  const auto backends = Registry::instance().names("backends");
  PATCHBAY_NEEDS(std::string(std::count(backends.begin(), backends.end(), "simt") ? "simt" : ""), "backend simt");
  const auto simt = make<Backend>(spec_of("simt", {{"checked", "true"}}));
  Device& device = simt->device();
  for (const auto& name : Registry::instance().names("formats")) {
    for (const KernelInfo& info : kernels_of(name)) {
      if (info.backend != "cuda" || info.name == "cublas") continue;
      const auto format = make<WeightFormat>(spec_of(name, {{"kernel", std::string(info.name)}}));
      const std::int64_t cols = columns_for(*format);
      const Matrix w = normal_matrix(kOutputs, cols, 0.05f, 21), inputs = normal_matrix(5, cols, 1.0f, 22);
      Matrix decoded(kOutputs, cols);
      const auto packed = round_to_format(*format, w, host_backend().device(), decoded);
      const auto product = format->prepare(packed, simt->ops(), ActivationMode::fp32);
      INFO(product->path());
      REQUIRE_THAT(product->path(), Catch::StartsWith(format->label() + ":") && Catch::Contains(std::string(info.name)));
      for (std::int64_t tokens : {5, 1}) {  // of either phase
        std::vector<Half> bits(static_cast<std::size_t>(tokens * cols));
        Matrix x(tokens, cols), y(tokens, kOutputs);
        for (std::size_t i = 0; i < bits.size(); ++i) x.values[i] = to_float(bits[i] = to_half(inputs.values[i]));
        const Buffer x_there = device.allocate(tokens * cols * 2), y_there = device.allocate(tokens * kOutputs * 4);
        device.copy(View<Half, 2>(bits.data(), {tokens, cols}), x_there.tensor(DType::f16, {tokens, cols}));
        Activation input(ActivationMode::fp32, simt->ops());
        input.reset(x_there.tensor(DType::f16, {tokens, cols}));
        product->run(input, y_there.tensor(DType::f32, {tokens, kOutputs}));
        device.copy(y_there.tensor(DType::f32, {tokens, kOutputs}), y.view());
        std::vector<double> expected, size;
        Activation seen(ActivationMode::fp32, host_backend().ops());
        seen.reset(x.view());
        const auto rounded = input_rounding_of(product.get());
        reference_product((rounded ? rounded_values(seen, host_backend().ops(), *rounded) : seen.values()).as<const float, 2>(), decoded, expected, size);
        const double allowed = product->path().find("tensor_core") == std::string::npos ? 1e-5 : 1e-3;  // weights rounded to fp16
        for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(std::fabs(y.values[i] - expected[i]) <= allowed * size[i]);
      }
    }
  }
}

TEST_CASE("formats: GGUF blocks decode as the gguf package does, bit for bit, from any address") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/gguf_blocks/blocks.json")));
  const std::map<std::string, std::string> names = {{"F16", "fp16"},  {"BF16", "bf16"}, {"Q4_0", "q4_0"}, {"Q4_1", "q4_1"},
                                                    {"Q5_0", "q5_0"}, {"Q5_1", "q5_1"}, {"Q8_0", "q8_0"},
                                                    {"Q2_K", "q2_k"}, {"Q3_K", "q3_k"}, {"Q4_K", "q4_k"}, {"Q5_K", "q5_k"}, {"Q6_K", "q6_k"},
                                                    {"Q8_K", "q8_k"}, {"IQ4_NL", "iq4_nl"}, {"IQ4_XS", "iq4_xs"}};
  for (const auto& [type, name] : names) {
    INFO(name);
    const auto format = make<WeightFormat>({name, nullptr});
    const std::string shifted = "x" + unhex(golden.at("types").at(type).at("blocks"));  // off by one: misaligned
    const std::string values = unhex(golden.at("types").at(type).at("values"));
    const std::int64_t cols = values.size() / sizeof(float);
    const auto spec = format->layout(1, cols).at(0);
    REQUIRE(spec.bytes() == static_cast<std::int64_t>(shifted.size()) - 1);
    PackedWeight w{name, 1, cols, {}, nullptr, {}};
    TensorRef part;
    part.data = const_cast<char*>(shifted.data() + 1);
    part.dtype = spec.dtype;
    part.rank = 2;
    part.shape = {1, spec.shape[1]};
    part.strides = {spec.shape[1], 1};
    w.parts = {part};
    Matrix decoded(1, cols);
    format->decode(w, 0, decoded.view());
    REQUIRE(std::memcmp(decoded.values.data(), values.data(), values.size()) == 0);
  }
}

TEST_CASE("formats: GGUF blocks are written as the gguf package writes them, byte for byte") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/gguf_quantize/quantized.json")));
  const std::string bytes = unhex(golden.at("weights"));
  const std::int64_t cols = golden.at("columns"), rows = bytes.size() / sizeof(float) / cols;
  Matrix w(rows, cols);
  std::memcpy(w.values.data(), bytes.data(), bytes.size());
  for (const auto& [name, blocks] : golden.at("blocks").items()) {
    const auto format = make<WeightFormat>({name, nullptr});
    Matrix decoded(rows, cols);
    const auto packed = round_to_format(*format, w, host_backend().device(), decoded);
    const std::string expected = unhex(blocks);
    REQUIRE(static_cast<std::int64_t>(expected.size()) == format->layout(rows, cols).at(0).bytes());
    const std::int64_t row_bytes = expected.size() / rows;
    for (std::int64_t r = 0; r < rows; ++r) {
      INFO(name << " row " << r);
      REQUIRE(std::memcmp(static_cast<const char*>(packed.parts[0].data) + r * row_bytes, &expected[r * row_bytes], row_bytes) == 0);
    }
  }
}

// What is particular to gptq: the paper's codes, its objective against rounding to nearest on every layer of a real model, and the layers that
// break careless linear algebra.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "config.h"
#include "patchbay/half.h"
#include "patchbay/integer_codes.h"
#include "patchbay/quantizer.h"
#include "quantize/calibration_tokens.h"
#include "quantize/gathering.h"
#include "quantize/quantize_matrix.h"
#include "run_config.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

std::string text(bool value) { return value ? "true" : "false"; }

/// Inputs as calibration sums them up.
struct Inputs {
  Matrix x, hessian;
  Statistics statistics;
  explicit Inputs(Matrix rows) : x(std::move(rows)), hessian(x.cols, x.cols) {
    for (std::int64_t t = 0; t < x.rows; ++t)
      for (std::int64_t i = 0; i < x.cols; ++i)
        for (std::int64_t j = 0; j < x.cols; ++j) hessian.at(i, j) += 2 * x.at(t, i) * x.at(t, j) / static_cast<float>(x.rows);
    statistics.tokens = x.rows;
    statistics.hessian = std::as_const(hessian).view();
  }
};

/// Neighbours are correlated, and some columns are much larger than others, as in a language model.
Inputs layer_inputs(std::int64_t tokens, std::int64_t cols) {
  Matrix x = normal_matrix(tokens, cols, 1.0f, 51);
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t c = 1; c < cols; ++c) x.at(t, c) = 0.6f * x.at(t, c - 1) + 0.8f * x.at(t, c);
    for (std::int64_t c = 0; c < cols; c += 17) x.at(t, c) *= 6.0f;
  }
  return Inputs(std::move(x));
}

struct Result {
  PackedWeight packed;
  Matrix decoded;
};

Result quantized(const std::string& quantizer, const Values& settings, const WeightFormat& format, const Matrix& w, const Statistics& statistics) {
  Result result{format.allocate("w", w.rows, w.cols, host_backend().ops().device()), Matrix(w.rows, w.cols)};
  make<Quantizer>(spec_of(quantizer, settings))->quantize(w.view(), statistics, format, host_backend().ops().device(), result.packed);
  format.decode(result.packed, 0, result.decoded.view());
  return result;
}
Result gptq(const Values& settings, const WeightFormat& format, const Matrix& w, const Statistics& statistics) {
  return quantized("gptq", settings, format, w, statistics);
}

std::shared_ptr<WeightFormat> int_grouped(int bits, int group, bool keeps_order = false) {
  return make<WeightFormat>(spec_of("int_grouped", {{"bits", std::to_string(bits)}, {"group_size", std::to_string(group)}, {"column_order", text(keeps_order)}}));
}

/// Codes as int_grouped stores them, with its order of columns; decoding must undo that order.
IntegerCodes stored_codes(const WeightFormat& format, const Result& result) {
  IntegerCodes stored = dynamic_cast<const HoldsIntegerCodes&>(format).integer_codes(result.packed);
  for (std::int64_t i = 0; i < std::ssize(stored.codes); ++i) {
    const std::int64_t r = i / stored.cols, place = i % stored.cols, group = r * stored.groups() + place / stored.group;
    const float value = to_float(stored.scales[group]) * static_cast<float>(stored.codes[i] - stored.zeros[group]);
    REQUIRE(result.decoded.at(r, stored.order.empty() ? place : stored.order[place]) == value);
  }
  return stored;
}

Matrix from_hex(const std::string& hex, std::int64_t rows, std::int64_t cols) {
  Matrix m(rows, cols);
  for (std::size_t i = 0; i < m.values.size(); ++i) {
    const int low = std::stoi(hex.substr(4 * i, 2), nullptr, 16), high = std::stoi(hex.substr(4 * i + 2, 2), nullptr, 16);
    m.values[i] = to_float(Half{static_cast<std::uint16_t>(high << 8 | low)});
  }
  return m;
}

/// trace of (w - w') H (w - w')^T
double objective(const Matrix& w, const Matrix& decoded, View<const float, 2> hessian) {
  Matrix error(w.rows, w.cols), product(w.rows, w.cols);
  std::ranges::transform(w.values, decoded.values, error.values.begin(), std::minus<>());
  host_backend().ops().matmul_stored(error.view(), hessian, product.view());
  return std::inner_product(error.values.begin(), error.values.end(), product.values.begin(), 0.0, std::plus<>(), [](float a, float b) { return double{a} * b; });
}

bool all_finite(const Matrix& m) {
  return std::ranges::all_of(m.values, [](float value) { return std::isfinite(value); });
}

}  // namespace

TEST_CASE("gptq: numpy's codes, with and without order, fixed scales, at several widths, groups and dampings") {
  const auto golden = nlohmann::json::parse(read_file(source_path("tests/golden/gptq/codes.json")));
  const std::int64_t rows = golden.at("rows"), cols = golden.at("columns");
  const Matrix w = from_hex(golden.at("weights"), rows, cols);
  const Inputs inputs(from_hex(golden.at("inputs"), golden.at("tokens"), cols));
  REQUIRE(golden.at("cases").size() == 108);
  std::int64_t same = 0, all = 0;
  for (const auto& one : golden.at("cases")) {
    const int bits = one.at("bits"), group = one.at("group_size");
    const std::string order = one.at("order");
    const bool ordered = order == "desc_act", fixed = one.at("static_groups");
    const std::string damp = one.at("damp_percent").dump(), expected = one.at("codes");
    for (const auto& [precision, block] : {std::pair("fp64", "128"), {"fp32", "16"}, {"fp32", "7"}}) {
      const auto format = int_grouped(bits, group, true);
      const Result result = gptq({{"damp_percent", damp}, {"act_group_aware", text(order == "act_group_aware")}, {"desc_act", text(ordered)}, {"static_groups", text(fixed)}, {"precision", precision},
                                  {"block_size", block}}, *format, w, inputs.statistics);
      const IntegerCodes stored = stored_codes(*format, result);
      REQUIRE(stored.order.empty() == !(ordered && !fixed && group > 0));
      std::int64_t equal = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t place = 0; place < cols; ++place) {
          const std::int64_t column = stored.order.empty() ? place : stored.order[place];
          equal += stored.codes[r * cols + place] == std::stoi(expected.substr(r * cols + column, 1), nullptr, 16);
        }
      INFO("bits " << bits << ", group " << group << ", damping " << damp << ", order " << order << ", static " << fixed << ", " << precision << ", block " << block);
      CHECK(equal >= 0.97 * rows * cols);  // where two codes are as near, the columns behind see another error
      same += equal;
      all += rows * cols;
    }
  }
  INFO(same << " of " << all << " codes are the same");
  REQUIRE(same >= 0.999 * all);
}

TEST_CASE("gptq: on every layer of a model its objective is smaller than rounding to nearest's, at 2, 3 and 4 bits") {
  const auto file = ModelFile::open(source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf"));
  const RunConfig config = read_run_config(parse_yaml("activations: fp32", "t.yaml"));
  const Placement placement{&host_backend().ops(), &host_backend().ops(), 0};
  CalibrationSettings settings;
  settings.text = source_path("data/tiny-shakespeare/calibration.txt");
  settings.samples = 16;
  settings.length = 64;
  ModelSpec spec = read_model_spec(*file);
  const auto tokens = calibration_tokens(settings, *make_tokenizer(*file), spec.context);
  ModelWeights weights = load_outside(file, spec, config, placement, {});
  weights.blocks.resize(static_cast<std::size_t>(spec.layers));
  SampleRunner samples(spec, weights, tokens.samples, host_backend().ops());
  const WeightPlan plan;
  int compared = 0;
  for (int layer = 0; layer < spec.layers; ++layer) {
    weights.blocks[static_cast<std::size_t>(layer)] = load_block(file, spec, config, placement, {}, layer);
    EditableBlock block(weights.blocks[static_cast<std::size_t>(layer)], spec, plan, layer, false, host_backend().ops());
    gather(block, samples, {layer, BlockPart::attention, BlockPart::feed_forward, {}, {.hessian = true}}, host_backend().ops());
    for (const LayerInput& input : block.inputs()) {
      for (const BlockMatrix* matrix : input.readers) {
        Matrix w(matrix->stored.rows, matrix->stored.cols);
        matrix->linear->format->decode(matrix->linear->packed, 0, w.view());
        for (const int bits : {2, 3, 4}) {
          const auto format = int_grouped(bits, 32);
          const Matrix nearest = quantized("rtn", {}, *format, w, {}).decoded, ours = gptq({}, *format, w, input.statistics).decoded;
          const View<const float, 2> h = input.statistics.hessian;
          INFO(matrix->name() << " at " << bits << " bits");
          CHECK(objective(w, ours, h) < objective(w, nearest, h));
          ++compared;
        }
      }
    }
    samples.run(layer, BlockPart::attention, BlockPart::feed_forward, true);
  }
  REQUIRE(compared == 7 * 4 * 3);
}

TEST_CASE("gptq: each of its options helps on the layers it is meant for, and the record says what was done") {
  const Inputs inputs = layer_inputs(512, 256);
  const Matrix w = normal_matrix(48, 256, 0.05f, 52);
  const auto loss = [&](const Values& settings, const WeightFormat& format) {
    return objective(w, gptq(settings, format, w, inputs.statistics).decoded, inputs.statistics.hessian);
  };
  const auto grouped = int_grouped(3, 32), ordered = int_grouped(3, 32, true);
  const Values as_they_lie = {{"act_group_aware", "false"}};
  CHECK(loss({{"desc_act", "true"}}, *ordered) < loss({}, *grouped));  // large inputs first
  CHECK(loss({}, *grouped) < loss(as_they_lie, *grouped));
  CHECK(loss({{"desc_act", "true"}, {"static_groups", "true"}}, *grouped) < loss({{"act_group_aware", "false"}, {"static_groups", "true"}}, *grouped));
  CHECK(loss({{"mse", "true"}}, *grouped) < loss({}, *grouped));
  const auto note = [&](const Values& settings, const WeightFormat& format) { return gptq(settings, format, w, inputs.statistics).packed.note; };
  CHECK(note({}, *grouped) == "damping 0.01");
  CHECK(note({{"desc_act", "true"}}, *ordered) == "damping 0.01");
  CHECK(note({{"desc_act", "true"}}, *grouped) == "damping 0.01, scales fitted beforehand, since int_grouped/b3/g32 keeps no order of columns");
  CHECK(note({{"desc_act", "true"}}, *int_grouped(3, -1)) == "damping 0.01");  // one tile: any order will do
  CHECK(gptq({{"desc_act", "true"}}, *grouped, w, inputs.statistics).decoded.values ==
        gptq({{"desc_act", "true"}, {"static_groups", "true"}}, *grouped, w, inputs.statistics).decoded.values);
}

TEST_CASE("gptq: layers that break linear algebra get a good answer") {
  constexpr std::int64_t kRows = 16, kCols = 256;
  struct Layer {
    std::string name;
    Matrix w, x;
  };
  std::vector<Layer> layers;
  const Matrix w = normal_matrix(kRows, kCols, 0.05f, 53), x = layer_inputs(512, kCols).x;
  layers.push_back({"one column of weights a million times the rest", w, x});
  for (std::int64_t r = 0; r < kRows; ++r) layers.back().w.at(r, 100) *= 1e6f;
  layers.push_back({"one input a million times the rest", w, x});
  for (std::int64_t t = 0; t < x.rows; ++t) layers.back().x.at(t, 100) *= 1e6f;
  layers.push_back({"an all-zero layer", Matrix(kRows, kCols), x});
  layers.push_back({"inputs that are all zero", w, Matrix(512, kCols)});
  layers.push_back({"a constant row", w, x});
  for (std::int64_t c = 0; c < kCols; ++c) layers.back().w.at(3, c) = 0.3f;
  layers.push_back({"fewer samples than columns", w, normal_matrix(20, kCols, 1.0f, 54)});
  layers.push_back({"one sample", w, normal_matrix(1, kCols, 1.0f, 55)});
  layers.push_back({"a Hessian of rank 1", w, Matrix(512, kCols)});
  for (std::int64_t t = 0; t < 512; ++t)
    for (std::int64_t c = 0; c < kCols; ++c) layers.back().x.at(t, c) = x.at(t, 0) * x.at(0, c);
  layers.push_back({"twin columns", w, x});
  for (std::int64_t t = 0; t < 512; ++t)
    for (std::int64_t c = 0; c < kCols; c += 2) layers.back().x.at(t, c + 1) = layers.back().x.at(t, c);
  for (const Layer& layer : layers) {
    const Inputs inputs(layer.x);
    for (const char* type : {"int_grouped", "q4_k", "q4_0"}) {
      for (const Values& settings : {Values{}, Values{{"damp_percent", "0"}}, Values{{"damp_percent", "0"}, {"precision", "fp32"}, {"desc_act", "true"}}, Values{{"mse", "true"}}}) {
        INFO(layer.name << ", " << type << (settings.empty() ? "" : ", " + settings.front().first));
        const auto format = make<WeightFormat>({type, nullptr});
        const Result ours = gptq(settings, *format, layer.w, inputs.statistics);
        INFO(ours.packed.note);
        REQUIRE(all_finite(ours.decoded));
        const Matrix nearest = quantized("rtn", {}, *format, layer.w, {}).decoded;
        const double loss = objective(layer.w, ours.decoded, inputs.statistics.hessian);
        CHECK(loss <= 1.05 * objective(layer.w, nearest, inputs.statistics.hessian));
      }
    }
  }
}

TEST_CASE("gptq: dead columns are rounded to nearest and change no other; damping rises and says so; few tokens are named") {
  const Matrix w = normal_matrix(16, 128, 0.05f, 56);
  Matrix x = layer_inputs(256, 128).x;
  const auto format = int_grouped(4, 32);
  for (std::int64_t t = 0; t < x.rows; ++t) x.at(t, 40) = x.at(t, 127) = 0;
  const Inputs inputs(x);
  const Result ours = gptq({{"static_groups", "true"}}, *format, w, inputs.statistics);
  const Matrix nearest = quantized("rtn", {}, *format, w, {}).decoded;
  REQUIRE_THAT(ours.packed.note, Contains("dead columns 2"));
  for (std::int64_t r = 0; r < w.rows; ++r) {
    CHECK(ours.decoded.at(r, 40) == nearest.at(r, 40));
    CHECK(ours.decoded.at(r, 127) == nearest.at(r, 127));
  }
  Matrix same(64, 128);  // rank 1, undamped: there is no factor
  std::fill(same.values.begin(), same.values.end(), 1.0f);
  const Inputs rank_one(same);
  const Result raised = gptq({{"damp_percent", "0"}}, *format, w, rank_one.statistics);
  CHECK_THAT(raised.packed.note, Contains("raised until the Hessian had a factor") && Contains("fewer tokens (64) than columns"));
}

TEST_CASE("gptq: where no token came by it rounds to nearest") {  // known fault Q08: an expert that the router never chose
  const Matrix w = normal_matrix(16, 128, 0.05f, 57);
  const auto format = int_grouped(4, 32);
  const Result ours = gptq({}, *format, w, {});
  CHECK(all_finite(ours.decoded));
  CHECK(ours.decoded.values == quantized("rtn", {}, *format, w, {}).decoded.values);
}

TEST_CASE("gptq: weights of one sign keep their zero points") {  // known fault Q03
  Matrix w = normal_matrix(8, 128, 0.1f, 58, 1.0f);
  for (float& value : w.values) value = std::fabs(value);
  const auto inputs = layer_inputs(256, 128);
  const auto format = int_grouped(4, 32);
  const Result ours = gptq({}, *format, w, inputs.statistics);
  for (std::int64_t i = 0; i < w.rows * w.cols; ++i) CHECK(std::fabs(ours.decoded.values[i] - w.values[i]) < 0.5f);
}

TEST_CASE("gptq: weights and Hessians that are not finite are refused, naming the layer") {
  const auto format = int_grouped(4, 32);
  const auto quantizer = make<Quantizer>({"gptq", nullptr});
  const Inputs inputs = layer_inputs(256, 128);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Matrix w = normal_matrix(8, 128, 0.05f, 59);
    const auto refusal = [&](const Statistics& statistics) {
      return message_of([&] { quantize_matrix("blk.3.ffn_down.weight", w.view(), statistics, *quantizer, format, host_backend().ops().device()); });
    };
    Inputs spoilt = inputs;
    spoilt.hessian.at(7, 9) = bad;
    spoilt.statistics.hessian = std::as_const(spoilt.hessian).view();
    CHECK_THAT(refusal(spoilt.statistics), Contains("blk.3.ffn_down.weight") && Contains("Hessian") && Contains("column 7"));
    w.at(5, 70) = bad;
    CHECK_THAT(refusal(inputs.statistics), Contains("blk.3.ffn_down.weight") && Contains("row 5"));
  }
}

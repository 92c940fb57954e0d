// What every transform promises, over every plugin found: the model that it makes computes the same. awq's clamping is the one part that
// chooses weights, as a quantizer does: it is off where equality is asked for (plugins/transforms/awq/awq_test.cpp has what it promises).
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "config.h"
#include "patchbay/group_scaling.h"
#include "patchbay/quantizer.h"
#include "quantize/gathering.h"
#include "quantize/rotations.h"
#include "session.h"
#include "support.h"
#include "weight_support.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Contains;

namespace {

constexpr std::int64_t kTokens = 96, kCols = 64;

Backend& backend(const char* threads = "0") {
  static std::map<std::string, std::shared_ptr<Backend>> backends;
  auto& made = backends[threads];
  if (!made) made = make<Backend>(spec_of("cpu", {{"threads", threads}}));
  return *made;
}

bool clamps(const PluginSpec& spec) {
  const Settings* clip = spec.settings ? spec.settings->find("clip") : nullptr;
  return clip && clip->text == "true";
}

template <class Body>
void for_each_transform(Body body) {
  for (const auto& name : Registry::instance().names("transforms"))
    for (const auto& spec : variants("transforms", name)) {
      const Settings* count = spec.settings ? spec.settings->find("count") : nullptr;
      if (count && std::stoll(count->text) >= kCols) continue;  // outliers leave at least one channel as it is
      std::string shown = name;
      for (const auto& [key, value] : spec.settings->entries) shown += " " + key + "=" + value.text;
      INFO(shown);
      body(*make<Transform>(spec), spec);
    }
}

/// A group with all that it points to: u (T, inputs) goes through a norm's weights, or through the producer, and becomes x.
struct Scene {
  Matrix u{kTokens, kCols}, producer{0, 0};
  std::vector<float> norm_weight, norm_bias, producer_bias;
  std::vector<Matrix> weights;
  std::vector<std::vector<float>> biases;
  LinearGroup group;
  Matrix x{kTokens, kCols}, hessian{kCols, kCols};
  std::vector<float> moments = std::vector<float>(kCols), largest = moments;

  Matrix input() const {
    Matrix made(kTokens, kCols);
    for (std::int64_t t = 0; t < kTokens; ++t)
      for (std::int64_t c = 0; c < kCols; ++c) {
        double value = u.at(t, std::min(c, u.cols - 1));
        if (!norm_weight.empty()) value = value * norm_weight[c] + (norm_bias.empty() ? 0 : norm_bias[c]);
        if (producer.rows > 0) {
          const std::int32_t row = group.producer_row[c];
          value = producer_bias.empty() ? 0 : producer_bias[row];
          for (std::int64_t i = 0; i < u.cols; ++i) value += double{producer.at(row, i)} * u.at(t, i);
        }
        made.at(t, c) = static_cast<float>(value);
      }
    return made;
  }
  /// Of all consumers, side by side, with the size of the sums' parts, by which rounding is measured.
  std::vector<double> outputs(std::vector<double>* sizes = nullptr) const {
    const Matrix made = input();
    std::vector<double> all;
    for (const Matrix& w : weights)
      for (std::int64_t t = 0; t < kTokens; ++t)
        for (std::int64_t r = 0; r < w.rows; ++r) {
          double sum = 0, size = 0;
          for (std::int64_t c = 0; c < kCols; ++c) {
            sum += double{made.at(t, c)} * w.at(r, c);
            size += std::fabs(double{made.at(t, c)} * w.at(r, c));
          }
          all.push_back(sum);
          if (sizes) sizes->push_back(size);
        }
    return all;
  }
  /// Everything points to this object's numbers, with what `needs` asks of x.
  void connect(const Needs& needs, std::vector<std::shared_ptr<WeightFormat>> formats) {
    group.name = "group";
    group.consumers.clear();
    for (std::size_t i = 0; i < weights.size(); ++i)
      group.consumers.push_back({"blk.0.m" + std::to_string(i) + ".weight", weights[i].view(), {biases[i].data(), {weights[i].rows}}, formats.at(i % formats.size())});
    group.norm_weight = {norm_weight.data(), {static_cast<std::int64_t>(norm_weight.size())}};
    group.norm_bias = {norm_bias.data(), {static_cast<std::int64_t>(norm_bias.size())}};
    group.producer.clear();
    if (producer.rows > 0) group.producer.push_back({"blk.0.p.weight", producer.view(), {producer_bias.data(), {static_cast<std::int64_t>(producer_bias.size())}}, formats[0]});
    take_statistics(needs);
  }
  void take_statistics(const Needs& needs) {
    x = input();
    std::fill(moments.begin(), moments.end(), 0.0f), std::fill(largest.begin(), largest.end(), 0.0f), hessian = Matrix(kCols, kCols);
    for (std::int64_t t = 0; t < kTokens; ++t)
      for (std::int64_t i = 0; i < kCols; ++i) {
        moments[i] += x.at(t, i) * x.at(t, i) / kTokens;
        largest[i] = std::max(largest[i], std::fabs(x.at(t, i)));
        for (std::int64_t j = 0; j < kCols && needs.hessian; ++j) hessian.at(i, j) += 2 * x.at(t, i) * x.at(t, j) / kTokens;
      }
    group.statistics = {};
    group.statistics.tokens = kTokens;
    if (needs.moments) group.statistics.second_moment = {moments.data(), {kCols}}, group.statistics.largest = {largest.data(), {kCols}};
    if (needs.hessian) group.statistics.hessian = hessian.view();
    if (needs.inputs > 0) group.statistics.inputs = std::as_const(x).view().rows(0, std::min(needs.inputs, kTokens));
  }
  std::vector<float> numbers() const {
    std::vector<float> all = producer.values;
    for (const auto* part : {&norm_weight, &norm_bias, &producer_bias}) all.insert(all.end(), part->begin(), part->end());
    for (const Matrix& w : weights) all.insert(all.end(), w.values.begin(), w.values.end());
    return all;
  }
};

std::vector<float> normal(std::int64_t count, unsigned seed, float mean) { return normal_matrix(1, count, 0.3f, seed, mean).values; }

/// Some channels of the input are much larger than others, as in language models.
Scene bare_scene() {
  Scene scene;
  scene.u = normal_matrix(kTokens, kCols, 1.0f, 1);
  for (std::int64_t t = 0; t < kTokens; ++t)
    for (std::int64_t c = 0; c < kCols; c += 9) scene.u.at(t, c) *= 20.0f;
  for (const std::int64_t rows : {24, 16, 9}) {
    scene.weights.push_back(normal_matrix(rows, kCols, 0.1f, static_cast<unsigned>(10 + rows)));
    scene.biases.push_back(normal(rows, 20, 0.0f));
  }
  return scene;
}

/// rows[c]: which row of a producer makes column c.
Scene produced_scene(std::int64_t producer_rows, std::vector<std::int32_t> rows, bool bias) {
  Scene scene = bare_scene();
  scene.u = normal_matrix(kTokens, 20, 1.0f, 2);
  scene.producer = normal_matrix(producer_rows, 20, 0.3f, 3);
  for (std::int64_t r = 0; r < producer_rows; r += 5)
    for (std::int64_t i = 0; i < 20; ++i) scene.producer.at(r, i) *= 15.0f;
  if (bias) scene.producer_bias = normal(producer_rows, 4, 0.5f);
  scene.group.producer_row = std::move(rows);
  return scene;
}

std::map<std::string, Scene> scenes() {
  std::map<std::string, Scene> all;
  Scene norm = bare_scene(), with_bias = bare_scene();
  norm.norm_weight = with_bias.norm_weight = normal(kCols, 5, 1.0f);
  with_bias.norm_bias = normal(kCols, 6, 0.0f);
  all.emplace("a norm", norm);
  all.emplace("a norm with bias", with_bias);
  all.emplace("neither norm nor producer", bare_scene());
  std::vector<std::int32_t> own(kCols), shared;
  std::iota(own.begin(), own.end(), 0);
  for (int head = 0; head < 4; ++head)  // 4 heads of queries of 16, on 2 of values
    for (int d = 0; d < 16; ++d) shared.push_back(head / 2 * 16 + d);
  all.emplace("a producer", produced_scene(kCols, own, true));
  all.emplace("a producer whose rows are shared, and two rows that nobody reads", produced_scene(34, shared, false));
  return all;
}

/// Formats of the three consumers: all quantised, some, none.
std::map<std::string, std::vector<std::shared_ptr<WeightFormat>>> choices_of_formats() {
  const auto three_bits = make<WeightFormat>(spec_of("int_grouped", {{"bits", "3"}, {"group_size", "32"}})), block = make<WeightFormat>({"q4_0", nullptr});
  return {{"all quantised", {three_bits, block, three_bits}}, {"a router that is not", {block, three_bits, nullptr}}, {"none", {nullptr}}};
}

void require_equal(const Scene& before, const Scene& after) {
  std::vector<double> sizes;
  const std::vector<double> expected = before.outputs(&sizes), computed = after.outputs();
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::fabs(computed[i] - expected[i]) / (sizes[i] + 1e-30);
    worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
  }
  REQUIRE(worst < 2e-5);  // of what is summed up: some roundings in fp32
}

const std::string kShakespeare = source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf");

std::vector<std::string> small_models() {
  std::vector<std::string> models = {kShakespeare};
  for (const char* name : {"tiny_llama/gqa_tied", "tiny_llama/mqa_wide_heads", "architectures/llama_bias", "architectures/qwen2", "architectures/qwen3", "architectures/mixtral",
                           "architectures/qwen2moe", "architectures/phi3_window", "architectures/gpt2", "architectures/gemma3"})
    models.push_back(source_path("tests/golden/" + std::string(name) + ".gguf"));
  return models;
}

RunConfig config_of(const std::string& weights) { return read_run_config(parse_yaml("activations: fp32\nkv_store: {format: fp32}\nweights: " + weights, "t.yaml")); }

std::vector<float> logits_of(const std::string& model, const std::string& weights, std::string* notes = nullptr) {
  Session session(ModelFile::open(model), config_of(weights), {16, 1, {}});
  const SeqId sequence = session.runner().open();
  std::vector<TokenRow> rows;
  for (const Token token : {1, 5, 9, 33, 2, 40, 7, 12}) rows.push_back({sequence, token, static_cast<std::int32_t>(rows.size()) - 1, true, 0});
  const Step step = session.runner().forward(rows);
  for (const auto& [tensor, line] : session.quantization().notes)
    if (notes) *notes += tensor + ": " + line + "\n";
  return {step.logits.data, step.logits.data + step.logits.size()};
}

double largest(const std::vector<float>& values) {
  double most = 0;
  for (const float value : values) most = std::max(most, std::fabs(double{value}));
  return most;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) most = std::isfinite(a[i]) ? std::max(most, std::fabs(double{a[i]} - b[i])) : INFINITY;
  return most;
}

/// The samples through a model block by block, its matrices changed for a format of 3 bits but never rounded: the last hidden states.
std::vector<float> changed_states(const std::string& model, const Transform* transform) {
  const auto file = ModelFile::open(model);
  const RunConfig plain = config_of("none");
  const ModelSpec spec = read_model_spec(*file);
  const WeightPlan plan;
  const std::shared_ptr<WeightFormat> three_bits = make<WeightFormat>(spec_of("int_grouped", {{"bits", "3"}, {"group_size", "-1"}}));
  Ops& ops = backend().ops();
  const Placement placement{&ops, &ops, 0};
  ModelWeights weights = load_outside(file, spec, plain, placement, {});
  weights.blocks.resize(static_cast<std::size_t>(spec.layers));
  std::vector<std::vector<Token>> samples = {{1, 5, 9, 33, 2, 40, 7, 12, 3, 18, 22, 31}, {11, 4, 50, 6, 8, 27, 30, 44}};
  SampleRunner runner(spec, weights, samples, ops);
  for (int layer = 0; layer < spec.layers; ++layer) {
    BlockWeights& stored = weights.blocks[static_cast<std::size_t>(layer)];
    stored = load_block(file, spec, plain, placement, {}, layer);
    EditableBlock block(stored, spec, plan, layer, true, ops);
    if (transform && transform->needs().any()) gather(block, runner, {layer, BlockPart::attention, BlockPart::feed_forward, {}, transform->needs()}, ops);
    for (BlockGroup& part : block.groups()) {
      for (EditableMatrix& consumer : part.group.consumers)
        if (consumer.w.shape[0] > 4) consumer.format = three_bits;  // not of a router
      if (transform) transform->apply(part.group, ops.device());
    }
    runner.run(layer, BlockPart::attention, BlockPart::feed_forward, true);
  }
  std::vector<float> values(static_cast<std::size_t>(runner.states().rows() * runner.states().cols()));
  runner.states().read(0, {values.data(), {runner.states().rows(), runner.states().cols()}});
  return values;
}

}  // namespace

TEST_CASE("transforms: a group computes the same afterwards, whatever makes its input and whichever of its matrices are quantised") {
  for_each_transform([&](const Transform& transform, const PluginSpec& spec) {
    if (clamps(spec)) return;
    for (const auto& [choice, formats] : choices_of_formats())
      for (auto& [kind, scene] : scenes()) {
        INFO(kind << ", " << choice);
        Scene changed = scene;
        changed.connect(transform.needs(), formats);
        transform.apply(changed.group, backend().device());
        require_equal(scene, changed);
      }
  });
}

TEST_CASE("transforms: inputs of zeros, weights of zeros, one channel a million times the rest and no token at all give finite numbers, and the same outputs") {
  const auto formats = choices_of_formats().at("all quantised");
  for_each_transform([&](const Transform& transform, const PluginSpec& spec) {
    for (const char* kind : {"zero inputs", "a dead channel", "zero weights", "a zero column", "a huge channel", "a huge column", "a zero norm", "no token"}) {
      for (const char* maker : {"a norm with bias", "a producer whose rows are shared, and two rows that nobody reads"}) {
        const auto is = [&](const char* name) { return std::string(kind) == name; };
        INFO(kind << ", " << maker);
        Scene scene = scenes().at(maker);
        if (is("zero inputs")) std::fill(scene.u.values.begin(), scene.u.values.end(), 0.0f), scene.norm_bias.clear();
        for (std::int64_t t = 0; t < kTokens; ++t) {
          if (is("a dead channel")) scene.u.at(t, 3) = 0;
          if (is("a huge channel")) scene.u.at(t, 3) *= 1e6f;
        }
        for (Matrix& w : scene.weights) {
          if (is("zero weights")) std::fill(w.values.begin(), w.values.end(), 0.0f);
          for (std::int64_t r = 0; r < w.rows; ++r) {
            if (is("a zero column")) w.at(r, 3) = 0;
            if (is("a huge column")) w.at(r, 3) *= 1e6f;
          }
        }
        if (is("a zero norm")) std::fill(scene.norm_weight.begin(), scene.norm_weight.end(), 0.0f);
        Scene changed = scene;
        changed.connect(transform.needs(), formats);
        if (is("no token")) changed.group.statistics = {};  // Q08: an expert that the router never chose
        transform.apply(changed.group, backend().device());
        const std::vector<float> numbers = changed.numbers();
        REQUIRE(std::all_of(numbers.begin(), numbers.end(), [](float value) { return std::isfinite(value); }));
        if (!clamps(spec)) require_equal(scene, changed);
        if (is("no token") && transform.needs().any()) REQUIRE(numbers == scene.numbers());
      }
    }
  });
}

TEST_CASE("transforms: the result is the same to the bit on any number of threads") {
  const auto formats = choices_of_formats().at("all quantised");
  for_each_transform([&](const Transform& transform, const PluginSpec&) {
    std::vector<std::vector<float>> results;
    std::vector<std::string> lines;
    for (const char* threads : {"1", "2", "2"}) {
      Scene scene = scenes().at("a norm");
      scene.connect(transform.needs(), formats);
      lines.push_back(transform.apply(scene.group, backend(threads).device()));
      results.push_back(scene.numbers());
    }
    REQUIRE(results[0] == results[1]);
    REQUIRE(results[1] == results[2]);
    REQUIRE(lines[0] == lines[1]);
  });
}

TEST_CASE("transforms: rotations are orthogonal at every size, and turn back") {
  for_each_transform([&](const Transform& transform, const PluginSpec&) {
    for (const std::int64_t n : {1, 2, 3, 5, 8, 12, 20, 28, 30, 36, 52, 64, 92, 128, 200, 576, 640, 1536})
      for (const auto& rotation : {transform.residual_rotation(n), transform.value_rotation(n)}) {
        if (!rotation) continue;
        INFO("size " << n);
        Matrix rows = normal_matrix(3, n, 1.0f, 7);
        const Matrix before = rows;
        rotation->turn(rows.view());
        for (std::int64_t a = 0; a < 3; ++a)
          for (std::int64_t b = 0; b < 3; ++b) {
            double product = 0, turned = 0;
            for (std::int64_t c = 0; c < n; ++c) product += double{before.at(a, c)} * before.at(b, c), turned += double{rows.at(a, c)} * rows.at(b, c);
            REQUIRE(turned == Approx(product).margin(1e-5 * static_cast<double>(n)));
          }
        rotation->turn_back(rows.view());
        REQUIRE(distance(rows.values, before.values) < 1e-5);
      }
  });
}

TEST_CASE("transforms: whole models compute the same, block after block, before anything is rounded") {
  for (const std::string& model : small_models()) {
    const std::vector<float> stored = changed_states(model, nullptr);
    for (const auto& name : Registry::instance().names("transforms")) {
      const auto transform = make<Transform>(name == "awq" ? spec_of("awq", {{"clip", "false"}, {"inputs", "16"}}) : PluginSpec{name, nullptr});
      INFO(model << ", " << name);
      REQUIRE(distance(changed_states(model, transform.get()), stored) < 2e-5 * largest(stored));
    }
  }
}

TEST_CASE("transforms: logits in fp32 are those of the model as stored; a model that cannot be turned is refused with the reason") {
  for (const std::string& model : small_models()) {
    const std::vector<float> stored = logits_of(model, "none");
    for (const auto& name : Registry::instance().names("transforms")) {
      INFO(model << ", " << name);
      std::string notes;
      const std::string weights = "{quantizer: rtn, format: fp32, targets: all, transforms: [" + name + "], calibration: {source: model, samples: 2, length: 12}}";
      const bool no_rotation = model.find("gpt2") != std::string::npos || model.find("gemma3") != std::string::npos;
      if (name == "hadamard" && no_rotation) {
        REQUIRE_THAT(message_of([&] { logits_of(model, weights); }), Contains("cannot be turned") && Contains("norms"));
        continue;
      }
      REQUIRE(distance(logits_of(model, weights, &notes), stored) < 1e-4 * largest(stored));
      REQUIRE_THAT(notes, Contains("blk.0.attn_q"));
    }
  }
}

TEST_CASE("transforms: each sees what those before it made") {
  const auto smoothed = [](const std::string& before) {
    std::string notes;
    logits_of(kShakespeare, "{quantizer: rtn, format: {type: int_grouped, bits: 8, group_size: 32}, transforms: [" + before + "smoothquant], "
              "calibration: {source: model, samples: 2, length: 32}}", &notes);
    const auto at = notes.find("largest input ", notes.find("blk.0.attn_q"));
    REQUIRE(at != std::string::npos);
    return std::stod(notes.substr(at + std::string("largest input ").size()));
  };
  REQUIRE(smoothed("{type: outliers, count: 255, factor: 100}, ") == Approx(100 * smoothed("")).epsilon(0.01));
  // A rotation turns what was planted before it, and leaves what is planted behind it: columns a millionth of the rest are lost in fp16.
  const auto half = [](const std::string& transforms) { return logits_of(kShakespeare, "{quantizer: rtn, format: fp16, transforms: [" + transforms + "]}"); };
  const std::vector<float> turned = half("hadamard"), planted = half("{type: outliers, factor: 1000000}, hadamard"), behind = half("hadamard, {type: outliers, factor: 1000000}");
  REQUIRE(distance(planted, turned) < 1e-2 * largest(turned));
  REQUIRE(distance(behind, turned) > 3e-2 * largest(turned));
}

TEST_CASE("transforms: a rotation behind a transform that looks at inputs is refused before any work") {
  const auto refusal = [](const std::string& transforms) {
    return message_of([&] { check_run(*ModelFile::open(kShakespeare), config_of("{quantizer: rtn, format: q8_0, transforms: [" + transforms + "], calibration: {source: model}}")); });
  };
  REQUIRE_THAT(refusal("smoothquant, hadamard"), Contains("weights.transforms") && Contains("name the rotation before it"));
  REQUIRE(refusal("outliers, hadamard, smoothquant") == "no error");
}

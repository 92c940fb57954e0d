// The cost model: against figures worked out by hand, against an independent count of operations, and against the bytes of sessions.
#include "engine/cost_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "config.h"
#include "patchbay/kv_store.h"
#include "session.h"
#include "support.h"

using namespace patchbay;

namespace {

constexpr double kLayers = 30, kHidden = 576, kFfn = 1536, kHeads = 9, kKvHeads = 3, kHeadSize = 64, kVocabulary = 49152;

/// SmolLM2-135M with all matrices in Q4_1 (32 weights in 20 bytes), an fp16 cache, integer products.
ModelCost smollm2() {
  ModelCost cost;
  cost.spec.layers = kLayers;
  cost.spec.hidden = kHidden;
  cost.spec.ffn = kFfn;
  cost.spec.heads = kHeads;
  cost.spec.kv_heads = kKvHeads;
  cost.spec.head_size = kHeadSize;
  cost.spec.vocabulary = kVocabulary;
  cost.spec.tied_head = true;
  cost.spec.windows.assign(kLayers, 0);
  cost.spec.rope_of_layer.assign(kLayers, 0);
  const auto add = [&](std::int64_t rows, std::int64_t cols, MatrixCost::Use use) {
    cost.matrices.push_back({rows, cols, rows * cols / 32 * 20, use, true});
    cost.parameters += rows * cols;
    cost.weights_bytes += cost.matrices.back().bytes;
  };
  add(kVocabulary, kHidden, MatrixCost::Use::head);
  for (int layer = 0; layer < kLayers; ++layer)
    for (const auto& [rows, cols] : {std::pair{576, 576}, {192, 576}, {192, 576}, {576, 576}, {1536, 576}, {1536, 576}, {576, 1536}})
      add(rows, cols, MatrixCost::Use::block);
  cost.embedding_row_bytes = 360;
  cost.kv_bytes_per_token = 2 * 30 * 3 * 64 * 2;
  return cost;
}

constexpr MachineLimits kMachine = {1e10, 1e11, 32 << 20, 1e11, 1e12};

RunConfig config_of(const std::string& yaml) { return read_run_config(parse_yaml(yaml, "test")); }

}  // namespace

TEST_CASE("a decode step of SmolLM2, worked out by hand") {
  // Matrices: per block 2 x 576x576 + 2 x 192x576 + 3 x 1536x576 = 3,538,944 weights, in 30 blocks 106,168,320; the head 49152x576 =
  // 28,311,552; together 134,479,872, in Q4_1 (5/8 byte each) 84,049,920 bytes.
  const auto cost = smollm2();
  CHECK(cost.parameters == 134479872);
  CHECK(cost.weights_bytes == 84049920);
  // One row after 100 tokens. Operations: 2 per weight = 268,959,744; attention 4 x 576 per visible token, 101 of them, in 30 layers =
  // 6,981,120. Cache: 101 tokens read and 1 written, 23,040 bytes each = 2,350,080.
  const auto step = pass_cost(cost, {1, 100, 1});
  CHECK(step.operations == 268959744 + 6981120);
  CHECK(step.weight_bytes == 84049920);
  CHECK(step.kv_bytes == 2350080);
  // Activations, inputs of products at 1.25 bytes: per block q and o 3,024 each, k and v 1,488, gate and up 6,864, down 4,224: 26,976; the
  // head 720 + 196,608 = 197,328. Attention 2 x 4 x 576 = 4,608 per layer. Elementwise per block 4 x (10 x 576 + 2 x 768 + 3 x 1536) = 47,616
  // and rounding 5.25 x (3 x 576 + 1536) = 17,136; the embedding's row 360 + 2,304; the logits 4 x (1,152 + 49,152) + 5.25 x 576 = 204,240.
  const double activations = 30 * (26976 + 4608 + 47616 + 17136) + 197328 + 2664 + 204240;
  CHECK(step.activation_bytes == Approx(activations).epsilon(1e-12));
  // All parts wait for memory: 84,049,920 + 2,350,080 = 86,400,000 bytes at 10 GB/s, the activations (they fit the cache) at 100 GB/s.
  CHECK(pass_seconds(cost, {1, 100, 1}, kMachine) == Approx(86400000 / 1e10 + activations / 1e11).epsilon(1e-12));
}

TEST_CASE("a prefill of SmolLM2, worked out by hand") {
  // 512 rows. Products 2 x 106,168,320 x 512 operations at 1e12/s = 108.71635968 ms; attention sees 512 x 513 / 2 = 131,328 tokens per
  // layer, 4 x 576 operations each at 1e11/s = 30 x 3.02579712 ms; the head, for one row, waits for its 17,694,720 bytes and 197,328 of
  // activations = 1.77144528 ms; elementwise 512 x (30 x 64,752 + 2,664) + 204,240 = 996,158,928 bytes at 100 GB/s = 9.96158928 ms.
  const double ms = 108.71635968 + 30 * 3.02579712 + 1.77144528 + 9.96158928;
  CHECK(1e3 * prefill_seconds(smollm2(), 512, 8192, kMachine) == Approx(ms).epsilon(1e-9));
}

TEST_CASE("operations agree with the usual count: 2 per weight and token, and attention") {
  const auto cost = smollm2();
  const double block_weights = 106168320, head_weights = 28311552;
  for (const double tokens : {1.0, 7.0, 512.0})
    for (const double context : {0.0, 3.0, 1000.0}) {
      double attention = 0;  // q k and p v: a multiplication and an addition per value of each visible token, head by head
      for (double i = 0; i < tokens; ++i)
        for (int head = 0; head < kHeads; ++head) attention += 2 * 2 * kHeadSize * (context + i + 1);
      CHECK(pass_cost(cost, {tokens, context, 1}).operations == Approx(2 * block_weights * tokens + 2 * head_weights + kLayers * attention));
    }
}

TEST_CASE("chunks of a prefill compute the same and move the weights once each") {
  const auto cost = smollm2();
  const auto whole = pass_cost(cost, {512, 0, 1}), first = pass_cost(cost, {200, 0, 0}), second = pass_cost(cost, {312, 200, 1});
  CHECK(first.operations + second.operations == Approx(whole.operations));
  CHECK(first.weight_bytes + second.weight_bytes == Approx(2 * whole.weight_bytes - kVocabulary * kHidden * 0.625));  // the head is not asked for
  CHECK(prefill_seconds(cost, 512, 4, kMachine) > 3 * prefill_seconds(cost, 512, 512, kMachine));  // 4 rows wait for the weights
}

TEST_CASE("a window cuts what rows see and what is read") {
  auto cost = smollm2();
  const int window = GENERATE(1, 4, 10, 1000);
  const int context = GENERATE(0, 3, 12), rows = GENERATE(1, 5, 20);
  cost.spec.windows.assign(kLayers, window);
  double seen = 0;
  for (int i = 0; i < rows; ++i) seen += std::min(context + i + 1, window);
  const int first_seen = std::max(0, context + 1 - window);
  for (const auto& part : pass_parts(cost, {double(rows), double(context), 1})) {
    if (std::string(part.name) != "attention") continue;
    CHECK(part.operations == Approx(4 * kHeads * kHeadSize * seen));
    CHECK(part.kv_bytes == Approx((context + rows - first_seen + rows) * 768.0));
  }
}

TEST_CASE("what fits half the cache is read from it") {
  const auto cost = smollm2();
  auto large = kMachine;
  large.cache_bytes = 1 << 30;
  CHECK(pass_seconds(cost, {1, 100, 1}, large) < 0.2 * pass_seconds(cost, {1, 100, 1}, kMachine));
  auto none = kMachine;
  none.cache_bytes = 0;
  CHECK(pass_seconds(cost, {1, 100, 1}, none) > pass_seconds(cost, {1, 100, 1}, kMachine));
}

TEST_CASE("predicted bytes are the measured ones, for every format, cache format and store") {
  const auto file = ModelFile::open(test::source_path("tests/golden/tiny_llama/gqa_tied.gguf"));
  // The feed-forward size, 48, is no whole number of 32s: ffn_down stays as stored where a format wants blocks.
  const std::string blocks = ", rules: [{match: '*.ffn_down', quantizer: none}]}";
  const std::string weights = GENERATE_COPY(
      as<std::string>{}, "none", "{quantizer: rtn, format: fp32}", "{quantizer: rtn, format: bf16}", "{quantizer: rtn, format: fp16, targets: all}",
      "{quantizer: rtn, format: {type: int_grouped, bits: 3, group_size: 16}}",
      "{quantizer: rtn, format: {type: int_grouped, bits: 8, group_size: 32}" + blocks, "{quantizer: rtn, format: q4_0" + blocks,
      "{quantizer: rtn, format: q4_1" + blocks, "{quantizer: rtn, format: q5_0" + blocks, "{quantizer: rtn, format: q5_1" + blocks,
      "{quantizer: rtn, format: q8_0" + blocks);
  INFO(weights);
  const auto config = config_of("weights: " + weights);
  const auto cost = model_cost(*file, config);
  Session session(file, config);
  CHECK(cost.weights_bytes == session.sizes().weights_bytes);
  CHECK(cost.parameters == session.sizes().parameters);
  CHECK(cost.bits_per_weight() == Approx(session.sizes().bits_per_weight));
  if (weights == "none") {  // then it is what the file holds
    std::int64_t stored = 0;
    for (const auto& tensor : file->tensors()) stored += tensor.bytes;
    CHECK(cost.weights_bytes == stored);
  }
}

TEST_CASE("predicted bytes are the measured ones, for every architecture: biases, fused tensors, experts") {
  int models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("tests/golden/architectures"))) {
    if (entry.path().extension() != ".gguf") continue;
    INFO(entry.path());
    ++models;
    const auto file = ModelFile::open(entry.path());
    Session session(file, config_of("kv_store: {type: contiguous, format: int8}"), {32, 1});
    const auto cost = session.cost();
    CHECK(cost.weights_bytes == session.sizes().weights_bytes);
    CHECK(cost.parameters == session.sizes().parameters);
    CHECK(cost.kv_bytes_per_token == session.kv_store().usage().bytes_per_token);
    CHECK(pass_cost(cost, {3, 5, 1}).operations > 0);
  }
  CHECK(models >= 10);
}

TEST_CASE("a row computes with the experts it is sent to; many rows read them all") {
  const auto file = ModelFile::open(test::source_path("tests/golden/architectures/mixtral.gguf"));
  const auto cost = model_cost(*file, config_of("{}"));
  const auto& spec = cost.spec;
  REQUIRE(spec.experts.used < spec.experts.count);
  const double expert = 3.0 * spec.hidden * spec.experts.ffn, share = double(spec.experts.used) / spec.experts.count;
  double experts = 0, bytes = 0;
  for (const auto& matrix : cost.matrices) {
    if (matrix.share == 1) continue;
    experts += double(matrix.rows) * double(matrix.cols);
    bytes += double(matrix.bytes);
  }
  CHECK(experts == spec.layers * spec.experts.count * expert);
  auto dense = cost;
  std::erase_if(dense.matrices, [](const MatrixCost& matrix) { return matrix.share < 1; });
  const auto of_experts = [&](double rows) {
    const auto all = pass_cost(cost, {rows, 0, 1}), rest = pass_cost(dense, {rows, 0, 1});
    return std::pair(all.operations - rest.operations, all.weight_bytes - rest.weight_bytes);
  };
  CHECK(of_experts(1).first == Approx(2 * spec.layers * spec.experts.used * expert));
  CHECK(of_experts(1).second == Approx(share * bytes));
  CHECK(of_experts(500).second == Approx(bytes).epsilon(1e-3));
}

TEST_CASE("predicted bytes of a cached token are the store's") {
  const auto file = ModelFile::open(test::source_path("tests/golden/tiny_llama/") + GENERATE("gqa_tied.gguf", "mqa_wide_heads.gguf"));
  const auto store = GENERATE("contiguous", "{type: paged, block_size: 16}");
  for (const std::string format : {"fp32", "fp16", "int8"}) {
    auto settings = parse_yaml("kv_store: " + std::string(store), "test");
    apply_assignment(settings, "kv_store.format=" + format);
    Session session(file, read_run_config(settings), {64, 1});
    CHECK(session.cost().kv_bytes_per_token == session.kv_store().usage().bytes_per_token);
  }
}

TEST_CASE("products count as integers where the session says that they are") {
  const auto file = ModelFile::open(test::source_path("tests/golden/tiny_llama/gqa_tied.gguf"));
  const auto integers = [&](const std::string& activations) {
    const auto cost = Session(file, config_of("{weights: {quantizer: rtn, format: q8_0, rules: [{match: '*.ffn_down', quantizer: none}]}, activations: " + activations + "}")).cost();
    return std::ranges::count_if(cost.matrices, &MatrixCost::integer);
  };
  CHECK(integers("fp32") == 0);
  CHECK(integers("q8") == 6 * read_model_spec(*file).layers);  // the embedding and ffn_down stay as stored
}

// Bisecting: a divergence planted in one tensor of one layer is found there and nowhere before; equal configurations are equal.
#include "experiment/bisect.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "config.h"
#include "support.h"

using namespace patchbay;
using Catch::Contains;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::string kModel = test::source_path("tests/golden/tiny_llama/gqa_tied.gguf");
const std::vector<Token> kPrompt = {95, 257, 31, 56, 239, 177, 213};

BisectSide side(const std::string& model, std::vector<std::string> assignments = {}) {
  Settings settings;
  settings.kind = Settings::Kind::map;
  settings.where = "test";
  assignments.insert(assignments.begin(), "activations=fp32");
  for (const std::string& one : assignments) apply_assignment(settings, one);
  return {ModelFile::open(model), read_run_config(settings)};
}

Bisection between(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return bisect(side(kModel, a), side(kModel, b), kPrompt, 1e-3);
}

/// The model with one value of a tensor changed: +1 at element `index`, which lies in row index / columns.
std::string altered(const test::TemporaryFolder& folder, const std::string& tensor, std::int64_t index) {
  const auto file = ModelFile::open(kModel);
  const FileTensor* found = file->tensor(tensor);
  REQUIRE(found != nullptr);
  std::string bytes = test::read_file(kModel);
  const std::string whole(reinterpret_cast<const char*>(found->data), static_cast<std::size_t>(found->bytes));
  const auto at = bytes.find(whole) + static_cast<std::size_t>(index) * sizeof(float);
  float value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  value += 1;
  std::memcpy(bytes.data() + at, &value, sizeof value);
  std::ofstream(folder / "altered.gguf", std::ios::binary) << bytes;
  return folder / "altered.gguf";
}

ArrayDifference difference(const std::vector<float>& a, const std::vector<float>& b) {
  DifferenceSum sum;
  sum.add(a, b);
  return sum.result();
}

}  // namespace

TEST_CASE("the difference of two arrays: bits, largest, relative RMSE, cosine") {
  const auto none = difference({1, kNan, 0}, {1, kNan, 0});
  CHECK(none.differing == 0);
  CHECK(none.relative_rmse == 0);
  CHECK(none.cosine == 1);
  const auto some = difference({3, 4, 0, 1}, {3, 0, 0, 2});  // sums: (b-a)^2 = 17, a^2 = 26, b^2 = 13, ab = 11
  CHECK(some.elements == 4);
  CHECK(some.differing == 2);
  CHECK(some.first == 1);
  CHECK(some.largest == 1);
  CHECK(some.largest_a == 4);
  CHECK(some.max_abs == 4);
  CHECK(some.relative_rmse == Approx(std::sqrt(17.0 / 26.0)));
  CHECK(some.cosine == Approx(11 / std::sqrt(26.0 * 13.0)));
  const auto sign = difference({0.0f, 1}, {-0.0f, 1});
  CHECK(sign.differing == 1);
  CHECK(sign.relative_rmse == 0);
  CHECK(std::isinf(difference({1, 2}, {1, kNan}).max_abs));
  CHECK(std::isinf(difference({1, 2}, {1, kNan}).relative_rmse));
  CHECK(std::isinf(difference({0, 0}, {0, 1}).relative_rmse));
  CHECK_THROWS_AS(difference({1}, {1, 2}), Error);
}

TEST_CASE("what a forward pass does not depend on leaves every bit as it is") {
  const std::vector<std::vector<std::string>> same = {{}, {"decoder=sampling"}, {"max_batched_tokens=1"}, {"max_batched_tokens=3"},
                                                      {"kv_store={type: paged, block_size: 4}"}};
  for (const auto& settings : same) {
    INFO((settings.empty() ? "nothing" : settings[0]));
    const Bisection found = between({}, settings);
    CHECK_FALSE(found.first_bit);
    CHECK_FALSE(found.first_beyond);
    CHECK(found.weights.empty());
    CHECK(found.weights_compared == 29);
    CHECK(found.next_a == found.next_b);
  }
  const Bisection found = between({}, {});
  REQUIRE(found.operations.size() == 3 + 3 * 17);  // embedding, final norm and logits; 17 in each block
  CHECK(found.operations[0].operation == "embedding");
  CHECK(found.operations.back().operation == "logits");
  CHECK(found.operations.back().first_token == 6);
  for (const auto& one : found.operations) CHECK(one.difference.elements > 0);
}

TEST_CASE("one altered value of one tensor is found in its layer, at its operation, at its channel") {
  struct Case { std::string tensor, operation; std::int64_t columns, row; };  // the altered value lies in column 0 of that row
  const std::vector<Case> cases = {{"attn_norm", "attention_norm", 1, 5}, {"attn_q", "q", 32, 9},       {"attn_k", "k", 32, 3},
                                   {"attn_v", "v", 32, 11},              {"attn_output", "attention_output", 32, 30},
                                   {"ffn_norm", "ffn_norm", 1, 0},       {"ffn_gate", "ffn_gate", 32, 47}, {"ffn_up", "ffn_up", 32, 0},
                                   {"ffn_down", "ffn_output", 48, 17}};
  const test::TemporaryFolder folder;
  for (int layer = 0; layer < 3; ++layer) {
    for (const Case& one : cases) {
      const std::string tensor = "blk." + std::to_string(layer) + "." + one.tensor + ".weight";
      INFO(tensor);
      const Bisection found = bisect(side(kModel), side(altered(folder, tensor, one.row * one.columns)), kPrompt, 1e-3);
      REQUIRE(found.first_bit);
      const OperationDifference& first = found.operations[*found.first_bit];
      CHECK(first.layer == layer);
      CHECK(first.operation == one.operation);
      CHECK(first.weight == tensor);
      CHECK(found.first_beyond == found.first_bit);
      CHECK(first.difference.differing <= 7);  // one channel of seven tokens
      auto place = first.place(first.difference.first);
      const std::int64_t channel = place.size() == 3 ? place[1] * 8 + place[2] : place[1];
      CHECK(channel == one.row);
      REQUIRE(found.weights.size() == 1);
      CHECK(found.weights[0].tensor == tensor);
      CHECK(found.weights[0].difference.differing == 1);
      CHECK(found.weights[0].difference.max_abs == Approx(1).margin(1e-6));
    }
  }
}

TEST_CASE("an altered embedding, final norm") {
  const test::TemporaryFolder folder;
  const Bisection embedding = bisect(side(kModel), side(altered(folder, "token_embd.weight", 56 * 32 + 7)), kPrompt, 1e-3);
  REQUIRE(embedding.first_bit == std::size_t{0});
  const OperationDifference& first = embedding.operations[0];
  CHECK(first.difference.differing == 1);
  CHECK(first.place(first.difference.first) == std::vector<std::int64_t>{3, 7});  // token 56 is the fourth of the prompt
  const Bisection norm = bisect(side(kModel), side(altered(folder, "output_norm.weight", 2)), kPrompt, 1e-3);
  REQUIRE(norm.first_bit);
  CHECK(norm.operations[*norm.first_bit].operation == "final_norm");
  CHECK(norm.operations[*norm.first_bit].layer == -1);
}

TEST_CASE("a setting is found where it acts") {
  const auto first = [](const std::vector<std::string>& a, const std::vector<std::string>& b) {
    const Bisection found = between(a, b);
    REQUIRE(found.first_bit);
    const OperationDifference& operation = found.operations[*found.first_bit];
    return std::to_string(operation.layer) + " " + operation.operation;
  };
  CHECK(first({"kv_store.format=fp32"}, {"kv_store.format=int8"}) == "0 k_cached");
  CHECK(first({"attention=naive"}, {"attention={type: flash, kernel: plain}"}) == "0 attention");
  CHECK(first({}, {"activations=q8"}) == "0 q");
  const std::string rule = "weights={rules: [{match: blk.1.ffn_up, quantizer: rtn, format: q8_0}]}";
  CHECK(first({}, {rule}) == "1 ffn_up");
  const Bisection found = between({}, {rule});
  REQUIRE(found.weights.size() == 1);
  CHECK(found.weights[0].tensor == "blk.1.ffn_up.weight");
  CHECK(found.weights[0].format_a == "fp32");
  CHECK(found.weights[0].format_b == "q8_0");
  CHECK(found.weights[0].difference.relative_rmse < 0.01);
}

TEST_CASE("a tolerance leaves small differences aside; models of another shape are refused") {
  const Bisection found = bisect(side(kModel, {"attention=naive"}), side(kModel, {"attention=flash"}), kPrompt, 1e-3);
  CHECK_FALSE(found.first_beyond);  // fp32 throughout: rounding alone
  const auto other = side(test::source_path("tests/golden/tiny_llama/mqa_wide_heads.gguf"));
  CHECK_THROWS_WITH(bisect(side(kModel), other, kPrompt, 0), Contains("other shapes") && Contains("3 layers of 32"));
}

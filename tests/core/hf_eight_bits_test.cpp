// Weights of 8 bits in compressed-tensors' layout: what the package of that name compressed is read as it decompresses it, and written again byte for
// byte. tests/golden/layouts/make_layouts.py asked it.
#include "hf_layouts.h"
#include "patchbay/rounded_inputs.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Matchers::Contains;

namespace {

const Json& eight_bits(const std::string& name) { return layout_goldens()["eight_bits"][name]; }

std::string refusal_of(const std::string& name, const std::function<void(Json& config, Tensors& tensors)>& change) {
  Json config = eight_bits(name)["config"];
  Tensors tensors = stored_tensors(eight_bits(name), "m");
  change(config, tensors);
  return layout_refusal(config, tensors);
}

}  // namespace

TEST_CASE("layouts: what compressed-tensors compressed has the values that it decompresses, and is written again byte for byte") {
  for (const auto& [name, weight] : layout_goldens()["eight_bits"].items()) {
    INFO(name);
    const LayoutFolder folder(weight["config"], stored_tensors(weight, "m"));
    const auto file = folder.open();
    const FileTensor& tensor = *file->tensor("m.weight");
    const std::int64_t rows = weight["rows"], cols = weight["cols"];
    REQUIRE(tensor.shape == std::vector<std::int64_t>{cols, rows});
    const std::shared_ptr<const WeightFormat> format = make<WeightFormat>(tensor.module->format());
    std::vector<float> values(static_cast<std::size_t>(rows * cols)), expected(values.size());
    format->decode(tensor.module->read(0, rows), 0, {values.data(), {rows, cols}});
    std::memcpy(expected.data(), bytes_of_hex(weight["values"]).data(), expected.size() * sizeof(float));
    REQUIRE(values == expected);
    const Json inputs = weight["config"]["config_groups"]["group_0"]["input_activations"];
    REQUIRE(input_rounding_of(format.get()).has_value() == !inputs.is_null());

    const auto layout = make_folder_layout("", *format, rows, cols);
    layout->announce("m", *format, rows, cols);
    Tensors tensors = stored_tensors(weight, "m");
    for (const ModuleOutput& written : layout->tensors("m", {{{format, tensor.module->read(0, rows)}}, {}})) {
      INFO(written.part);
      REQUIRE((written.bytes == part_of(tensors, written.part).bytes));
    }
    const Json config = layout->config();
    REQUIRE(config["format"] == weight["config"]["format"]);
    REQUIRE(config["ignore"] == weight["config"]["ignore"]);
    for (const char* key : {"num_bits", "type", "strategy", "group_size", "symmetric"})
      REQUIRE(config["config_groups"]["group_0"]["weights"][key] == weight["config"]["config_groups"]["group_0"]["weights"][key]);
    if (!inputs.is_null()) REQUIRE(config["config_groups"]["group_0"]["input_activations"]["dynamic"] == inputs["dynamic"]);
  }
}

// Blocks of 128 x 128, as DeepSeek's checkpoints have them: weight_scale_inv is multiplied, whatever its name says.
TEST_CASE("layouts: a block's scale serves all its rows") {
  const std::int64_t rows = 130, cols = 128;
  Tensor weight{"m.weight", "F8_E4M3", {rows, cols}, std::string(static_cast<std::size_t>(rows * cols), '\x38')};  // 1.0
  const float scales[] = {0.5f, 0.25f};
  const Tensor blocks{"m.weight_scale_inv", "F32", {2, 1}, std::string(reinterpret_cast<const char*>(scales), sizeof scales)};
  const LayoutFolder folder({{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}, {weight, blocks});
  const auto file = folder.open();
  const FileTensor& tensor = *file->tensor("m.weight");
  const auto format = make<WeightFormat>(tensor.module->format());
  std::vector<float> values(static_cast<std::size_t>(3 * cols));
  format->decode(tensor.module->read(127, 3), 0, {values.data(), {3, cols}});
  CHECK(values[0] == 0.5f);
  CHECK(values[static_cast<std::size_t>(cols)] == 0.25f);
  CHECK(values.back() == 0.25f);
}

// Q09: a scale that is not finite, or 0, is a damaged file, and so is NaN among the codes.
TEST_CASE("layouts: 8-bit weights whose tensors do not go together are refused by name (Q09)") {
  CHECK(refusal_of("float_channel", [](Json&, Tensors&) {}) == "accepted");
  CHECK_THAT(refusal_of("float_channel", [](Json&, Tensors& tensors) { part_of(tensors, "weight").bytes[3] = '\x7f'; }), Contains("m.weight") && Contains("row 0, column 3 is NaN"));
  CHECK_THAT(refusal_of("float_channel", [](Json&, Tensors& tensors) { part_of(tensors, "weight_scale").bytes.replace(4, 4, 4, '\0'); }), Contains("m.weight_scale") && Contains("value 1 is 0"));
  CHECK_THAT(refusal_of("float_channel", [](Json&, Tensors& tensors) { part_of(tensors, "weight_scale").bytes.replace(0, 4, "\x00\x00\xc0\x7f", 4); }), Contains("nan"));
  CHECK_THAT(refusal_of("float_channel", [](Json&, Tensors& tensors) { part_of(tensors, "weight_scale").shape = {2, 4}; }), Contains("shape mismatch") && Contains("one for each row"));
  CHECK_THAT(refusal_of("float_channel",
                        [](Json&, Tensors& tensors) {
                          Tensor& scales = part_of(tensors, "weight_scale");
                          scales.shape = {scales.shape[0], 0};
                          scales.bytes.clear();
                        }),
             Contains("0 scales"));
  CHECK_THAT(refusal_of("float_channel", [](Json&, Tensors& tensors) { std::erase_if(tensors, [](const Tensor& tensor) { return tensor.name == "m.weight"; }); }),
             Contains("m.weight") && Contains("missing tensor"));
  CHECK_THAT(refusal_of("float_tensor", [](Json&, Tensors& tensors) { std::erase_if(tensors, [](const Tensor& tensor) { return tensor.name == "m.input_scale"; }); }),
             Contains("m.input_scale") && Contains("missing tensor"));
  CHECK_THAT(refusal_of("float_channel", [](Json& config, Tensors&) { config["format"] = "nvfp4-pack-quantized"; }), Contains("nvfp4") && Contains("float-quantized"));
  CHECK_THAT(refusal_of("float_channel", [](Json& config, Tensors&) { config.erase("config_groups"); }), Contains("config_groups: missing key"));
  CHECK_THAT(refusal_of("float_channel", [](Json& config, Tensors&) { config["config_groups"]["group_0"]["targets"] = {"re:("}; }), Contains("regular expression"));
  CHECK_THAT(refusal_of("int_channel", [](Json& config, Tensors&) { config["config_groups"]["group_0"]["input_activations"] = nullptr; }), Contains("input_activations"));
  CHECK_THAT(refusal_of("int_channel", [](Json& config, Tensors&) { config["config_groups"]["group_0"]["input_activations"]["strategy"] = "tensor_group"; }), Contains("tensor_group"));
}

// The public layouts of quantised checkpoints: tensors that AutoAWQ and GPTQModel packed are read, and written again byte for byte; what does not go
// together is refused by name. tests/golden/layouts/make_layouts.py asked the packages.
#include "hf_layouts.h"
#include "layouts/packed_words.h"
#include "patchbay/half.h"
#include "patchbay/integer_codes.h"

using namespace patchbay;
using namespace patchbay::test;
using Catch::Matchers::Contains;

namespace {

const Json& golden(const std::string& name) { return layout_goldens()["weights"][name]; }

/// What is said to a golden weight that was changed.
std::string refusal_of(const std::string& name, const std::function<void(Json& config, Tensors& tensors)>& change) {
  Json config = golden(name)["config"];
  Tensors tensors = stored_tensors(golden(name), "m");
  change(config, tensors);
  return layout_refusal(config, tensors);
}

std::vector<float> expected_values(const Json& weight) {
  const std::string codes = bytes_of_hex(weight["codes"]), scales = bytes_of_hex(weight["scales"]), zeros = bytes_of_hex(weight["zeros"]);
  const std::int64_t rows = layout_goldens()["rows"], cols = layout_goldens()["cols"], group = layout_goldens()["group"], groups = cols / group;
  std::vector<float> values;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::int64_t g = weight["group_of"].is_null() ? c / group : weight["group_of"][c].get<std::int64_t>();
      Half scale;
      std::memcpy(&scale, scales.data() + (r * groups + g) * 2, 2);
      values.push_back(to_float(scale) * static_cast<float>(static_cast<unsigned char>(codes[r * cols + c]) - static_cast<unsigned char>(zeros[r * groups + g])));
    }
  }
  return values;
}

}  // namespace

TEST_CASE("layouts: what AutoAWQ and GPTQModel packed has the values that they were given, whole and by rows") {
  for (const auto& [name, weight] : layout_goldens()["weights"].items()) {
    INFO(name);
    const LayoutFolder folder(weight["config"], stored_tensors(weight, "a.b"));
    const auto file = folder.open();
    REQUIRE(file->tensors().size() == 1);
    const FileTensor& tensor = file->tensors()[0];
    REQUIRE(tensor.name == "a.b.weight");
    REQUIRE(tensor.shape == std::vector<std::int64_t>{layout_goldens()["cols"], layout_goldens()["rows"]});
    const auto format = make<WeightFormat>(tensor.module->format());
    const std::vector<float> expected = expected_values(weight);
    const std::int64_t cols = tensor.shape[0];
    for (const auto& [first, rows] : {std::pair<std::int64_t, std::int64_t>(0, 32), {8, 16}, {3, 5}}) {
      const PackedWeight packed = tensor.module->read(first, rows);
      std::vector<float> values(static_cast<std::size_t>(rows * cols));
      format->decode(packed, 0, {values.data(), {rows, cols}});
      REQUIRE(values == std::vector<float>(expected.begin() + first * cols, expected.begin() + (first + rows) * cols));
    }
  }
}

// Q03: the first version of GPTQ's layout stores zero points less 1; a 0 has no field, and is refused where AutoGPTQ wrote over its neighbours.
TEST_CASE("layouts: what was read is written as the packages wrote it, byte for byte (Q03)") {
  for (const auto& [name, weight] : layout_goldens()["weights"].items()) {
    INFO(name);
    const LayoutFolder folder(weight["config"], stored_tensors(weight, "m"));
    const auto file = folder.open();
    const FileTensor& tensor = file->tensors()[0];
    const std::shared_ptr<const WeightFormat> format = make<WeightFormat>(tensor.module->format());
    const std::string layout = name.find("gemv") != std::string::npos ? "awq_gemv" : name.find("awq") != std::string::npos ? "awq" : weight["config"]["checkpoint_format"].get<std::string>();
    const auto writer = make_folder_layout(layout, *format, 32, tensor.shape[0]);
    const auto announced = writer->announce("m", *format, 32, tensor.shape[0]);
    const LayoutWeight whole{{{format, tensor.module->read(0, 8)}, {format, tensor.module->read(8, 24)}}, {}};
    const auto written = writer->tensors("m", whole);
    REQUIRE(written.size() == announced.size());
    Tensors tensors = stored_tensors(weight, "m");
    for (std::size_t i = 0; i < written.size(); ++i) {
      INFO(written[i].part);
      REQUIRE(written[i].shape == announced[i].shape);
      REQUIRE((written[i].bytes == part_of(tensors, written[i].part).bytes));
    }
    const Json config = writer->config();
    for (const char* key : {"quant_method", "bits", "group_size"}) REQUIRE(config[key] == weight["config"][key]);
    if (config.contains("desc_act")) REQUIRE(config["desc_act"] == weight["config"]["desc_act"]);
  }
  const Json& second_version = golden("gptq_v2_2_desc_act");
  const LayoutFolder folder(second_version["config"], stored_tensors(second_version, "m"));
  const auto file = folder.open();
  const std::shared_ptr<const WeightFormat> format = make<WeightFormat>(file->tensors()[0].module->format());
  const auto first_version = make_folder_layout("gptq", *format, 32, 64);
  first_version->announce("m", *format, 32, 64);
  CHECK_THROWS_WITH(first_version->tensors("m", {{{format, file->tensors()[0].module->read(0, 32)}}, {}}), Contains("zero point 0") && Contains("gptq_v2"));
  first_version->made_by({{"type", "gptq"}, {"damp_percent", 0.0}, {"true_sequential", false}, {"static_groups", true}});
  const nlohmann::ordered_json config = first_version->config(), meta = config["meta"];
  CHECK(config["static_groups"] == true);
  CHECK(meta["static_groups"] == true);
  CHECK(meta["true_sequential"] == false);
  CHECK_FALSE(meta.contains("damp_percent"));  // GPTQModel would refuse the folder
}

// Q03 on reading: GPTQModel takes 1 off the packed words, so that a 0 borrows from the field above it.
TEST_CASE("layouts: a zero point of 0 in GPTQ's first version is read as GPTQModel reads it (Q03)") {
  const auto zeros_read = [](std::uint32_t word) {
    Tensors tensors = stored_tensors(golden("gptq_4"), "m");
    std::string& qzeros = part_of(tensors, "qzeros").bytes;
    std::memcpy(qzeros.data(), &word, 4);
    const LayoutFolder folder(golden("gptq_4")["config"], tensors);
    const auto file = folder.open();
    const auto format = make<WeightFormat>(file->tensors()[0].module->format());
    const IntegerCodes codes = dynamic_cast<const HoldsIntegerCodes&>(*format).integer_codes(file->tensors()[0].module->read(0, 8));
    std::vector<int> zeros;
    for (std::int64_t r = 0; r < 8; ++r) zeros.push_back(codes.zeros[r * codes.groups()]);
    return zeros;
  };
  CHECK(zeros_read(0x76543210u - 0x11111111u) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(zeros_read(0x0FFFFFF0u - 0x11111111u) == std::vector<int>{0, 15, 15, 15, 15, 15, 15, 0});
}

TEST_CASE("layouts: codes of every width lie in words one after the other") {
  for (const int bits : {2, 3, 4, 8}) {
    const PackedWords packed{bits};
    std::vector<std::uint8_t> codes, back(37);
    for (int i = 0; i < 37; ++i) codes.push_back(static_cast<std::uint8_t>((i * 7 + 3) % (1 << bits)));
    std::vector<std::uint32_t> words(static_cast<std::size_t>(packed.words(37) * 2), 0xdeadbeef);
    packed.pack(codes.data(), 37, words.data(), 2);
    packed.unpack(words.data(), 2, 37, back.data());
    REQUIRE(back == codes);
    REQUIRE(words[1] == 0xdeadbeef);
  }
}

TEST_CASE("layouts: tensors that do not go together are refused by name") {
  CHECK(refusal_of("gptq_4", [](Json&, Tensors&) {}) == "accepted");
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["bits"] = 8; }), Contains("m.scales") && Contains("shape mismatch"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["bits"] = 5; }), Contains("quantization_config: bits") && Contains("2, 3, 4, 8"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config.erase("bits"); }), Contains("quantization_config: bits: missing key"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config.erase("group_size"); }), Contains("group_size: missing key"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["group_size"] = 0; }), Contains("group_size") && Contains("-1"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["group_size"] = 24; }), Contains("groups of 24 do not divide 64 columns"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["group_size"] = -1; }), Contains("m.scales") && Contains("[1, 32]"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["quant_method"] = "bitsandbytes"; }), Contains("bitsandbytes") && Contains("gptq, awq"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config.erase("quant_method"); }), Contains("missing key"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["checkpoint_format"] = "marlin"; }), Contains("marlin") && Contains("gptq_v2"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["sym"] = true; }), Contains("m.qzeros") && Contains("sym"));
  CHECK_THAT(refusal_of("gptq_4", [](Json&, Tensors& tensors) { tensors.erase(tensors.begin()); }), Contains("accepted"));  // g_idx may be left out
  CHECK_THAT(refusal_of("gptq_4", [](Json&, Tensors& tensors) { tensors = {part_of(tensors, "qweight")}; }), Contains("missing tensor"));
  CHECK_THAT(refusal_of("gptq_4", [](Json&, Tensors& tensors) { part_of(tensors, "qweight").shape = {256}; }), Contains("m.qweight") && Contains("shape mismatch: [256]"));
  CHECK_THAT(refusal_of("gptq_4", [](Json&, Tensors& tensors) { part_of(tensors, "qweight").shape = {32, 8}; }), Contains("m.scales") && Contains("[8, 8]"));
  CHECK_THAT(refusal_of("gptq_3", [](Json&, Tensors& tensors) {
               part_of(tensors, "qweight").shape = {2, 32};
               part_of(tensors, "qweight").bytes.resize(2 * 32 * 4);
             }), Contains("no whole number of 3-bit codes"));
  CHECK_THAT(refusal_of("gptq_4", [](Json&, Tensors& tensors) { part_of(tensors, "scales").bytes.replace(10, 2, "\x00\x7e", 2); }), Contains("m.scales") && Contains("value 5 is nan"));
  CHECK_THAT(refusal_of("awq_gemm", [](Json&, Tensors& tensors) { part_of(tensors, "scales").bytes.replace(0, 2, "\x00\xfc", 2); }), Contains("m.scales") && Contains("inf"));
  CHECK_THAT(refusal_of("gptq_4", [](Json&, Tensors& tensors) { part_of(tensors, "g_idx").bytes[0] = 2; }), Contains("m.g_idx") && Contains("column 0 is in group 2") && Contains("0 to 1"));
  CHECK_THAT(refusal_of("gptq_4", [](Json&, Tensors& tensors) { part_of(tensors, "g_idx").bytes[3] = '\x80'; }), Contains("m.g_idx") && Contains("column 0"));
  CHECK_THAT(refusal_of("gptq_4", [](Json&, Tensors& tensors) { part_of(tensors, "g_idx").bytes[0] = 1; }), Contains("group 0 has 31 columns") && Contains("32"));
  CHECK_THAT(refusal_of("gptq_4", [](Json& config, Tensors&) { config["dynamic"] = Json::object(); }), Contains("accepted"));
  // How codes were chosen changes nothing of what they mean: AutoGPTQ's keys of it, GPTQModel's below meta, and whatever else stands there.
  CHECK(refusal_of("gptq_4", [](Json& config, Tensors&) { config.update({{"damp_percent", 0.01}, {"true_sequential", true}, {"static_groups", true}}); }) == "accepted");
  CHECK(refusal_of("gptq_4", [](Json& config, Tensors&) { config["meta"] = {{"damp_percent", nullptr}, {"true_sequential", "often"}, {"mse", 2.4}}; }) == "accepted");
  CHECK(refusal_of("gptq_4", [](Json& config, Tensors&) { config["meta"] = {"odd"}; }) == "accepted");
  CHECK_THAT(refusal_of("awq_gemm", [](Json& config, Tensors&) { config["bits"] = 3; }), Contains("bits") && Contains("allowed: 4"));
  CHECK_THAT(refusal_of("awq_gemm", [](Json& config, Tensors&) { config["version"] = "gemv_fast"; }), Contains("gemv_fast") && Contains("gemm, gemv"));
  CHECK_THAT(refusal_of("awq_gemm", [](Json& config, Tensors&) { config["version"] = "gemv"; }), Contains("shape mismatch"));
  CHECK_THAT(refusal_of("awq_gemm", [](Json& config, Tensors&) { config["group_size"] = 48; }), Contains("groups of 48 do not divide"));
}

// convert_model: what a folder and a GGUF file say of one model. The golden GGUF files were written by another program (the package gguf) from the
// tensors that transformers saved; the folders here are those tensors. scripts/compare_convert.py asks llama.cpp and transformers themselves.
#include "convert/convert.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "chat/chat_files.h"
#include "convert/gguf_metadata.h"
#include "convert/moved_tensors.h"
#include "convert/tokenizer_forms.h"
#include "gguf_writer.h"
#include "hf_folder.h"
#include "json_file.h"
#include "patchbay/half.h"
#include "program.h"
#include "tokenizer.h"
#include "tokenizer/readers.h"
#include "writers/gguf_writer.h"

using namespace patchbay;
using Catch::Matchers::Contains;
using Json = nlohmann::json;

namespace {

std::string bytes_of(const FileTensor& tensor) { return {reinterpret_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.bytes)}; }

/// The tokens of the golden GGUF files, as a tokenizer.json.
void write_tokenizer(const std::string& folder) {
  Json vocab;
  for (int i = 0; i < 62; ++i) vocab[std::string(1, static_cast<char>('!' + i))] = i;
  vocab["AB"] = 62;
  const Json end = {{"id", 63}, {"content", "<|end|>"}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", true}};
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Json tokenizer = {{"version", "1.0"}, {"added_tokens", {end}}, {"normalizer", nullptr}, {"post_processor", nullptr}, {"decoder", bytes},
                          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {digits, bytes}}}},
                          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array({Json::array({"A", "B"})})}}}};
  std::ofstream(folder + "/tokenizer.json") << tokenizer.dump();
  std::ofstream(folder + "/tokenizer_config.json") << R"({"eos_token": "<|end|>", "chat_template": "{{ messages }}"})";
}

std::vector<std::string> convert(const std::string& in, const std::string& out, const ConvertOptions& options = {}) {
  return convert_model(ModelFile::open(in), out, options);
}

float largest_difference(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return INFINITY;
  std::vector<float> x(a.size() / sizeof(float)), y(x.size());
  std::memcpy(x.data(), a.data(), a.size());
  std::memcpy(y.data(), b.data(), b.size());
  float largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::abs(x[i] - y[i]));
  return largest;
}

/// Tensor by tensor, byte for byte; those whose name holds `loose` up to 2^-20.
void check_same_tensors(const ModelFile& a, const ModelFile& b, const std::string& loose = "none") {
  CHECK(a.tensors().size() == b.tensors().size());
  for (const FileTensor& tensor : a.tensors()) {
    INFO(tensor.name);
    const FileTensor* other = b.tensor(tensor.name);
    REQUIRE(other);
    CHECK(tensor.type_name == other->type_name);
    CHECK(tensor.shape == other->shape);
    if (std::string(tensor.name).find(loose) == std::string::npos) {
      CHECK((bytes_of(tensor) == bytes_of(*other)));
    } else {
      CHECK(largest_difference(bytes_of(tensor), bytes_of(*other)) <= 0x1p-20f);
    }
  }
}

/// Files and folders beside each other: a.gguf, b.
struct Place {
  const test::TemporaryFolder folder;
  std::string operator/(const std::string& name) const { return folder / name; }
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path), {})); }
};

}  // namespace

// Fault A01 would show in llama_*: keys of 2 heads reordered as if they were the queries' 4.
TEST_CASE("a folder becomes the GGUF file that another program wrote, and that the folder again (A01)") {
  const auto goldens = Json::parse(test::read_file(test::kArchitectures + "architectures.json"))["models"];
  for (const auto& [name, golden] : goldens.items()) {
    DYNAMIC_SECTION(name) {
      const Place place;
      test::write_golden_folder(place / "a", name);
      write_tokenizer(place / "a");
      CHECK(convert(place / "a", place / "a.gguf").empty());
      const auto theirs = ModelFile::open(test::kArchitectures + name + ".gguf"), ours = ModelFile::open(place / "a.gguf");
      const std::string loose = name.starts_with("gemma") ? "norm" : "rope_freqs";  // w = (1 + w) - 1 loses bits; divisors are divided twice
      check_same_tensors(*theirs, *ours, loose);
      for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type", "tokenizer.ggml.pre", "general.architecture"}) {
        INFO(key);
        CHECK(ours->find(key)->value == theirs->find(key)->value);
      }
      CHECK(ours->string("tokenizer.chat_template") == "{{ messages }}");

      convert(place / "a.gguf", place / "b");
      check_same_tensors(*ModelFile::open(place / "a"), *ModelFile::open(place / "b"), name.starts_with("gemma") ? "norm" : "none");
      CHECK(Json::parse(test::read_file(place / "b/config.json"))["model_type"] == golden["config"]["model_type"]);
      CHECK(Json::parse(test::read_file(place / "b/tokenizer_config.json"))["chat_template"] == "{{ messages }}");
      const auto a = load_tokenizer(place / "a"), b = load_tokenizer(place / "b");
      for (const char* text : {"ABBA", "3.14:AB", "A<|end|>B"}) CHECK(a->encode(text, true, true) == b->encode(text, true, true));
      CHECK(b->is_end_of_generation(63));
      convert(place / "b", place / "b.gguf");
      check_same_tensors(*ours, *ModelFile::open(place / "b.gguf"), loose);
    }
  }
}

TEST_CASE("a file written in the place of one that is mapped: both hold their values (C08)") {
  const Place place;
  const float values[] = {1, 2, 3};
  const std::string path = place / "p.gguf", bytes(reinterpret_cast<const char*>(values), sizeof values);
  const auto write = [&](const std::function<void(ByteSink)>& write_bytes) {
    GgufWriter writer;
    writer.tensor({"w", find_tensor_type("F32"), {3}, write_bytes});
    writer.write(path);
  };
  write([&](ByteSink sink) { sink(bytes); });
  const auto before = ModelFile::open(path);
  write([&](ByteSink sink) { sink(bytes_of(*before->tensor("w"))); });  // read from the file that it replaces
  CHECK(bytes_of(*before->tensor("w")) == bytes);
  CHECK(bytes_of(*ModelFile::open(path)->tensor("w")) == bytes);
  CHECK(place.entries() == 1);
}

TEST_CASE("the tiny model: GGUF, folder, GGUF keeps every byte of a tensor and every token of a text") {
  const std::string model = test::source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf");
  const Place place;
  convert(model, place / "folder");
  convert(place / "folder", place / "again.gguf");
  check_same_tensors(*ModelFile::open(model), *ModelFile::open(place / "again.gguf"));
  const auto first = load_tokenizer(model), second = load_tokenizer(place / "folder"), third = load_tokenizer(place / "again.gguf");
  const std::string text = test::read_file(test::source_path("data/evaluation.txt")).substr(0, 30000);
  const auto tokens = first->encode(text, true, true);
  CHECK(tokens.size() > 5000);
  CHECK((second->encode(text, true, true) == tokens));
  CHECK((third->encode(text, true, true) == tokens));
  CHECK(second->eos() == first->eos());
  CHECK(place.entries() == 2);  // nothing else was left
}

TEST_CASE("types: of all matrices as asked, vectors of GGUF stay fp32; what f16 has no room for is refused by tensor") {
  const Place place;
  test::write_golden_folder(place / "a", "qwen3moe");
  write_tokenizer(place / "a");
  convert(place / "a", place / "bf16.gguf", {"bf16", false});
  const auto narrow = ModelFile::open(place / "bf16.gguf");
  CHECK(narrow->tensor("blk.0.attn_q.weight")->type_name == "BF16");
  CHECK(narrow->tensor("blk.0.ffn_gate_exps.weight")->type_name == "BF16");
  CHECK(narrow->tensor("blk.0.ffn_gate_inp.weight")->type_name == "F32");
  CHECK(narrow->tensor("blk.0.attn_norm.weight")->type_name == "F32");
  CHECK(narrow->integer("general.file_type") == 32);
  convert(place / "bf16.gguf", place / "mixed");
  const auto mixed = ModelFile::open(place / "mixed");
  CHECK(mixed->tensor("model.layers.0.self_attn.q_proj.weight")->type_name == "BF16");
  CHECK(mixed->tensor("model.layers.0.input_layernorm.weight")->type_name == "F32");  // bf16 would round it
  convert(place / "mixed", place / "mixed.gguf");
  check_same_tensors(*narrow, *ModelFile::open(place / "mixed.gguf"));
  convert(place / "bf16.gguf", place / "bf16", {"bf16", false});
  const auto folder = ModelFile::open(place / "bf16");
  for (const FileTensor& tensor : folder->tensors()) CHECK(tensor.type_name == "BF16");
  CHECK(Json::parse(test::read_file(place / "bf16/config.json"))["dtype"] == "bfloat16");
  convert(place / "bf16", place / "again.gguf");
  convert(place / "again.gguf", place / "again");  // norms are numbers of bf16 now, and so they come back
  check_same_tensors(*folder, *ModelFile::open(place / "again"));

  auto tensors = test::golden_tensors("qwen2");
  tensors["model.layers.0.mlp.up_proj.weight"].values[7] = 70000;
  test::write_golden_folder(place / "large", "qwen2");
  test::write_weights(place / "large/model.safetensors", tensors);
  CHECK_THAT(test::message_of([&] { convert(place / "large", place / "large.gguf", {"f16", false}); }),
             Contains("tensor model.layers.0.mlp.up_proj.weight: holds 70000, too large for f16"));
  CHECK_FALSE(std::filesystem::exists(place / "large.gguf"));
  CHECK_THAT(test::message_of([&] { convert(place / "large", place / "large.gguf", {"q4_0", false}); }), Contains("--type: unknown type 'q4_0'; allowed: f32, f16, bf16"));
}

TEST_CASE("quantised tensors become the values that they stand for") {
  const test::TemporaryFolder folder;
  test::GgufWriter writer;
  std::string blocks;
  for (int block = 0; block < 4; ++block) {  // Q8_0: a scale of 0.5, then 32 codes
    blocks += test::GgufWriter::bytes_of(to_half(0.5f).bits);
    for (int i = 0; i < 32; ++i) blocks += static_cast<char>(i - 16 - block);
  }
  writer.tensor("x", 8, {64, 2}, blocks);
  writer.write(folder / "x.gguf");
  TensorPair pair;
  pair.folder = "y";
  pair.gguf = "x";
  std::string bytes;
  const auto outputs = tensors_for_folder(ModelFile::open(folder / "x.gguf"), {pair}, find_tensor_type("F32"));
  outputs.at(0).write_bytes([&](std::string_view more) { bytes += more; });
  CHECK(outputs[0].shape == std::vector<std::int64_t>{64, 2});
  REQUIRE(bytes.size() == 128 * sizeof(float));
  for (int i = 0; i < 128; ++i) {
    float value = 0;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    CHECK(value == 0.5f * static_cast<float>(i % 32 - 16 - i / 32));
  }
}

namespace {

/// What GGUF says of a golden model, without tensors.
GgufWriter golden_metadata(const std::string& model) {
  GgufWriter writer;
  const Json config = test::golden_model(model)["config"];
  const std::string architecture(ModelFile::open(test::kArchitectures + model + ".gguf")->string("general.architecture"));
  writer.text("general.architecture", architecture);
  add_model_metadata(writer, read_hf_model_spec(config, "config.json"), config, architecture, "config.json");
  return writer;
}
void add_tensor(GgufWriter& writer, const FileTensor& tensor, std::string_view type, const std::string& bytes) {
  writer.tensor({std::string(tensor.name), find_tensor_type(type), tensor.shape, [bytes](ByteSink sink) { sink(bytes); }});
}

/// A golden model with its matrices in Q8_0, as GGUF. Returns how many.
int write_quantised(const std::string& model, const std::string& path) {
  const auto golden = ModelFile::open(test::kArchitectures + model + ".gguf");
  GgufWriter writer = golden_metadata(model);
  int quantised = 0;
  for (const FileTensor& tensor : golden->tensors()) {
    const bool blocks = tensor.shape.size() == 2 && tensor.shape[0] % 32 == 0;
    std::string bytes = bytes_of(tensor);
    if (blocks) {
      const std::vector<float> values = test::values_of(tensor);
      bytes.clear();
      for (std::size_t begin = 0; begin < values.size(); begin += 32) {  // a scale, then 32 codes
        float largest = 0;
        for (std::size_t i = begin; i < begin + 32; ++i) largest = std::max(largest, std::abs(values[i]));
        const Half scale = to_half(largest / 127);
        bytes += test::GgufWriter::bytes_of(scale.bits);
        for (std::size_t i = begin; i < begin + 32; ++i) bytes += static_cast<char>(std::lround(values[i] / to_float(scale)));
      }
      ++quantised;
    }
    add_tensor(writer, tensor, blocks ? "Q8_0" : tensor.type_name, bytes);
  }
  writer.write(path);
  return quantised;
}

}  // namespace

TEST_CASE("a quantised file becomes a folder: f32 keeps every value, f16 and bf16 round them, and a note says so") {
  const Place place;
  const int quantised = write_quantised("qwen2", place / "q.gguf");
  REQUIRE(quantised > 10);
  const auto note = [&](const char* type) { return std::to_string(quantised) + " quantised tensors are rounded to " + type + ": patchbay convert --type f32 keeps every value"; };
  const std::string no_text = "the GGUF file has no tokenizer: the folder knows no text and no chats";
  CHECK(convert(place / "q.gguf", place / "usual") == std::vector<std::string>{note("f16"), no_text});
  CHECK(convert(place / "q.gguf", place / "f16", {"f16", false}) == std::vector<std::string>{note("f16"), no_text});
  CHECK(convert(place / "q.gguf", place / "bf16", {"bf16", false}) == std::vector<std::string>{note("bf16"), no_text});
  CHECK(convert(place / "q.gguf", place / "f32", {"f32", false}) == std::vector<std::string>{no_text});
  const auto exact = ModelFile::open(place / "f32"), half = ModelFile::open(place / "usual"), brain = ModelFile::open(place / "bf16");
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const std::vector<float> values = test::values_of(*exact->tensor(name));
  const auto read = [&](const ModelFile& file) { return reinterpret_cast<const std::uint16_t*>(file.tensor(name)->data); };
  REQUIRE(half->tensor(name)->type_name == "F16");
  REQUIRE(brain->tensor(name)->type_name == "BF16");
  int rounded = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale_and_code = values[i];
    CHECK(read(*half)[i] == to_half(scale_and_code).bits);
    CHECK(read(*brain)[i] == to_bfloat16(scale_and_code).bits);
    rounded += to_float(to_half(scale_and_code)) != scale_and_code;
  }
  CHECK(rounded > 100);
  convert(place / "f32", place / "again.gguf");
  const auto again = ModelFile::open(place / "again.gguf"), first = ModelFile::open(place / "q.gguf");
  const auto codes = bytes_of(*first->tensor("blk.0.ffn_up.weight"));
  const std::vector<float> back = test::values_of(*again->tensor("blk.0.ffn_up.weight"));
  Half scale;
  for (std::size_t i = 0; i < back.size(); ++i) {  // the values are scale times code, nothing else
    const char* block = codes.data() + i / 32 * 34;
    std::memcpy(&scale.bits, block, 2);
    CHECK(back[i] == to_float(scale) * static_cast<float>(static_cast<signed char>(block[2 + i % 32])));
  }
}

TEST_CASE("chat templates by name, and sampling settings, go along in both directions") {
  const Place place;
  test::write_golden_folder(place / "a", "qwen2");
  write_tokenizer(place / "a");
  std::ofstream(place / "a/tokenizer_config.json")
      << R"({"eos_token": "<|end|>", "chat_template": [{"name": "default", "template": "{{ messages }}"}, {"name": "tool_use", "template": "{{ tools }}"}]})";
  std::filesystem::create_directory(place / "a/additional_chat_templates");
  std::ofstream(place / "a/additional_chat_templates/rag-v2.jinja") << "{{ documents }}";
  std::ofstream(place / "a/generation_config.json")
      << R"({"do_sample": true, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05, "eos_token_id": 63, "transformers_version": "5.0", "max_length": null})";
  const auto notes = convert(place / "a", place / "a.gguf");
  CHECK(notes == std::vector<std::string>{"the chat template 'rag-v2' is called rag_v2", "generation_config.json: repetition_penalty left out: GGUF has no words for it"});
  const auto gguf = ModelFile::open(place / "a.gguf");
  CHECK(gguf->string("tokenizer.chat_template") == "{{ messages }}");
  CHECK(gguf->string("tokenizer.chat_template.tool_use") == "{{ tools }}");
  CHECK(std::get<std::vector<std::string_view>>(gguf->find("tokenizer.chat_templates")->value) == std::vector<std::string_view>{"rag_v2", "tool_use"});
  CHECK(gguf->real("general.sampling.temp") == Approx(0.6));
  CHECK(gguf->integer("general.sampling.top_k") == 20);

  CHECK(convert(place / "a.gguf", place / "b").empty());
  const ChatFiles back = read_chat_files(place / "b");
  CHECK(back.templates == std::map<std::string, std::string>{{"default", "{{ messages }}"}, {"rag_v2", "{{ documents }}"}, {"tool_use", "{{ tools }}"}});
  CHECK(choose_template(back, true) == "{{ tools }}");
  const Json generation = Json::parse(test::read_file(place / "b/generation_config.json"));
  CHECK(generation["do_sample"] == true);
  CHECK(generation["temperature"] == 0.6);
  CHECK(generation["top_k"] == 20);
  CHECK(generation["top_p"] == 0.95);
  CHECK_FALSE(generation.contains("min_p"));
  convert(place / "b", place / "b.gguf");
  CHECK(read_chat_files(place / "b.gguf").templates == back.templates);
  convert(place / "b.gguf", place / "a", {"", true});  // a folder of templates is part of a model's folder
  CHECK(read_chat_files(place / "a").templates == back.templates);

  // Without a default; settings that greedy decoding does not use; names that GGUF cannot tell apart.
  std::ofstream(place / "b/tokenizer_config.json") << R"({"chat_template": [{"name": "tool_use", "template": "{{ tools }}"}]})";
  std::ofstream(place / "b/generation_config.json") << R"({"temperature": 0.6})";
  CHECK(convert(place / "b", place / "c.gguf") == std::vector<std::string>{"generation_config.json: temperature left out: without do_sample it has no effect"});
  CHECK(ModelFile::open(place / "c.gguf")->find("tokenizer.chat_template") == nullptr);
  CHECK(ModelFile::open(place / "c.gguf")->find("general.sampling.temp") == nullptr);
  convert(place / "c.gguf", place / "c");
  CHECK(read_chat_files(place / "c").templates == std::map<std::string, std::string>{{"tool_use", "{{ tools }}"}});
  CHECK_FALSE(Json::parse(test::read_file(place / "c/generation_config.json")).contains("do_sample"));
  std::ofstream(place / "b/tokenizer_config.json") << R"({"chat_template": [{"name": "a-b", "template": "1"}, {"name": "a_b", "template": "2"}]})";
  CHECK_THAT(test::message_of([&] { convert(place / "b", place / "d.gguf"); }), Contains("GGUF has no words for the chat template 'a_b' beside the others"));
  CHECK_FALSE(std::filesystem::exists(place / "d.gguf"));
}

TEST_CASE("sampling settings of a GGUF file that transformers has no words for are named in a note") {
  const Place place;
  test::write_golden_folder(place / "a", "qwen2");
  write_tokenizer(place / "a");
  convert(place / "a", place / "a.gguf");
  const auto file = ModelFile::open(place / "a.gguf");
  GgufWriter writer = golden_metadata("qwen2");
  const auto tokenizer = read_gguf_tokenizer(*file);
  add_gguf_tokenizer(writer, tokenizer, tokenizer.vocabulary.size(), "x");
  writer.f32("general.sampling.xtc_probability", 0.5f);
  writer.f32("general.sampling.min_p", 0.05f);
  for (const FileTensor& tensor : file->tensors()) add_tensor(writer, tensor, tensor.type_name, bytes_of(tensor));
  writer.write(place / "b.gguf");
  CHECK(convert(place / "b.gguf", place / "b") == std::vector<std::string>{"general.sampling.xtc_probability left out: generation_config.json has no words for it"});
  CHECK(Json::parse(test::read_file(place / "b/generation_config.json"))["min_p"] == 0.05);
}

TEST_CASE("a model without a tokenizer: numbers in both forms, said in a note, and computed on") {
  const Place place;
  test::write_golden_folder(place / "a", "qwen2");
  CHECK(convert(place / "a", place / "a.gguf") == std::vector<std::string>{"the folder has no tokenizer.json: the GGUF file knows no text and no chats"});
  const auto tokenizer = make_tokenizer(*ModelFile::open(place / "a.gguf"));
  CHECK_FALSE(tokenizer->knows_text());
  CHECK(tokenizer->size() == 64);
  CHECK(tokenizer->eos() == -1);
  CHECK_FALSE(tokenizer->is_end_of_generation(63));
  CHECK_THAT(test::message_of([&] { tokenizer->encode("a", false, false); }), Contains("a.gguf: holds no tokenizer") && Contains("--tokens"));
  const auto logits = [&](const std::string& model) {
    const auto result = test::run_program({"logits", "--model", place / model, "--tokens", "1,2,3", "--top", "3", "--json"});
    INFO(result.err);
    CHECK(result.code == 0);
    return result.out;
  };
  CHECK(logits("a.gguf").find("\"logit\"") != std::string::npos);
  const auto text = test::run_program({"logits", "--model", place / "a.gguf", "--prompt", "A"});
  CHECK(text.code == 1);
  CHECK_THAT(text.err, Contains("a.gguf: holds no tokenizer: the model's tokens have no texts; use token numbers"));
  CHECK(convert(place / "a.gguf", place / "b") == std::vector<std::string>{"the GGUF file has no tokenizer: the folder knows no text and no chats"});
  CHECK_FALSE(std::filesystem::exists(place / "b/tokenizer.json"));
  CHECK(logits("b") == logits("a"));
  check_same_tensors(*ModelFile::open(place / "a"), *ModelFile::open(place / "b"));
}

TEST_CASE("MXFP4 is refused by the tensor's name, by what computes and by convert") {
  const Place place;
  const auto golden = ModelFile::open(test::kArchitectures + "qwen2.gguf");
  GgufWriter writer = golden_metadata("qwen2");
  for (const FileTensor& tensor : golden->tensors()) {
    const bool mxfp4 = tensor.name == "blk.1.ffn_up.weight";  // 48 rows of one block: 17 bytes
    add_tensor(writer, tensor, mxfp4 ? "MXFP4" : tensor.type_name, mxfp4 ? std::string(48 * 17, '\1') : bytes_of(tensor));
  }
  writer.write(place / "x.gguf");
  const std::string of_convert = test::message_of([&] { convert(place / "x.gguf", place / "x"); });
  const auto logits = test::run_program({"logits", "--model", place / "x.gguf", "--tokens", "1,2"});
  CHECK(logits.code == 1);
  for (const std::string& message : {of_convert, logits.err}) {
    CHECK_THAT(message, Contains("x.gguf: tensor blk.1.ffn_up.weight has type MXFP4, which is not computed") && Contains("Q4_K"));
  }
  CHECK_FALSE(std::filesystem::exists(place / "x"));
}

TEST_CASE("a GGUF tensor that a folder has no place for is refused, not dropped") {
  const Place place;
  const auto golden = ModelFile::open(test::kArchitectures + "llama_linear.gguf");
  GgufWriter writer = golden_metadata("llama_linear");
  for (const FileTensor& tensor : golden->tensors()) add_tensor(writer, tensor, tensor.type_name, bytes_of(tensor));
  writer.tensor({"blk.1.attn_output.bias", find_tensor_type("F32"), {32}, [](ByteSink sink) { sink(std::string(128, '\0')); }});
  writer.write(place / "x.gguf");
  CHECK_THAT(test::message_of([&] { convert(place / "x.gguf", place / "x"); }), Contains("x.gguf: tensor 'blk.1.attn_output.bias': a folder has no place for it"));
  CHECK_FALSE(std::filesystem::exists(place / "x"));
}

TEST_CASE("nothing is overwritten unasked; --force replaces a model, and no other folder") {
  const Place place;
  test::write_golden_folder(place / "a", "qwen2");
  write_tokenizer(place / "a");
  convert(place / "a", place / "a.gguf");
  CHECK_THAT(test::message_of([&] { convert(place / "a", place / "a.gguf"); }), Contains("a.gguf: exists; --force replaces it"));
  convert(place / "a", place / "a.gguf", {"", true});
  CHECK_THAT(test::message_of([&] { convert(place / "a", place / "a"); }), Contains("/a: is a folder"));
  CHECK_THAT(test::message_of([&] { convert(place / "a.gguf", place / "a.gguf"); }), Contains("a.gguf: is a file's name, and a GGUF file becomes a folder"));
  CHECK_THAT(test::message_of([&] { convert(place / "a.gguf", place / "new.gguf"); }), Contains("new.gguf: is a file's name"));
  for (const char* name : {"out", "out.safetensors", "out.gguf.bak"}) {
    CHECK_THAT(test::message_of([&] { convert(place / "a", place / name); }), Contains("is no name of a GGUF file, which is what a folder becomes; allowed: NAME.gguf"));
  }
  CHECK_THAT(test::message_of([&] { convert(place / "a.gguf", place / "a"); }), Contains("/a: exists and is not empty; --force replaces it"));
  std::filesystem::create_directory(place / "b");
  convert(place / "a.gguf", place / "b/");
  std::ofstream(place / "b/model.safetensors.index.json") << "{}";  // of what was there before
  convert(place / "a.gguf", place / "b", {"", true});
  CHECK_FALSE(std::filesystem::exists(place / "b/model.safetensors.index.json"));
  std::ofstream(place / "b/thesis.tex") << "x";
  CHECK_THAT(test::message_of([&] { convert(place / "a.gguf", place / "b", {"", true}); }), Contains("b/thesis.tex: is no file of a model's folder"));
  CHECK(std::filesystem::exists(place / "b/thesis.tex"));
  CHECK(place.entries() == 3);
}

TEST_CASE("--force does not destroy the model that is read, and replaces no pipe, no folder's link and no link that leads nowhere") {
  namespace fs = std::filesystem;
  const Place place;
  test::write_golden_folder(place / "a", "qwen2");
  write_tokenizer(place / "a");
  convert(place / "a", place / "a.gguf");
  const auto refusal = [&](const std::string& in, const std::string& out) { return test::message_of([&] { convert(place / in, place / out, {"", true}); }); };
  std::map<std::string, std::string> before;
  for (const auto& entry : fs::directory_iterator(place / "a")) before[entry.path()] = test::read_file(entry.path());
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) CHECK_THAT(refusal("a", "a/" + std::string(name)), Contains("belongs to the model that is read"));
  CHECK_THAT(refusal("a", "a/tokenizer.model"), Contains("is no name of a GGUF file"));
  fs::create_symlink(place / "a/model.safetensors", place / "link.gguf");
  CHECK_THAT(refusal("a", "link.gguf"), Contains("belongs to the model that is read"));
  for (const auto& [path, bytes] : before) CHECK((test::read_file(path) == bytes));

  fs::create_directory(place / "b");
  fs::rename(place / "a.gguf", place / "b/tokenizer.model");
  fs::create_symlink(place / "b", place / "c");
  for (const char* out : {"b", "b/", "c", "c/"}) CHECK_THAT(refusal("b/tokenizer.model", out), Contains("holds the model that is read"));
  fs::rename(place / "b/tokenizer.model", place / "a.gguf");
  convert(place / "a.gguf", place / "c", {"", true});  // a link to a folder keeps: what it leads to is replaced
  CHECK(fs::is_symlink(place / "c"));
  CHECK(fs::exists(place / "b/model.safetensors"));
  convert(place / "a.gguf", place / "c/", {"", true});
  CHECK(fs::is_symlink(place / "c"));

  fs::create_symlink("nothing", place / "dangling.gguf");
  fs::create_symlink("nothing", place / "dangling");
  CHECK_THAT(refusal("a", "dangling.gguf"), Contains("dangling.gguf: is a link that leads nowhere"));
  CHECK_THAT(refusal("a.gguf", "dangling"), Contains("dangling: is a link that leads nowhere"));
  REQUIRE(::mkfifo((place / "pipe.gguf").c_str(), 0600) == 0);
  CHECK_THAT(refusal("a", "pipe.gguf"), Contains("pipe.gguf: is a pipe or a device"));
  CHECK(fs::is_fifo(place / "pipe.gguf"));
  fs::create_symlink("a.gguf", place / "good.gguf");
  convert(place / "a", place / "good.gguf", {"bf16", true});
  CHECK(fs::is_symlink(place / "good.gguf"));
  CHECK(ModelFile::open(place / "a.gguf")->integer("general.file_type") == 32);
}

TEST_CASE("what llama.cpp does not read goes along, and is noted: a scale of attention, experts' weights that do or do not sum to 1") {
  const Place place;
  test::write_golden_folder(place / "a", "gemma3");
  write_tokenizer(place / "a");
  Json config = test::golden_model("gemma3")["config"];
  config["query_pre_attn_scalar"] = 32;  // head_dim is 8
  std::ofstream(place / "a/config.json") << config.dump();
  const auto notes = convert(place / "a", place / "a.gguf");
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains("llama.cpp does not read attention.scale") && Contains("1/sqrt(8)"));
  CHECK(read_model_spec(*ModelFile::open(place / "a.gguf")).attention_scale == read_model_spec(*ModelFile::open(place / "a")).attention_scale);
  for (const auto& [model, word] : {std::pair("qwen3moe", "always"), std::pair("qwen2moe", "never")}) {
    Json experts = test::golden_model(model)["config"];
    for (const bool normalized : {false, true}) {
      std::filesystem::remove_all(place / model);
      test::write_golden_folder(place / model, model);
      write_tokenizer(place / model);
      experts["norm_topk_prob"] = normalized;
      std::ofstream(place / model + "/config.json") << experts.dump();
      const auto noted = convert(place / model, place / "experts.gguf", {"", true});
      CHECK(read_model_spec(*ModelFile::open(place / "experts.gguf")).experts.normalized == normalized);
      const bool differs = normalized == (model == std::string("qwen2moe"));
      REQUIRE(noted.size() == (differs ? 1 : 0));
      if (differs) CHECK_THAT(noted[0], Contains("does not read expert_weights_norm") && Contains(word));
    }
  }
}

TEST_CASE("a full disk, and a folder that cannot be written to, are errors that leave nothing behind") {
  const Place place;
  test::write_golden_folder(place / "a", "qwen2");
  write_tokenizer(place / "a");
  convert(place / "a", place / "a.gguf");
  for (const auto& [in, out] : {std::pair("a", "b.gguf"), std::pair("a.gguf", "b")}) {
    const auto child = ::fork();
    if (child == 0) {  // a limit on file sizes fails in the way a full disk does: a part is written, then an error
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{20000, 20000};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const std::string message = test::message_of([&, from = place / in, to = place / out] { convert(from, to); });
      const bool named = message.find(".part") == std::string::npos && message.find(place / out) != std::string::npos;  // by the name that the user gave
      ::_exit(named && message.find("writing failed: File too large; make room") != std::string::npos ? 0 : 3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  }
  CHECK(place.entries() == 2);
  CHECK_THAT(test::message_of([&] { convert(place / "a", place / "nowhere/b.gguf"); }), Contains("nowhere: no such folder: b.gguf is to be written there") && !Contains(".part"));
  CHECK_THAT(test::message_of([&] { convert(place / "a.gguf", place / "nowhere/b"); }), Contains("nowhere: no such folder: b is to be written there"));
}

TEST_CASE("what the other form has no words for is refused before anything is written") {
  const Place place;
  const auto refusal = [&](const std::string& model, const char* pointer, const Json& value) {
    std::filesystem::remove_all(place / "a");
    test::write_golden_folder(place / "a", model);
    write_tokenizer(place / "a");
    Json config = test::golden_model(model)["config"];
    config[Json::json_pointer(pointer)] = value;
    std::ofstream(place / "a/config.json") << config.dump();
    const std::string message = test::message_of([&] { convert(place / "a", place / "a.gguf"); });
    CHECK_FALSE(std::filesystem::exists(place / "a.gguf"));
    return message;
  };
  CHECK_THAT(refusal("smollm3", "/no_rope_layers", {0, 1, 1, 1}), Contains("config.json: GGUF has no words for this model's RoPE"));
  CHECK_THAT(refusal("gemma3", "/rope_parameters/sliding_attention", {{"rope_type", "linear"}, {"rope_theta", 10000.0}, {"factor", 2.0}}),
             Contains("GGUF has no words for this model's RoPE"));
  const Json long_rope = {{"rope_type", "longrope"}, {"rope_theta", 500.0}, {"factor", 4.0}, {"original_max_position_embeddings", 16},
                          {"short_factor", {1.0, 1.1, 1.2, 1.3}}, {"long_factor", {1.0, 1.5, 2.0, 4.0}}};
  const std::string unexpected = refusal("llama_linear", "/rope_parameters", long_rope);
  CHECK_THAT(unexpected, Contains("a/config.json: GGUF has no words for this model: tensor 'rope_factors_long.weight': unexpected tensor"));
  CHECK_THAT(unexpected, !Contains(".part"));
  test::FolderTensors tensors = test::golden_tensors("qwen3moe");  // layer 1 without experts
  for (const char* part : {"gate", "up", "down"}) {
    const std::string one = std::string("_proj.weight"), layer = "model.layers.1.mlp.";
    const bool down = std::string(part) == "down";
    tensors[layer + part + one] = {down ? std::vector<std::int64_t>{32, 48} : std::vector<std::int64_t>{48, 32}, std::vector<float>(32 * 48)};
  }
  std::erase_if(tensors, [](const auto& entry) {
    return entry.first.starts_with("model.layers.1.mlp.experts") || entry.first == "model.layers.1.mlp.gate.weight";
  });
  std::filesystem::remove_all(place / "a");
  test::write_golden_folder(place / "a", "qwen3moe");
  test::write_weights(place / "a/model.safetensors", tensors);
  Json config = test::golden_model("qwen3moe")["config"];
  config["mlp_only_layers"] = {1};
  std::ofstream(place / "a/config.json") << config.dump();
  const std::string dense = test::message_of([&] { convert(place / "a", place / "a.gguf"); });
  CHECK_THAT(dense, Contains("a/config.json: GGUF has no words for layers without experts") && !Contains(".part"));
  CHECK(place.entries() == 1);
}

TEST_CASE("tokenizers: tokenizer.json as GGUF and GGUF as tokenizer.json give the tokens of the other form") {
  const Json cases = Json::parse(test::read_file(test::source_path("tests/golden/tokenizers/cases.json")))["cases"];
  const auto golden = [](const std::string& name) { return test::source_path("tests/golden/tokenizers/" + name); };
  const test::TemporaryFolder folder;
  const auto check = [&](const std::string& name, const std::string& written, bool frame = true) {
    const auto theirs = load_tokenizer(golden(name)), ours = load_tokenizer(written);
    for (const Json& one : cases[name]) {
      INFO(name << ": " << one["text"]);
      const std::string text = one["text"];
      CHECK((ours->encode(text, false, false) == theirs->encode(text, false, false)));
      const auto tokens = theirs->encode(text, true, frame);
      CHECK((ours->encode(text, true, frame) == tokens));
      CHECK(ours->decode_text(tokens, true) == theirs->decode_text(tokens, true));
    }
  };
  for (const std::string name : {"gpt2", "smollm", "qwen2", "deepseek_llm", "deepseek_coder", "deepseek_v3", "falcon", "llama3"}) {
    GgufWriter writer;
    const auto description = read_tokenizer_json(JsonFile(golden(name + ".json")));
    add_gguf_tokenizer(writer, description, description.vocabulary.size() + 3, "tokenizer.json");  // three rows of embedding without a token
    writer.text("general.architecture", "test");
    writer.write(folder / "x.gguf");
    check(name + ".gguf", folder / "x.gguf", false);  // the golden GGUF file is another program's of the same tokenizer, but for BOS
  }
  for (const std::string name : {"gpt2", "qwen2", "falcon", "llama3", "spm_bpe", "spm_bpe_no_prefix"}) {
    const auto description = read_gguf_tokenizer(*ModelFile::open(golden(name + ".gguf")));
    std::ofstream(folder / "tokenizer.json") << tokenizer_json(description, description.vocabulary.size()).dump();
    check(name + ".gguf", folder / "tokenizer.json");
    GgufWriter writer;
    writer.text("general.architecture", "test");
    add_gguf_tokenizer(writer, read_tokenizer_json(JsonFile(folder / "tokenizer.json")), description.vocabulary.size(), "tokenizer.json");
    writer.write(folder / "y.gguf");
    check(name + ".gguf", folder / "y.gguf");
  }
}

TEST_CASE("SentencePiece's merges beside added tokens: Gemma lists runs of spaces and line ends as added") {
  const std::string golden = test::source_path("tests/golden/tokenizers/spm_bpe.gguf");
  const auto description = read_gguf_tokenizer(*ModelFile::open(golden));
  Json json = tokenizer_json(description, description.vocabulary.size());
  std::string run, word;  // a run of marks, and a word of letters, that merges make
  for (const auto& merge : json["model"]["merges"]) {
    const std::string made = merge[0].get<std::string>() + merge[1].get<std::string>();
    if (run.empty() && made == "\xE2\x96\x81\xE2\x96\x81") run = made;
    if (word.empty() && made.size() == 2 && std::isalpha(static_cast<unsigned char>(made[0]))) word = made;
  }
  REQUIRE_FALSE(word.empty());
  for (const std::string& content : {run, word}) {
    if (!content.empty()) json["added_tokens"].push_back({{"id", json["model"]["vocab"][content]}, {"content", content}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", false}});
  }
  const test::TemporaryFolder folder;
  std::ofstream(folder / "tokenizer.json") << json.dump();
  GgufWriter writer;
  writer.text("general.architecture", "test");
  add_gguf_tokenizer(writer, read_tokenizer_json(JsonFile(folder / "tokenizer.json")), description.vocabulary.size(), "tokenizer.json");
  writer.write(folder / "x.gguf");
  const auto theirs = load_tokenizer(folder / "tokenizer.json"), ours = load_tokenizer(folder / "x.gguf");
  for (const std::string text : {word + " " + word + "x" + word, std::string("a  b, ") + word + "  c", std::string("The  other one")}) {
    INFO(text);
    CHECK((ours->encode(text, false, false) == theirs->encode(text, false, false)));
  }
}

TEST_CASE("tokenizers that GGUF has no name for are refused with what it has") {
  const auto refusal = [](const std::string& name) {
    GgufWriter writer;
    const auto description = read_tokenizer_json(JsonFile(test::source_path("tests/golden/tokenizers/" + name + ".json")));
    return test::message_of([&] { add_gguf_tokenizer(writer, description, description.vocabulary.size(), "FOLDER/tokenizer.json"); });
  };
  CHECK_THAT(refusal("bert_bpe"), Contains("FOLDER/tokenizer.json: cannot be said in GGUF"));
  CHECK_THAT(refusal("clip"), Contains("cannot be said in GGUF"));
  CHECK_THAT(refusal("t5"), Contains("Unigram"));
  CHECK_THAT(refusal("llama2"), Contains("merges"));  // trained by `tokenizers`: SentencePiece would cut words in other ways
  const auto qwen2 = read_tokenizer_json(JsonFile(test::source_path("tests/golden/tokenizers/qwen2.json")));
  GgufWriter writer;
  const auto notes = add_gguf_tokenizer(writer, qwen2, qwen2.vocabulary.size(), "x");
  REQUIRE(notes.size() == 2);
  CHECK_THAT(notes[0], Contains("NFC is left out"));
  CHECK_THAT(notes[1], Contains("white space beside 3 added tokens"));
}

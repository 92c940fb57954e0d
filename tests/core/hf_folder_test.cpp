// Hugging Face folders, opened as any model: the golden models in the form in which transformers saves them give its logits; what is
// missing, too much or of another shape is refused by name.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>

#include "config.h"
#include "folder_warnings.h"
#include "hf_folder.h"
#include "session.h"

using namespace patchbay;
using Catch::Matchers::Contains;

namespace {

constexpr float kTolerance = 1e-4f;  // logits are up to 7
constexpr int kVocabulary = 64, kEvery = 3;  // of tests/golden/architectures/generate.py

std::vector<float> logits_of(const std::string& model, std::span<const Token> tokens, const std::string& settings = "") {
  SessionOptions options;
  options.max_tokens = static_cast<std::int64_t>(tokens.size());
  Session session(ModelFile::open(find_model(model)), read_run_config(parse_yaml("activations: fp32\nkv_store: {type: contiguous, format: fp32}\n" + settings, "test")), options);
  const SeqId seq = session.runner().open();
  std::vector<TokenRow> rows;
  for (const Token token : tokens) rows.push_back({seq, token, static_cast<std::int32_t>(rows.size()) - 1, true, 0});
  const Step step = session.runner().forward(rows);
  return {step.logits.data, step.logits.data + step.logits.size()};
}

float largest_difference(const std::vector<float>& logits, const std::vector<float>& every_third) {
  float largest = 0;
  for (std::size_t i = 0; i < every_third.size(); ++i) {
    const std::size_t row = i / kVocabulary * kEvery;
    const float difference = std::abs(logits.at(row * kVocabulary + i % kVocabulary) - every_third[i]);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

/// A folder of one golden model, to be spoilt.
struct Folder {
  explicit Folder(const std::string& model) : tensors(test::golden_tensors(model)), config(test::golden_model(model)["config"]) {}
  const test::TemporaryFolder folder;
  test::FolderTensors tensors;
  nlohmann::json config;

  std::string write() const {
    std::ofstream(folder / "config.json") << config.dump();
    test::write_weights(folder / "model.safetensors", tensors);
    return folder.path;
  }
  std::string refusal() const {
    write();
    return test::message_of([&] { read_model_spec(*ModelFile::open(folder.path)); });
  }
};

const std::vector<Token> kTokens = {1, 5, 9, 33, 2};

}  // namespace

TEST_CASE("every architecture, read from its folder: logits agree with transformers") {
  const auto goldens = nlohmann::json::parse(test::read_file(test::kArchitectures + "architectures.json"))["models"];
  for (const auto& [model, golden] : goldens.items()) {
    DYNAMIC_SECTION(model) {
      const test::TemporaryFolder folder;
      test::write_golden_folder(folder.path, model);
      for (const auto& sequence : golden["sequences"]) {
        const auto tokens = sequence["tokens"].get<std::vector<Token>>();
        CHECK(largest_difference(logits_of(folder.path, tokens), test::floats_of_hex(sequence["logits"])) < kTolerance);
      }
    }
  }
}

TEST_CASE("a folder's shards give the same bits as one file; rules name tensors as everywhere") {
  Folder one("qwen3");
  const auto whole = logits_of(one.write(), kTokens);
  const test::TemporaryFolder folder;
  std::ofstream(folder / "config.json") << one.config.dump();
  nlohmann::json map;
  test::FolderTensors shards[2];
  for (const auto& [name, tensor] : one.tensors) {
    const int shard = map.size() % 2;
    shards[shard][name] = tensor;
    map[name] = "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
  }
  for (int i = 0; i < 2; ++i) test::write_weights(folder / ("model-0000" + std::to_string(i + 1) + "-of-00002.safetensors"), shards[i]);
  const std::string index = folder / "model.safetensors.index.json";
  std::ofstream(index) << nlohmann::json({{"metadata", {{"total_size", 1}}}, {"weight_map", map}}).dump();
  CHECK(logits_of(folder.path, kTokens) == whole);
  CHECK(logits_of(index, kTokens) == whole);
  CHECK(ModelFile::open(folder.path)->paths().size() == 4);  // config.json, the index and two shards: all that the model is
  const auto warnings = folder_warnings(*ModelFile::open(folder.path));
  REQUIRE(warnings.size() == 1);
  CHECK_THAT(warnings[0], Contains("model.safetensors.index.json: total_size is 1, and the tensors have "));
  auto less = map;
  less.erase("model.norm.weight");
  std::ofstream(index) << nlohmann::json({{"weight_map", less}}).dump();
  CHECK_THAT(folder_warnings(*ModelFile::open(folder.path)).at(0), Contains("leaves out 1 tensors that its shards hold (model.norm.weight)"));
  std::filesystem::remove(index);
  CHECK_THAT(test::message_of([&] { ModelFile::open(folder.path); }), Contains("model.safetensors.index.json: no such file: shards are here (2)"));
  std::ofstream(index) << nlohmann::json({{"weight_map", map}}).dump();

  // transformers reads the one file where both are there; so does this, and says so.
  test::write_weights(folder / "model.safetensors", one.tensors);
  CHECK(ModelFile::open(folder.path)->paths().size() == 2);
  CHECK(logits_of(folder.path, kTokens) == whole);
  CHECK_THAT(folder_warnings(*ModelFile::open(folder.path)).at(0), Contains("the weights are here twice: model.safetensors is read"));
  std::filesystem::remove(folder / "model.safetensors");
  CHECK(logits_of(folder.path, kTokens, "weights: {quantizer: none, rules: [{match: blk.0.attn_q, quantizer: rtn, format: q8_0}]}") != whole);

  shards[1]["model.norm.weight"] = one.tensors["model.norm.weight"];
  shards[0]["model.norm.weight"] = one.tensors["model.norm.weight"];
  for (int i = 0; i < 2; ++i) test::write_weights(folder / ("model-0000" + std::to_string(i + 1) + "-of-00002.safetensors"), shards[i]);
  CHECK_THAT(test::message_of([&] { ModelFile::open(folder.path); }), Contains("tensor 'model.norm.weight': duplicate tensor name"));
}

TEST_CASE("tensors at any byte of a file: values exact, and the same logits as from aligned ones (C10)") {
  const test::TemporaryFolder folder;
  const auto write = [](const std::string& path, const std::string& header, const std::string& data) {
    const std::uint64_t length = header.size();
    std::ofstream(path, std::ios::binary) << std::string(reinterpret_cast<const char*>(&length), sizeof length) << header << data;
  };
  const std::string odd = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"w":{"dtype":"F32","shape":[2],"data_offsets":[3,11]}})";
  REQUIRE(odd.size() % 2 == 1);
  const float values[] = {1.5f, -2.0f};
  write(folder / "odd.safetensors", odd, std::string("\1\2\3") + std::string(reinterpret_cast<const char*>(values), sizeof values));
  const auto file = ModelFile::open(folder / "odd.safetensors");
  CHECK(std::memcmp(file->tensor("w")->data, values, sizeof values) == 0);

  write(folder / "bytes.safetensors", "{\"a\xFF\":1}", "");
  CHECK_THAT(test::message_of([&] { ModelFile::open(folder / "bytes.safetensors"); }), Contains("bytes.safetensors: header at byte 11: bad UTF-8"));

  const Folder model("qwen3");
  const auto aligned = logits_of(model.write(), kTokens);
  const std::string whole = test::read_file(model.folder / "model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof length);
  for (const std::size_t more : {1, 2, 3}) {
    write(model.folder / "model.safetensors", whole.substr(8, length) + std::string(more, ' '), whole.substr(8 + length));
    CHECK(logits_of(model.folder.path, kTokens) == aligned);
  }
}

TEST_CASE("GPT-2's folder may leave out \"transformer.\"; buffers of older folders are no tensors of the model") {
  Folder gpt2("gpt2");
  const auto expected = logits_of(gpt2.write(), kTokens);
  test::FolderTensors shortened;
  for (const auto& [name, tensor] : gpt2.tensors) shortened[name.starts_with("transformer.") ? name.substr(12) : name] = tensor;
  gpt2.tensors = shortened;
  gpt2.tensors["h.0.attn.bias"] = {{1, 1, 2, 2}, {1, 0, 1, 1}};
  gpt2.tensors["h.1.attn.masked_bias"] = {{}, {-1e4f}};
  CHECK(logits_of(gpt2.write(), kTokens) == expected);

  Folder llama("llama_bias");  // whose head is its embedding
  const auto tied = logits_of(llama.write(), kTokens);
  llama.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{4}, {1, 0.5f, 0.25f, 0.125f}};
  llama.tensors["lm_head.weight"] = llama.tensors["model.embed_tokens.weight"];
  CHECK(logits_of(llama.write(), kTokens) == tied);
  llama.tensors["lm_head.weight"].values[3] += 1;
  CHECK_THAT(llama.refusal(), Contains("tensor 'lm_head.weight': differs from the embedding"));
}

TEST_CASE("tensors that are missing, too many, or of another shape than config.json wants are refused by folder and name") {
  Folder folder("gpt2");
  const auto tensors = folder.tensors;
  folder.tensors.erase("transformer.h.1.mlp.c_fc.bias");
  CHECK_THAT(folder.refusal(), Contains(folder.folder.path + ": tensor 'transformer.h.1.mlp.c_fc.bias': missing tensor"));
  folder.tensors = tensors;
  folder.tensors["transformer.h.2.ln_1.weight"] = {{32}, std::vector<float>(32)};
  CHECK_THAT(folder.refusal(), Contains("tensor 'transformer.h.2.ln_1.weight': unexpected tensor") && Contains("gpt2 of 2 layers"));
  folder.tensors = tensors;
  std::swap(folder.tensors["transformer.h.0.attn.c_attn.weight"].shape[0], folder.tensors["transformer.h.0.attn.c_attn.weight"].shape[1]);
  CHECK_THAT(folder.refusal(), Contains("'transformer.h.0.attn.c_attn.weight': tensor shape mismatch: [96, 32]; allowed: [32, 96]"));
  folder.tensors = tensors;
  folder.config["vocab_size"] = 65;
  CHECK_THAT(folder.refusal(), Contains("'transformer.wte.weight': tensor shape mismatch: [64, 32]; allowed: [65, 32]"));

  Folder phi3("phi3_window");
  phi3.config["num_key_value_heads"] = 1;
  CHECK_THAT(phi3.refusal(), Contains("self_attn.qkv_proj.weight': tensor shape mismatch: [64, 32]; allowed: [48, 32]"));
  Folder llama("llama_linear");
  llama.tensors["model.layers.0.self_attn.q_proj.bias"] = {{32}, std::vector<float>(32)};
  CHECK_THAT(llama.refusal(), Contains("'model.layers.0.self_attn.q_proj.bias': unexpected tensor"));
}

TEST_CASE("a folder without weights, with pickled ones, or without config.json says what is missing") {
  Folder folder("qwen2");
  folder.write();
  const auto refusal = [&] { return test::message_of([&] { read_model_spec(*ModelFile::open(find_model(folder.folder.path))); }); };
  CHECK(refusal() == "no error");
  std::filesystem::rename(folder.folder / "model.safetensors", folder.folder / "weights.safetensors");
  CHECK_THAT(refusal(), Contains(folder.folder.path + ": weights: the folder holds none; allowed: model.safetensors"));
  // Tensors under another name are no whole model, but a container that can be looked into.
  const auto part = ModelFile::open(folder.folder / "weights.safetensors");
  check_model(*part);
  CHECK_THAT(test::message_of([&] { read_model_spec(*part); }), Contains("weights.safetensors: config.json: tensors alone are no model"));
  std::ofstream(folder.folder / "pytorch_model.bin") << "x";
  CHECK_THAT(refusal(), Contains("pytorch_model.bin: is a pickle"));
  std::filesystem::remove(folder.folder / "config.json");
  CHECK_THAT(refusal(), Contains(folder.folder.path + "/config.json: no such file"));
}

TEST_CASE("links that lead nowhere and what is no file are told apart from files that are absent") {
  namespace fs = std::filesystem;
  const auto refusal = [](const Folder& folder) { return test::message_of([&] { make_tokenizer(*ModelFile::open(find_model(folder.folder.path))); }); };
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json"}) {
    const Folder folder("qwen2");
    folder.write();
    fs::remove(folder.folder / name);
    fs::create_symlink("../../blobs/0123", folder.folder / name);  // a broken cache of huggingface_hub
    CHECK_THAT(refusal(folder), Contains(folder.folder / name + ": is a link to a file that is not there: ../../blobs/0123"));
  }
  const Folder folder("qwen2");
  folder.write();
  fs::remove(folder.folder / "config.json");
  fs::create_directory(folder.folder / "config.json");
  CHECK_THAT(refusal(folder), Contains("config.json: is a folder where a file is expected"));
  fs::remove(folder.folder / "config.json");
  REQUIRE(::mkfifo((folder.folder / "config.json").c_str(), 0600) == 0);
  CHECK_THAT(refusal(folder), Contains("config.json: is a pipe or a device"));
  fs::remove(folder.folder / "config.json");
  for (const auto& [text, reason] : {std::pair("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "is not JSON: looks like a Git LFS pointer"),
                                     std::pair("<!doctype html>", "is not JSON: looks like HTML")}) {
    std::ofstream(folder.folder / "config.json") << text;
    CHECK_THAT(refusal(folder), Contains("config.json: ") && Contains(reason));
  }
  CHECK_THAT(test::message_of([&] { find_model(folder.folder / "config.json"); }), Contains("describes a model, and is none") && Contains("give the folder: " + folder.folder.path));
  CHECK_THAT(test::message_of([] { find_model("/"); }), Catch::Matchers::StartsWith("/config.json: no such file"));
  std::ofstream(folder.folder / "model.safetensors") << "";
  std::ofstream(folder.folder / "config.json") << folder.config.dump();
  CHECK_THAT(refusal(folder), Contains("the file has 0 bytes") && Contains("fetch it again"));
}

TEST_CASE("rows of the embedding without a token: shown as in GGUF, and no text becomes one") {
  const Folder folder("qwen2");
  folder.write();
  std::filesystem::copy_file(test::source_path("tests/golden/tokenizers/gpt2.json"), folder.folder / "tokenizer.json");
  nlohmann::json tokenizer = nlohmann::json::parse(test::read_file(folder.folder / "tokenizer.json"));
  // A vocabulary of 61 characters, one number left out.
  nlohmann::json vocab;
  for (int i = 0; i < 61; ++i) vocab[std::string(1, static_cast<char>('!' + i))] = i < 30 ? i : i + 1;
  tokenizer["model"]["vocab"] = vocab;
  tokenizer["model"]["merges"] = nlohmann::json::array();
  tokenizer["added_tokens"] = nlohmann::json::array();
  std::ofstream(folder.folder / "tokenizer.json") << tokenizer.dump();
  const auto made = make_tokenizer(*ModelFile::open(folder.folder.path));
  CHECK(made->size() == kVocabulary);
  for (const Token token : {30, 62, 63}) {
    const std::string text = "[PAD" + std::to_string(token) + "]";
    CHECK(made->piece(token, false) == text);
    CHECK(made->decode_text(std::vector<Token>{token}) == text);
  }
  const auto tokens = made->encode("[PAD63][PAD30]", true, true);
  CHECK(std::ranges::find(tokens, 63) == tokens.end());
  CHECK(std::ranges::find(tokens, 30) == tokens.end());
}

TEST_CASE("numbers of a folder's files that cannot be meant are warnings") {
  Folder folder("qwen2");
  folder.config["bos_token_id"] = 64;
  folder.config["eos_token_id"] = {1, "x"};
  folder.write();
  std::ofstream(folder.folder / "generation_config.json") << R"({"temperature": "0.7", "top_p": 0.9, "top_k": null, "pad_token_id": -1})";
  const auto warnings = folder_warnings(*ModelFile::open(folder.folder.path));
  REQUIRE(warnings.size() == 4);
  CHECK_THAT(warnings[0], Contains("config.json: bos_token_id: 64 is no token; allowed: 0 to 63"));
  CHECK_THAT(warnings[1], Contains("config.json: eos_token_id: \"x\" is no token"));
  CHECK_THAT(warnings[2], Contains("generation_config.json: pad_token_id: -1 is no token"));
  CHECK_THAT(warnings[3], Contains("generation_config.json: temperature: is no number"));
}

TEST_CASE("a tokenizer with more tokens than the model has rows for is a warning") {
  Folder folder("qwen2");
  const auto file = ModelFile::open(folder.write());
  CHECK(missing_rows_warning(*file, make_tokenizer(*file)->size()).empty());
  std::filesystem::copy_file(test::source_path("tests/golden/tokenizers/smollm.json"), folder.folder / "tokenizer.json");
  CHECK_THAT(missing_rows_warning(*file, make_tokenizer(*file)->size()), Contains("tokenizer.json: has ") && Contains("tokens, and the model rows for 64"));
}

TEST_CASE("without tokenizer.json tokens are numbers: those compute and end as generation_config.json says, text is refused") {
  Folder folder("qwen2");
  const auto file = ModelFile::open(folder.write());
  const auto tokenizer = make_tokenizer(*file);
  CHECK_FALSE(tokenizer->knows_text());
  CHECK(tokenizer->size() == kVocabulary);
  CHECK(tokenizer->is_end_of_generation(63));  // config.json's
  CHECK_FALSE(tokenizer->is_end_of_generation(7));
  CHECK_THAT(test::message_of([&] { tokenizer->encode("a", false, false); }), Contains(folder.folder.path + "/tokenizer.json: no such file"));
  CHECK_THAT(test::message_of([&] { tokenizer->piece(1, false); }), Contains("tokenizer.json: no such file"));
  std::ofstream(folder.folder / "generation_config.json") << R"({"eos_token_id": [7, 9]})";
  const auto ends = make_tokenizer(*file);
  CHECK(ends->is_end_of_generation(7));
  CHECK(ends->is_end_of_generation(9));
  CHECK_FALSE(ends->is_end_of_generation(63));
  std::ofstream(folder.folder / "generation_config.json") << R"({"eos_token_id": 64})";
  CHECK_THAT(test::message_of([&] { make_tokenizer(*file); }), Contains("generation_config.json: /eos_token_id: is out of range: 64"));
}

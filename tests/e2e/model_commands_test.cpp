// The program's check, inspect and tokenize, run as a user runs them.
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "gguf_writer.h"
#include "hf_folder.h"
#include "program.h"
#include "support.h"

using nlohmann::json;
namespace test = patchbay::test;
using test::patchbay_run;
using Result = test::ShellResult;

namespace {

class File {
 public:
  File(const std::string& name, const std::string& bytes)
      : path_(std::filesystem::temp_directory_path() / ("patchbay_" + name)) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~File() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("check: 0 for a sound file, 1 and one line of reason for another") {
  test::GgufWriter writer;
  writer.tensor("w", {4}, {1, 2, 3, 4});
  const File good("good.gguf", writer.bytes()), cut("cut.gguf", writer.bytes().substr(0, 60));
  const File tail("tail.gguf", writer.bytes() + "??");
  CHECK(patchbay_run("check " + good.path()).code == 0);
  const Result refused = patchbay_run("check " + cut.path());
  CHECK(refused.code == 1);
  CHECK_THAT(refused.out, Catch::Contains("truncated") && Catch::Contains("at byte"));
  CHECK(std::count(refused.out.begin(), refused.out.end(), '\n') == 1);
  const Result warned = patchbay_run("check --json " + tail.path());
  CHECK(warned.code == 0);
  CHECK(json::parse(warned.out)["warnings"].size() == 1);
  const json reason = json::parse(patchbay_run("check --json " + cut.path()).out);
  CHECK(reason["valid"] == false);
  CHECK(reason["kind"] == "model");
}

namespace {

/// A word-level tokenizer of three words, as Hugging Face's library writes one.
constexpr const char* kThreeWords =
    R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                  "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b", "ab c"]}})";

}  // namespace

TEST_CASE("tokenize --tokenizer FILE: a tokenizer.json, its folder, and what is none") {
  const test::TemporaryFolder folder;
  const std::string file = folder / "tokenizer.json";
  std::ofstream(file) << kThreeWords;
  for (const std::string& place : {file, folder.path}) {
    const Result tokens = patchbay_run("tokenize --tokenizer " + place + " abcab --json");
    INFO(tokens.out);
    REQUIRE(tokens.code == 0);
    CHECK(json::parse(tokens.out) == json({{"tokens", {4, 3}}}));
  }
  const Result plain = patchbay_run("tokenize --tokenizer " + file + " abca");
  CHECK_THAT(plain.out, Catch::Contains("4  'abc'") && Catch::Contains("0  'a'"));
  const std::string text = folder / "text.txt";
  std::ofstream(text) << "cab";
  CHECK(json::parse(patchbay_run("tokenize --tokenizer " + file + " --json --file " + text).out)["tokens"] == json({2, 3}));
  CHECK_THAT(patchbay_run("tokenize --tokenizer " + text + " abc").out, Catch::Contains("text.txt: byte 1: is not JSON here"));
  CHECK_THAT(patchbay_run("tokenize --tokenizer " + file + " --model x abc").out, Catch::Contains("one tokenizer is needed"));
  CHECK_THAT(patchbay_run("tokenize abc").out, Catch::Contains("one tokenizer is needed"));
  CHECK_THAT(patchbay_run("tokenize abc --tokenizer " + file + " --file " + text).out, Catch::Contains("TEXT and --file are both given; allowed: one of both"));
}

TEST_CASE("check reads chat templates: GGUF and folders") {
  const auto checked = [](const std::function<void(test::GgufWriter&)>& add) {
    test::GgufWriter writer;
    writer.string("general.architecture", "llama");
    add(writer);
    writer.tensor("w", {1}, {1});
    const File file("chat.gguf", writer.bytes());
    const Result result = patchbay_run("check " + file.path());
    CHECK(result.code == (result.out.find("a sound model") == std::string::npos ? 1 : 0));
    return result.out;
  };
  CHECK_THAT(checked([](auto& file) { file.string("tokenizer.chat_template", "{{ messages }}"); }), Catch::Contains("a sound model"));
  CHECK_THAT(checked([](auto& file) { file.string("tokenizer.chat_template", "{% if %}"); }), Catch::Contains("chat.gguf: tokenizer.chat_template: line 1: unexpected"));
  CHECK_THAT(checked([](auto& file) { file.string("tokenizer.chat_template.tool_use", ""); }), Catch::Contains("tokenizer.chat_template.tool_use: the chat template is empty"));
  CHECK_THAT(checked([](auto& file) { file.u32("tokenizer.chat_template", 5); }), Catch::Contains("tokenizer.chat_template: wrong key type u32"));

  const test::TemporaryFolder folder;
  test::write_golden_folder(folder.path, "qwen2");
  const std::string file = folder / "chat_template.jinja";
  const auto refused = [&] {
    const Result result = patchbay_run("check " + folder.path);
    CHECK(result.code == 1);
    return result.out;
  };
  CHECK(patchbay_run("check " + folder.path).code == 0);
  for (const auto& [text, reason] : {std::pair("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "is no chat template: looks like a Git LFS pointer"), std::pair("", "is empty"),
                                     std::pair("{% for %}", "line 1: unexpected"), std::pair("a\xff", "the template is not UTF-8 at byte 1")}) {
    std::ofstream(file, std::ios::binary) << text;
    CHECK_THAT(refused(), Catch::StartsWith(file + ": ") && Catch::Contains(reason));
  }
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  CHECK_THAT(refused(), Catch::StartsWith(file + ": is a folder where a file is expected"));
  std::filesystem::remove(file);
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": 5})";
  CHECK_THAT(refused(), Catch::Contains("tokenizer_config.json: /chat_template: is no template; allowed: a text, or a list of names and texts"));
  CHECK_THAT(patchbay_run("check " + folder.path + "/config.json").out, Catch::Contains("describes a model, and is none") && Catch::Contains("give the folder: " + folder.path));
}

TEST_CASE("check reads every weight: one that is NaN or infinite is a fault, with its place; in a tensor that no known model reads, a warning") {
  const test::TemporaryFolder folder;
  const auto checked = [&](const std::string& tensor, std::size_t place, float value) {
    auto tensors = test::golden_tensors("qwen2");
    tensors.at(tensor).values.at(place) = value;
    test::write_golden_folder(folder.path, "qwen2");
    test::write_weights(folder / "model.safetensors", tensors);
    const Result result = patchbay_run("check " + folder.path);
    CHECK(result.code == 1);
    return result.out;
  };
  CHECK_THAT(checked("model.norm.weight", 7, NAN), Catch::StartsWith(folder.path + ": tensor model.norm.weight: row 0, column 7 is NaN or infinite; allowed: finite weights"));
  CHECK_THAT(checked("model.embed_tokens.weight", 0, INFINITY), Catch::Contains("tensor model.embed_tokens.weight: row 0, column 0"));
  CHECK_THAT(checked("model.layers.1.self_attn.q_proj.bias", 3, NAN), Catch::Contains("self_attn.q_proj.bias: row 0, column 3"));

  // Every way in which numbers are stored, last of its row or block; integers are finite.
  const auto warnings = [&](int type, const std::vector<std::uint64_t>& shape, const std::string& bytes) {
    test::GgufWriter file;
    file.tensor("mask", static_cast<std::uint32_t>(type), shape, bytes);
    file.write(folder / "x.gguf");
    const Result result = patchbay_run("check --json " + folder / "x.gguf");
    CHECK(result.code == 0);
    return json::parse(result.out)["warnings"];
  };
  const json found = json::array({"tensor mask: row 1, column 3 is NaN or infinite"});
  const std::string zeros(64, '\0');
  CHECK(warnings(0, {4, 2}, zeros.substr(0, 28) + std::string("\0\0\x80\xff", 4)) == found);               // F32, -inf
  CHECK(warnings(1, {4, 2}, zeros.substr(0, 14) + std::string("\1\x7c", 2)) == found);                       // F16, NaN
  CHECK(warnings(30, {4, 2}, zeros.substr(0, 14) + std::string("\x80\x7f", 2)) == found);                    // BF16, inf
  CHECK(warnings(28, {4, 2}, zeros.substr(0, 56) + std::string("\0\0\0\0\0\0\xf8\x7f", 8)) == found);        // F64, NaN
  CHECK(warnings(8, {32, 2}, zeros.substr(0, 34) + std::string("\0\x7e", 2) + zeros.substr(0, 32)) ==         // Q8_0, the second block's scale
        json::array({"tensor mask: row 1, column 0 is NaN or infinite"}));
  CHECK(warnings(0, {4, 2}, zeros.substr(0, 28) + std::string("\xff\xff\x7f\x7f", 4)) == json::array());        // the largest float
  CHECK(warnings(24, {4, 2}, std::string(8, '\xff')) == json::array());
}

TEST_CASE("logits that are not numbers are an error, of generate and of logits") {
  const test::TemporaryFolder folder;
  auto tensors = test::golden_tensors("qwen2");
  for (float& value : tensors["model.norm.weight"].values) value = NAN;
  test::write_golden_folder(folder.path, "qwen2");
  test::write_weights(folder / "model.safetensors", tensors);
  for (const char* command : {"logits", "logits --json", "generate --json --max-tokens 2"}) {
    const Result result = patchbay_run(std::string(command) + " --tokens 1,2 --model " + folder.path);
    INFO(command);
    CHECK(result.code == 1);
    CHECK_THAT(result.out, Catch::Contains("patchbay: logits: the logit of token 0 is not a number") && Catch::Contains("patchbay check") && Catch::Contains("patchbay bisect defaults"));
  }
}

TEST_CASE("a token of a row that has no text can be given and is shown") {
  const test::TemporaryFolder folder;
  test::write_golden_folder(folder.path, "qwen2");
  std::ofstream(folder / "tokenizer.json") << kThreeWords;  // 5 tokens; the embedding has 64 rows
  const Result result = patchbay_run("logits --top 64 --tokens 63 --model " + folder.path);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Catch::Contains("  [PAD63]\n") && Catch::Contains("  [PAD5]\n") && Catch::Contains("  abc\n"));
  CHECK(patchbay_run("generate --ignore-end --max-tokens 4 --tokens 63 --model " + folder.path).code == 0);
  CHECK_THAT(patchbay_run("logits --tokens 64 --model " + folder.path).out, Catch::Contains("--tokens: 64 is outside the vocabulary; allowed: 0 to 63"));
}

TEST_CASE("check: a tokenizer.json is a kind of its own, other JSON and text are called so") {
  const test::TemporaryFolder folder;
  const std::string file = folder / "words.json", broken = folder / "broken.json", other = folder / "other.json", text = folder / "text.md";
  std::ofstream(file) << kThreeWords;
  std::string bad = kThreeWords;
  bad.replace(bad.find("ab c"), 4, "ab z");
  std::ofstream(broken) << bad;
  std::ofstream(other) << R"({"hash": "1", "metrics": {}})" << "\n";
  std::ofstream(text) << "# Notes\n\nof no model at all\n";
  CHECK(json::parse(patchbay_run("check --json " + file).out)["kind"] == "tokenizer");
  CHECK_THAT(patchbay_run("check " + file).out, Catch::Contains("a sound tokenizer"));
  const Result refused = patchbay_run("check " + broken);
  CHECK(refused.code == 1);
  CHECK_THAT(refused.out, Catch::Contains("broken.json") && !Catch::Contains("GGUF"));
  CHECK_THAT(patchbay_run("check " + other).out, Catch::Contains("not GGUF: JSON, which begins '{") && Catch::Contains("report"));
  CHECK_THAT(patchbay_run("check " + text).out, Catch::Contains("not GGUF: a text, which begins '# Notes"));
}

TEST_CASE("check: an experiment, and a model under the name of one") {
  test::GgufWriter writer;
  writer.tensor("w", {1}, {1});
  const File bad("bad.yaml", "name: [unfinished\n"), model("model.yaml", writer.bytes());
  const Result refused = patchbay_run("check " + bad.path());
  CHECK(refused.code == 1);
  CHECK(std::count(refused.out.begin(), refused.out.end(), '\n') == 1);
  CHECK(json::parse(patchbay_run("check --json " + model.path()).out)["kind"] == "model");
}

TEST_CASE("inspect and tokenize on the real model") {
  const std::string model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "SmolLM2-135M-Instruct.Q4_1.gguf");
  const json facts = json::parse(patchbay_run("inspect smollm2-135m --json --tensors").out);
  CHECK(facts["architecture"] == "llama");
  CHECK(facts["parameters"] == 134515008);
  CHECK(facts["tensors"].size() == 272);
  CHECK(facts["types"].size() == 3);
  CHECK(facts["tokenizer"]["tokens"] == "49152 values");
  CHECK(facts["bits_per_weight"].get<double>() == Approx(96576768 * 8.0 / 134515008));
  CHECK_THAT(patchbay_run("inspect " + model).out, Catch::Contains("134.5 million"));

  const Result hello = patchbay_run("tokenize --model smollm2-135m --json 'Hello, world!'");
  CHECK(json::parse(hello.out)["tokens"] == json({19556, 28, 905, 17}));
  const File text("text.txt", "<|im_start|>");
  const Result special = patchbay_run("tokenize --model smollm2-135m --json --parse-special --file " + text.path());
  CHECK(json::parse(special.out)["tokens"] == json({1}));
  CHECK_THAT(patchbay_run("tokenize --model smollm2-135m \"$(printf '\\033[31m')\"").out, Catch::Contains("'\\x1b'"));
  CHECK(patchbay_run("tokenize --model smollm2-135m").code == 1);
}

TEST_CASE("inspect, tokenize and generate on the model that comes with patchbay") {
  const json facts = json::parse(patchbay_run("inspect tiny-shakespeare --json --tensors").out);
  CHECK(facts["architecture"] == "llama");
  CHECK(facts["parameters"] == 3279104);
  CHECK(facts["tensors"].size() == 38);
  CHECK(facts["tokenizer"]["tokens"] == "1024 values");
  CHECK(json::parse(patchbay_run("tokenize --model tiny-shakespeare --json --add-special ''").out)["tokens"] == json({0}));
  const std::string generate = "generate --model tiny-shakespeare --prompt 'ROMEO:' --max-tokens 8 --json activations=fp32 ";
  const json one = json::parse(patchbay_run(generate + "decoder=greedy").out);
  CHECK(one["tokens"].size() == 8);
  CHECK(json::parse(patchbay_run(generate + "attention=naive kv_store=paged decoder.type=speculative decoder.drafter=lookup").out)["tokens"] == one["tokens"]);
}

TEST_CASE("inspect says which type every matrix gets, by rules that state a part of it") {
  const std::string inspect = "inspect tiny-shakespeare --tensors weights.quantizer=rtn weights.format.type=int_grouped weights.format.bits=3 weights.format.group_size=32 ";
  const auto type = [&](const std::string& rule, const std::string& tensor) {
    const std::string out = patchbay_run(inspect + "'weights.rules=[{match: \"*.ffn_down\", " + rule + "}]'").out;
    const std::size_t line = out.find(tensor), from = out.find("runs as ", line);
    return line == out.npos || from == out.npos ? out : out.substr(from + 8, out.find(',', from) - from - 8);
  };
  for (const char* rule : {"format: {bits: 8}", "format: {type: int_grouped, bits: 8}"}) {
    CHECK(type(rule, "blk.2.ffn_up.weight") == "int_grouped/b3/g32");
    CHECK(type(rule, "blk.2.ffn_down.weight") == "int_grouped/b8/g32");
  }
  CHECK(type("format: {bits: 8, group_size: 64}", "blk.2.ffn_down.weight") == "int_grouped/b8/g64");
  CHECK(type("format: nf4", "blk.2.ffn_down.weight") == "nf4/g64");  // nf4's own default
}

TEST_CASE("one prompt at a time; a dry run says where its results would go") {
  const File text("prompt.txt", "Hello");
  const Result two = patchbay_run("generate --model tiny-shakespeare --max-tokens 1 --prompt a --prompt-file " + text.path());
  CHECK(two.code == 1);
  CHECK_THAT(two.out, Catch::Contains("--prompt-file: given beside another prompt"));
  CHECK_THAT(patchbay_run("logits --model tiny-shakespeare --prompt a --tokens 1").out, Catch::Contains("one of --prompt"));
  const std::string quickstart = "run " + test::source_path("configs/quickstart_offline.yaml") + " --dry-run ";
  CHECK_THAT(patchbay_run(quickstart + "--out results/elsewhere").out, Catch::Contains("into results/elsewhere\n"));
  const Result large = patchbay_run(quickstart + "evaluation.window=9000");
  CHECK(large.code == 1);
  CHECK_THAT(large.out, Catch::Contains("evaluation.window: 9000 tokens do not fit") && Catch::Contains("at most 512"));
}

TEST_CASE("a prompt has the model's whole context, and one token more is refused by both numbers") {
  std::string text;
  for (int i = 0; i < 513; ++i) text += i == 0 ? "1" : " 1";  // at least one token each
  const File longer("longer.txt", text);
  const Result refused = patchbay_run("generate --model tiny-shakespeare --prompt-file " + longer.path());
  CHECK(refused.code == 1);
  CHECK_THAT(refused.out, Catch::Contains("--prompt: has ") && Catch::Contains("at most 512, the model's context"));
  const Result filled = patchbay_run("generate --model tiny-shakespeare --prompt 'What is' --max-tokens 99999 --json");
  CHECK(json::parse(filled.out)["finish"] == "length");
}

TEST_CASE("generation ends at the model's own end of a text") {
  const std::string model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "SmolLM2-135M-Instruct.Q4_1.gguf");
  const Result fits = patchbay_run("generate --model smollm2-135m --prompt 'What is' --max-tokens 99999 --json");
  CHECK(json::parse(fits.out)["finish"] == "stop");
}

TEST_CASE("check: the name of a model, and the descriptions of configs/models") {
  const std::string description = test::source_path("configs/models/smollm2-135m.yaml");
  const test::TemporaryFolder folder;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const std::string before = cache ? cache : "";
  ::setenv("XDG_CACHE_HOME", folder.path.c_str(), 1);  // as on a machine that has not fetched it
  const Result absent = patchbay_run("check " + description);
  CHECK(absent.code == 0);
  CHECK_THAT(absent.out, Catch::Contains("the model was not checked") && Catch::Contains("a sound model description"));
  CHECK_THAT(patchbay_run("check smollm2-135m").out, Catch::Contains("scripts/fetch_model.sh smollm2-135m"));
  if (cache) ::setenv("XDG_CACHE_HOME", before.c_str(), 1);
  else ::unsetenv("XDG_CACHE_HOME");
  CHECK_THAT(patchbay_run("check smollm2").out, Catch::Contains("smollm2: no such model") && Catch::Contains("smollm2-135m"));

  const std::string sound = test::read_file(description);
  const auto fault_of = [&](const std::string& text) {
    const File file("described.yaml", text);
    const Result result = patchbay_run("check " + file.path());
    CHECK(result.code == 1);
    CHECK(result.out.find("patchbay_described.yaml") == result.out.rfind("patchbay_described.yaml"));
    return result.out;
  };
  CHECK_THAT(fault_of(sound + "sise: 3\n"), Catch::Contains(": sise: unknown key") && !Catch::Contains("sise: sise"));
  CHECK_THAT(fault_of("file: a.gguf\nsha256: " + std::string(64, '0') + "\n"), Catch::Contains("bytes: missing key"));
  CHECK_THAT(fault_of("file: a.gguf\nbytes: many\nsha256: x\n"), Catch::Contains(":2: bytes: 'many' is not a size"));
  CHECK_THAT(fault_of("file: [a]\nbytes: 1\nsha256: x\n"), Catch::Contains(":1: file: must be a single value"));
  CHECK_THAT(fault_of("file: ../a.gguf\nbytes: 1\nsha256: x\n"), Catch::Contains(":1: file: must be a name without folders"));
  CHECK_THAT(fault_of("file: a.gguf\nbytes: 1\nsha256: x\n"), Catch::Contains(":3: sha256: is no SHA-256"));

  const std::string model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "SmolLM2-135M-Instruct.Q4_1.gguf");
  CHECK(json::parse(patchbay_run("check --json smollm2-135m").out)["kind"] == "model");
  const json described = json::parse(patchbay_run("check --json " + description).out);
  CHECK(described["kind"] == "model description");
  CHECK(described["warnings"].empty());
}

namespace {

std::string vocabulary(const std::string& model, const std::vector<std::string>& merges) {
  test::GgufWriter writer;
  writer.string("general.architecture", "llama");
  writer.string("tokenizer.ggml.model", model);
  writer.string("tokenizer.ggml.pre", "smollm");
  writer.strings("tokenizer.ggml.tokens", {"a", "b", "ab"});
  writer.strings("tokenizer.ggml.merges", merges);
  return writer.bytes();
}

}  // namespace

TEST_CASE("check reads the vocabulary to its last merge; a kind that is not known here is a warning") {
  const File good("vocabulary.gguf", vocabulary("gpt2", {"a b"})), bad("merges.gguf", vocabulary("gpt2", {"a b", "b c"}));
  const File other("other.gguf", vocabulary("rwkv", {}));
  CHECK(patchbay_run("check " + good.path()).code == 0);
  const Result merges = patchbay_run("check " + bad.path());
  CHECK(merges.code == 1);
  CHECK_THAT(merges.out, Catch::Contains("tokenizer.ggml.merges: merge 1 'b c'"));
  const json unknown = json::parse(patchbay_run("check --json " + other.path()).out);
  CHECK(unknown["valid"] == true);
  CHECK_THAT(unknown["warnings"].dump(), Catch::Contains("unknown tokenizer 'rwkv'"));
  // A text that the vocabulary cannot spell is placed in its file.
  const File text("unspeakable.txt", "ab\xff");
  CHECK_THAT(patchbay_run("tokenize --model " + good.path() + " --file " + text.path()).out,
             Catch::Contains("patchbay: " + text.path() + ": text, byte 2: 0xff has no token"));
}

TEST_CASE("a missing norm is refused before a run, by tensor") {
  std::string bytes = test::read_file(test::source_path("tests/golden/tiny_llama/gqa_tied.gguf"));
  const std::string name = "blk.1.ffn_norm.weight";
  bytes[bytes.find(name) + name.size() - 1] = 'X';
  const File model("norm.gguf", bytes);
  const Result refused = patchbay_run("inspect " + model.path() + " attention=naive");
  CHECK(refused.code == 1);
  CHECK_THAT(refused.out, Catch::Contains(name));
}

TEST_CASE("generate says which processors cannot change what its decoder chooses") {
  const std::string command = "generate --max-tokens 2 --prompt ab --model " + test::source_path("tests/golden/tiny_llama/gqa_tied.gguf") + " ";
  CHECK_THAT(patchbay_run(command + "decoder=greedy --temperature 0.5 --top-k 3").out,
             Catch::Contains("temperature, top_k: no effect, since decoder greedy takes the likeliest token"));
  CHECK_THAT(patchbay_run(command + "'processors=[temperature]'").out, Catch::Contains("temperature: no effect"));
  CHECK_THAT(patchbay_run(command + "'decoder={type: speculative, accept: greedy}' --top-p 0.5").out, Catch::Contains("top_p: no effect"));
  CHECK_THAT(patchbay_run(command + "--temperature 0.5").out, !Catch::Contains("no effect"));
  CHECK_THAT(patchbay_run(command + "decoder=speculative --temperature 0.5").out, !Catch::Contains("no effect"));
  CHECK_THAT(patchbay_run(command + "--temperature 0").out, !Catch::Contains("no effect"));
}

TEST_CASE("a value that a processor refuses is refused under the option's own name") {
  const std::string command = "generate --max-tokens 2 --prompt ab --model " + test::source_path("tests/golden/tiny_llama/gqa_tied.gguf") + " ";
  CHECK_THAT(patchbay_run(command + "--top-p 2").out, Catch::StartsWith("patchbay: --top-p: ") && Catch::Contains("2"));
  CHECK_THAT(patchbay_run(command + "--top-k 0").out, Catch::StartsWith("patchbay: --top-k: ") && Catch::Contains("0"));
  CHECK_THAT(patchbay_run(command + "--top-k many").out, Catch::StartsWith("patchbay: --top-k: "));
}

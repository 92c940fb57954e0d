// tokenizer.json and SentencePiece's vocabularies: token for token what the packages `tokenizers` and `sentencepiece` make of a text, and
// what must hold for files that are odd or broken. golden/tokenizers/generate.py wrote the models and the expectations.
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "small_stack.h"
#include "support.h"
#include "tokenizer.h"
#include "utf8.h"

using namespace patchbay;
using nlohmann::json;

namespace {

std::string golden(const std::string& name) { return test::source_path("tests/golden/tokenizers/" + name); }

/// What Python's decode(errors="replace") and Rust's from_utf8_lossy make of bytes.
std::string lossy(const std::string& bytes) {
  Utf8Stream stream;
  std::string text = stream.push(bytes);
  return text + stream.finish();
}

/// A tokenizer.json of the test's own.
class Written {
 public:
  json data = json::parse(R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null,
                              "decoder": null, "model": {"type": "BPE", "vocab": {}, "merges": []}})");

  /// Tokens 0, 1, 2, ...
  void vocab(const std::vector<std::string>& texts) {
    for (std::size_t i = 0; i < texts.size(); ++i) data["model"]["vocab"][texts[i]] = i;
  }
  std::string write(const std::string& name = "tokenizer.json") const {
    const std::string path = folder_ / name;
    std::ofstream(path) << data.dump();
    return path;
  }
  std::unique_ptr<Tokenizer> load() const { return load_tokenizer(write()); }
  std::vector<Token> encode(const std::string& text, bool parse_special = true) const { return load()->encode(text, parse_special, false); }
  const test::TemporaryFolder& folder() const { return folder_; }

 private:
  test::TemporaryFolder folder_;
};

json added(int id, const std::string& content, bool special = true) {
  return {{"id", id}, {"content", content}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", special}};
}

std::string file_with(const test::TemporaryFolder& folder, const std::string& bytes) {
  const std::string path = folder / "tokenizer.json";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace

TEST_CASE("every model and text, token for token what `tokenizers` and `sentencepiece` say") {
  const json all = json::parse(test::read_file(golden("cases.json")))["cases"];
  REQUIRE(all.size() >= 27);
  for (const auto& [name, cases] : all.items()) {
    const auto tokenizer = load_tokenizer(golden(name));
    for (const json& one : cases) {
      const std::string text = one["text"];
      INFO(name << ": " << one["text"]);
      if (!one["plain"].is_null()) CHECK(json(tokenizer->encode(text, false, false)) == one["plain"]);
      if (!one.contains("parsed")) continue;
      const auto parsed = tokenizer->encode(text, true, true);
      CHECK(json(parsed) == one["parsed"]);
      CHECK(lossy(tokenizer->decode_text(parsed, true)) == one["decoded"].get<std::string>());
    }
  }
}

TEST_CASE("both forms of one tokenizer are one tokenizer") {
  const json all = json::parse(test::read_file(golden("cases.json")))["cases"];
  for (const char* name : {"gpt2", "smollm", "qwen2", "deepseek_llm", "deepseek_coder", "deepseek_v3", "falcon", "llama3"}) {
    const auto from_json = load_tokenizer(golden(std::string(name) + ".json")), from_gguf = load_tokenizer(golden(std::string(name) + ".gguf"));
    REQUIRE(from_json->size() == from_gguf->size());
    for (Token token = 0; token < from_json->size(); ++token) CHECK(from_json->piece(token, true) == from_gguf->piece(token, true));
  }
}

TEST_CASE("T01: the file's own pre-tokenizers, in their order") {
  Written file;
  file.vocab({"id", "=", "203", "15", "!!?", "i", "d", "2", "0", "3", "1", "5", "!", "?", "20", "!!"});
  file.data["model"]["merges"] = json::parse(R"([["i","d"],["2","0"],["20","3"],["1","5"],["!","!"],["!!","?"]])");
  file.data["pre_tokenizer"] = json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Digits", "individual_digits": false},
      {"type": "Split", "pattern": {"Regex": "[0-9]{3}"}, "behavior": "Isolated", "invert": false}]})");
  CHECK(file.encode("id=20315!!?") == std::vector<Token>{0, 1, 2, 3, 4});
  file.data["pre_tokenizer"]["pretokenizers"][1]["type"] = "Digitz";
  CHECK_THROWS_WITH(file.load(), Catch::Contains("/pre_tokenizer/pretokenizers/1/type: unknown type 'Digitz'") && Catch::Contains("Digits"));
}

TEST_CASE("T03: with ignore_merges a whole piece comes before any merge") {
  Written file;
  file.vocab({"a", "b", "c", "bc", "abc"});
  file.data["model"]["merges"] = json::parse(R"([["b","c"]])");
  CHECK(file.encode("abc") == std::vector<Token>{0, 3});
  file.data["model"]["ignore_merges"] = true;
  CHECK(file.encode("abc") == std::vector<Token>{4});
}

TEST_CASE("T06: merges as pairs, and as lines that the vocabulary resolves") {
  Written file;
  file.vocab({"to be", " or", "to be or", "a", "b", "ab", "to", " be"});
  file.data["model"]["merges"] = json::parse(R"([["to be"," or"],["a","b"],["to"," be"]])");
  CHECK(file.encode("ab") == std::vector<Token>{5});
  file.data["model"]["merges"] = {"to be  or", "a b"};
  CHECK(file.encode("ab") == std::vector<Token>{5});
  file.data["model"]["merges"] = {"a b", "a b c"};
  CHECK_THROWS_WITH(file.load(), Catch::Contains("/model/merges/1: merge 'a b c' names no two tokens"));
  file.data["model"]["vocab"] = {{"a", 0}, {" b", 1}, {"a ", 2}, {"b", 3}, {"a b", 4}};
  file.data["model"]["merges"] = {"a  b"};
  CHECK_THROWS_WITH(file.load(), Catch::Contains("can be read in two ways"));
}

TEST_CASE("T08: an unknown character becomes its bytes, and they come back") {
  Written file;
  std::vector<std::string> tokens = {"<unk>", "a", "b"};
  char text[8];
  for (int byte = 0; byte < 256; ++byte) tokens.push_back((std::snprintf(text, sizeof text, "<0x%02X>", byte), text));
  file.data["decoder"] = json::parse(R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]})");
  const std::string squid = "a\xF0\x9F\xA6\x91" "b";
  const std::vector<Token> bytes = {1, 3 + 0xF0, 3 + 0x9F, 3 + 0xA6, 3 + 0x91, 2};
  file.vocab(tokens);
  file.data["model"].update({{"unk_token", "<unk>"}, {"byte_fallback", true}});
  CHECK(file.encode(squid) == bytes);
  CHECK(file.load()->decode(bytes) == squid);
  CHECK(file.encode("a\xFF") == std::vector<Token>{1, 3 + 0xFF});  // no UTF-8: bytes as well
  CHECK(file.encode("<0x41>").size() == 6);                        // text never spells a byte token
  json pieces = json::array();
  for (const std::string& token : tokens) pieces.push_back({token, -1.0});
  file.data["model"] = {{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}, {"vocab", pieces}};
  CHECK(file.encode(squid) == bytes);
  CHECK(file.load()->decode_text(bytes) == squid);
  file.data["model"]["byte_fallback"] = false;
  CHECK(file.encode(squid) == std::vector<Token>{1, 0, 2});
}

TEST_CASE("T10: accents, as the normalizer says") {
  const std::string composed = "\xC3\x85ngstr\xC3\xB6m", decomposed = "A\xCC\x8Angstro\xCC\x88m";
  Written file;
  const std::vector<std::string> letters = {"\xC3\x85", "\xC3\xA5", "\xC3\xB6", "A", "a", "o", "n", "g", "s", "t", "r", "m", "\xCC\x8A", "\xCC\x88"};
  file.vocab(letters);
  const auto normalized = [&](const std::string& text) {
    std::string joined;
    for (const Token token : file.encode(text)) joined += letters[static_cast<std::size_t>(token)];
    return joined;
  };
  struct Case { json strip; bool lowercase; std::string from_composed, from_decomposed; };
  for (const Case& one : {Case{true, true, "angstrom", "angstrom"}, Case{true, false, "Angstrom", "Angstrom"},
                          Case{false, true, "\xC3\xA5ngstr\xC3\xB6m", "a\xCC\x8Angstro\xCC\x88m"}, Case{false, false, composed, decomposed},
                          Case{nullptr, true, "angstrom", "angstrom"}, Case{nullptr, false, composed, decomposed}}) {
    file.data["normalizer"] = {{"type", "BertNormalizer"}, {"clean_text", true}, {"handle_chinese_chars", true}, {"strip_accents", one.strip},
                               {"lowercase", one.lowercase}};
    CHECK(normalized(composed) == one.from_composed);
    CHECK(normalized(decomposed) == one.from_decomposed);
  }
  file.data["normalizer"] = {{"type", "NFC"}};
  CHECK(normalized(decomposed) == composed);
  file.data["normalizer"] = {{"type", "NFD"}};
  CHECK(normalized(composed) == decomposed);
}

TEST_CASE("T13: rstrip swallows white space, it is no condition") {
  Written file;
  file.vocab({"H", "i", " ", "a", "-"});
  file.data["added_tokens"] = {added(5, "<|turn|>")};
  file.data["added_tokens"][0]["rstrip"] = true;
  CHECK(file.encode("<|turn|>Hi") == std::vector<Token>{5, 0, 1});
  CHECK(file.encode("<|turn|>  Hi") == std::vector<Token>{5, 0, 1});
  CHECK(file.encode("a<|turn|>Hi") == std::vector<Token>{3, 5, 0, 1});
  CHECK(file.encode("a  <|turn|>Hi") == std::vector<Token>{3, 2, 2, 5, 0, 1});
  file.data["added_tokens"][0]["lstrip"] = true;
  CHECK(file.encode("a  <|turn|>Hi") == std::vector<Token>{3, 5, 0, 1});
  file.data["added_tokens"] = {added(5, "Hi", false)};
  file.data["added_tokens"][0]["single_word"] = true;
  CHECK(file.encode("Hi-aHi") == std::vector<Token>{5, 4, 3, 0, 1});
}

TEST_CASE("text never becomes a special token unless special tokens are parsed") {
  Written file;
  file.vocab({"<s>", "<", "s", ">", "<s"});
  file.data["model"]["merges"] = json::parse(R"([["<","s"],["<s",">"]])");
  file.data["model"]["ignore_merges"] = true;
  file.data["added_tokens"] = {added(0, "<s>")};
  file.data["decoder"] = {{"type", "Fuse"}};
  CHECK(file.encode("<s>", true) == std::vector<Token>{0});
  CHECK(file.encode("<s>", false) == std::vector<Token>{4, 3});
  CHECK(file.load()->piece(0, false).empty());
  CHECK(file.load()->piece(0, true) == "<s>");
}

TEST_CASE("a folder: what tokenizer_config.json and generation_config.json add") {
  Written file;
  file.vocab({"a"});
  file.data["added_tokens"] = {added(1, "<bos>"), added(2, "<eos>"), added(3, "<stop>"), added(4, "<|im_end|>")};
  file.write();
  std::ofstream(file.folder() / "tokenizer_config.json") << R"({"bos_token": {"content": "<bos>"}, "eos_token": "<eos>", "other": 1})";
  std::ofstream(file.folder() / "generation_config.json") << R"({"eos_token_id": [2, 3]})";
  const auto tokenizer = load_tokenizer(file.folder().path);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  for (const Token end : {2, 3, 4}) CHECK(tokenizer->is_end_of_generation(end));
  CHECK(!tokenizer->is_end_of_generation(0));
  std::ofstream(file.folder() / "tokenizer_config.json") << R"({"eos_token": "<gone>"})";
  CHECK_THROWS_WITH(load_tokenizer(file.folder().path), Catch::Contains("tokenizer_config.json: /eos_token: '<gone>' is not in the vocabulary"));
}

TEST_CASE("long runs take bounded time on a small stack in every model (T05)") {
  const std::vector<std::string> units = {"a", " ", "\n", "\xE7\x95\x8C", "\xCC\x81", "\xCC\x81\xCC\xA3", "7", "ab ", "<|", "\xE2\x96\x81", "\xFF"};
  for (const char* name : {"gpt2.json", "llama2.json", "gemma.json", "t5.json", "albert.json", "deepseek_v3.gguf", "spm_bpe.gguf", "spm_unigram.gguf"}) {
    const auto tokenizer = load_tokenizer(golden(name));
    for (const std::string& unit : units) {
      std::string text;
      while (text.size() < 1 << 18) text += unit;
      const auto start = std::chrono::steady_clock::now();
      std::size_t tokens = 0;
      test::on_small_stack([&] { tokens = tokenizer->encode("x" + text + "x", true, false).size(); });
      CHECK(tokens > 0);
      const double elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      INFO(name << " '" << escaped(unit) << "': " << elapsed_s << " s");
      CHECK(elapsed_s < 10);  // below 0.5 on an idle machine; quadratic time would be minutes
    }
  }
}

TEST_CASE("hostile tokenizer.json: a message with file and place, never a crash") {
  Written good;
  good.vocab({"a", "b"});
  test::TemporaryFolder folder;
  const auto message = [&](const std::string& bytes) -> std::string {
    try {
      load_tokenizer(file_with(folder, bytes));
    } catch (const Error& error) {
      return error.what();
    }
    return "loaded";
  };
  CHECK_THAT(message(""), Catch::Contains("tokenizer.json: byte") && Catch::Contains("is not JSON here"));
  CHECK_THAT(message("{\"model\": \"\xFF\"}"), Catch::Contains("is not JSON here"));
  CHECK_THAT(message(R"({"model": {"type": "BPE\ud800"}})"), Catch::Contains("is not JSON here"));
  CHECK_THAT(message(std::string(100000, '[')), Catch::Contains("nested deeper than"));
  CHECK_THAT(message("{\"model\":" + std::string(100000, '[') + std::string(100000, ']') + "}"), Catch::Contains("nested deeper than"));
  CHECK_THAT(message(R"({"model": {"type": "BPE", "type": "BPE"}})"), Catch::Contains("duplicate key 'type'"));
  CHECK_THAT(message("[]"), Catch::Contains("is an array; allowed: an object"));
  CHECK_THAT(message("{}"), Catch::Contains("missing key 'model'"));
  const auto changed = [&](const json& patch) {
    json data = good.data;
    data.merge_patch(patch);
    return message(data.dump());
  };
  CHECK(changed(json::object()) == "loaded");
  CHECK_THAT(changed({{"model", {{"type", "WordPiece"}}}}), Catch::Contains("/model/type: unknown model 'WordPiece'; allowed: BPE, Unigram"));
  CHECK_THAT(changed({{"surprise", 1}}), Catch::Contains("/surprise: unknown key"));
  CHECK_THAT(changed({{"model", {{"vocab", {{"c", -1}}}}}}), Catch::Contains("/model/vocab/c: is out of range: -1"));
  CHECK_THAT(changed({{"model", {{"vocab", {{"c", 18446744073709551615u}}}}}}), Catch::Contains("out of range"));
  CHECK_THAT(changed({{"model", {{"vocab", {{"c", 1.5}}}}}}), Catch::Contains("/model/vocab/c: is a number; allowed: a whole number"));
  CHECK_THAT(changed({{"model", {{"vocab", {{"c", 2000000000}}}}}}), Catch::Contains("out of range"));
  CHECK_THAT(changed({{"model", {{"vocab", {{"c", 1}}}}}}), Catch::Contains("is taken by another token"));
  CHECK_THAT(changed({{"model", {{"merges", {3}}}}}), Catch::Contains("/model/merges/0: is a number; allowed: a string"));
  CHECK_THAT(changed({{"model", {{"merges", {{"a", "b", "c"}}}}}}), Catch::Contains("/model/merges/0: has 3 entries; allowed: 2"));
  CHECK_THAT(changed({{"model", {{"dropout", 0.1}}}}), Catch::Contains("/model/dropout: makes tokens random"));
  CHECK_THAT(changed({{"added_tokens", {added(9, "a")}}}), Catch::Contains("/added_tokens/0/id: 9 is not the number of 'a'"));
  CHECK_THAT(changed({{"added_tokens", {added(2000000000, "z")}}}), Catch::Contains("/added_tokens/0/id: is out of range"));
  CHECK_THAT(changed({{"normalizer", {{"type", "Wash"}}}}), Catch::Contains("/normalizer/type: unknown type 'Wash'") && Catch::Contains("NFC"));
  CHECK_THAT(changed({{"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "/////w=="}}}}), Catch::Contains("precompiled_charsmap: its trie"));
  CHECK_THAT(changed({{"normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}}}}), Catch::Contains("pattern '('"));
  CHECK_THAT(changed({{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "[a&&b]"}}}, {"behavior", "Isolated"}}}}),
             Catch::Contains("&& in [ ] is not supported"));
  CHECK_THAT(changed({{"post_processor", {{"type", "BertProcessing"}, {"sep", {"x", 77}}, {"cls", {"x", 0}}}}}),
             Catch::Contains("/post_processor/sep/1: is out of range: 77"));
  CHECK_THAT(changed({{"decoder", {{"type", "CTC"}}}}), Catch::Contains("/decoder/type: unknown type 'CTC'"));
  json nested = {{"type", "NFC"}};
  for (int i = 0; i < 7; ++i) nested = {{"type", "Sequence"}, {"normalizers", {nested, nested}}};
  CHECK_THAT(changed({{"normalizer", nested}}), Catch::Contains("more than 64 steps"));
}

TEST_CASE("a pattern that runs away is stopped") {
  Written file;
  file.vocab({"a", "b"});
  file.data["pre_tokenizer"] = json::parse(R"({"type": "Split", "pattern": {"Regex": "(a|a|b)*[cd]"}, "behavior": "Isolated", "invert": false})");
  CHECK_THROWS_WITH(file.encode(std::string(200, 'a') + "xd"), Catch::Contains("tokenizer pattern"));
}

TEST_CASE("Gemma 3: every reference text, token for token") {
  const std::string model = test::model_path("gemma-3-270m-q4_k_m.gguf"), reference = test::shared_path("reference/gemma3-tokenize.json");
  PATCHBAY_NEEDS(model, "gemma-3-270m-q4_k_m.gguf");
  PATCHBAY_NEEDS(reference, "shared/reference");
  const auto tokenizer = load_tokenizer(model);
  const json cases = json::parse(test::read_file(reference))["cases"];
  REQUIRE(cases.size() == 25);
  for (const json& one : cases) {
    const std::string text = one["text"];
    INFO(text);
    CHECK(json(tokenizer->encode(text, false, false)) == one["ids_plain"]);
    CHECK(json(tokenizer->encode(text, true, false)) == one["ids_parse_special"]);
    CHECK(json(tokenizer->encode(text, true, true)) == one["ids_add_and_parse_special"]);
    CHECK(tokenizer->decode(tokenizer->encode(text, false, false), true) == text);
  }
  CHECK(tokenizer->size() == 262144);
  CHECK(tokenizer->bos() == 2);
  CHECK(tokenizer->is_end_of_generation(106));
}

// Byte-level BPE: token for token what the reference says, in linear time, for any bytes.
#include "tokenizer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "gguf_writer.h"
#include "small_stack.h"
#include "support.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/readers.h"

using namespace patchbay;
using nlohmann::json;
using patchbay::test::GgufWriter;

namespace {

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// GPT-2's name of a byte, spelled out here apart from the code under test.
std::string alphabet(unsigned char byte) {
  int next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool itself = (b > 32 && b < 127) || (b > 160 && b != 173);
    const int c = itself ? b : next++;
    if (b != byte) continue;
    return c < 0x80 ? std::string(1, static_cast<char>(c))
                    : std::string{static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
  }
  return {};
}

/// 256 byte tokens (id: the byte), then the words given, then <end> (control) and <tag> (user-defined).
class TinyVocabulary {
 public:
  std::string pre = "gpt-2", model = "gpt2";
  std::vector<std::string> words, merges;
  bool add_bos = false, says_bos = true;  ///< else the name of the pre-tokenizer decides
  int left_out = -1;  ///< a byte without a token

  std::unique_ptr<Tokenizer> build() const {
    GgufWriter file;
    std::vector<std::string> tokens;
    std::vector<std::int32_t> types;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte == left_out ? "??" : alphabet(static_cast<unsigned char>(byte)));
    tokens.insert(tokens.end(), words.begin(), words.end());
    types.assign(tokens.size(), 1);
    for (const char* special : {"<end>", "<tag>"}) tokens.push_back(special);
    types.insert(types.end(), {3, 4});
    file.string("tokenizer.ggml.model", model);
    file.string("tokenizer.ggml.pre", pre);
    file.strings("tokenizer.ggml.tokens", tokens);
    file.i32s("tokenizer.ggml.token_type", types);
    file.strings("tokenizer.ggml.merges", merges);
    file.u32("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(tokens.size() - 2));
    file.u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(tokens.size() - 2));
    if (says_bos) file.boolean("tokenizer.ggml.add_bos_token", add_bos);
    const auto path = std::filesystem::temp_directory_path() / ("patchbay_vocabulary_" + std::to_string(::getpid()) + ".gguf");
    file.write(path);
    const auto opened = ModelFile::open(path);
    std::filesystem::remove(path);
    return make_tokenizer(*opened);
  }
};

std::vector<std::string> pieces(const char* kind, std::string_view text) {
  std::vector<std::string> parts;
  auto steps = known_pre_tokenizer(kind, "test").steps;
  steps.pop_back();  // the last spells the pieces in the byte alphabet
  PreTokenizer(steps).split(text, true, [&](std::string_view part) { parts.emplace_back(part); });
  return parts;
}

std::shared_ptr<const Tokenizer> smollm2(const std::string& path) { return make_tokenizer(*ModelFile::open(path)); }

std::string repeated(const std::string& text, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += text;
  return all;
}

}  // namespace

TEST_CASE("every reference text, token for token") {
  const std::string model = test::smollm2_path(), reference = test::shared_path("reference/smollm2-tokenize.json");
  PATCHBAY_NEEDS(model, "SmolLM2-135M-Instruct.Q4_1.gguf");
  PATCHBAY_NEEDS(reference, "shared/reference");
  const auto tokenizer = smollm2(model);
  const json cases = json::parse(test::read_file(reference))["cases"];
  REQUIRE(cases.size() == 28);
  for (const json& entry : cases) {
    const std::string text = entry["text"];
    INFO(text);
    const auto plain = tokenizer->encode(text, false, false);
    CHECK(json(plain) == entry["ids_plain"]);
    CHECK(json(tokenizer->encode(text, true, false)) == entry["ids_parse_special"]);
    CHECK(json(tokenizer->encode(text, true, true)) == entry["ids_add_and_parse_special"]);
    CHECK(tokenizer->decode(plain, true) == from_hex(entry["detokenized_plain_hex"]));
    for (std::size_t i = 0; i < plain.size(); ++i) CHECK(tokenizer->piece(plain[i], true) == from_hex(entry["pieces_plain_hex"][i]));
  }
  CHECK(tokenizer->size() == 49152);
  CHECK(tokenizer->bos() == 1);
  CHECK(tokenizer->eos() == 2);
  CHECK(tokenizer->is_end_of_generation(2));
  CHECK(tokenizer->is_end_of_generation(0));
  CHECK(!tokenizer->is_end_of_generation(1));
  CHECK(tokenizer->piece(1, false).empty());
  CHECK(tokenizer->piece(1, true) == "<|im_start|>");
  CHECK_THROWS_WITH(tokenizer->piece(49152, true), Catch::Contains("outside the vocabulary"));
}

TEST_CASE("a megabyte of any one class, on a thread with a small stack, in linear time (T05)") {
  const std::string model = test::smollm2_path();
  PATCHBAY_NEEDS(model, "SmolLM2-135M-Instruct.Q4_1.gguf");
  const auto tokenizer = smollm2(model);
  for (const char* unit : {"Z", " ", "\n", "\xE7\x95\x8C", ".", "\xCC\x81", "7", "ab", " \n", "'", "<|"}) {
    const std::string text = repeated(unit, 1 << 20);
    std::vector<Token> tokens;
    const auto start = std::chrono::steady_clock::now();
    test::on_small_stack([&] { tokens = tokenizer->encode(text, true, false); });
    const double elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    INFO("unit '" << unit << "': " << elapsed_s << " s");
    CHECK(tokenizer->decode(tokens) == text);
    CHECK(elapsed_s < 20);  // about 0.5 on an idle machine; quadratic time would be hours
  }
}

TEST_CASE("pieces are those of another implementation") {
  const json golden = json::parse(test::read_file(test::source_path("tests/golden/pre_tokenizers/pieces.json")));
  for (const auto& [kind, cases] : golden["pieces"].items()) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      INFO(kind << ": " << golden["texts"][i]);
      CHECK(json(pieces(kind.c_str(), golden["texts"][i].get<std::string>())) == cases[i]);
    }
  }
}

TEST_CASE("every name of a pre-tokenizer gives the tokens of llama.cpp") {
  const json golden = json::parse(test::read_file(test::source_path("tests/golden/pre_tokenizers/names.json")));
  TinyVocabulary vocabulary;
  const std::string letters = golden["alphabet"];
  for (const char a : letters) {
    for (const char b : letters) {
      vocabulary.words.push_back(alphabet(static_cast<unsigned char>(a)) + alphabet(static_cast<unsigned char>(b)));
      vocabulary.merges.push_back(alphabet(static_cast<unsigned char>(a)) + " " + alphabet(static_cast<unsigned char>(b)));
    }
  }
  vocabulary.words.insert(vocabulary.words.end(), {"abc", "012"});
  vocabulary.says_bos = false;
  std::vector<std::string> asked = {"deepseek-llm", "falcon"};  // compared with `tokenizers` instead: names.py says why
  for (const json& group : golden["groups"]) {
    for (const std::string name : group["names"]) {
      vocabulary.pre = name;
      const auto tokenizer = vocabulary.build();
      for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
        INFO(name << ": " << golden["texts"][i]);
        CHECK(json(tokenizer->encode(golden["texts"][i].get<std::string>(), false, false)) == group["tokens"][i]);
      }
      CHECK(json(tokenizer->encode("a", false, true)) == group["begins"]);
      asked.push_back(name);
    }
  }
  std::vector<std::string> known = known_pre_tokenizers();
  std::ranges::sort(known);
  std::ranges::sort(asked);
  CHECK(asked == known);
}

TEST_CASE("merges: the earliest first, leftmost among equals") {
  TinyVocabulary vocabulary;
  vocabulary.words = {"ab", "bc", "abc", "aa"};  // 256 ..
  vocabulary.merges = {"b c", "a b", "a bc", "a a"};
  const auto tokenizer = vocabulary.build();
  CHECK(tokenizer->encode("abc", false, false) == std::vector<Token>{258});
  CHECK(tokenizer->encode("abab", false, false) == std::vector<Token>{256, 256});
  CHECK(tokenizer->encode("aaa", false, false) == std::vector<Token>{259, 'a'});
  CHECK(tokenizer->encode("aabc", false, false) == std::vector<Token>{'a', 258});
  CHECK(tokenizer->encode("", false, false).empty());
}

TEST_CASE("a kind that takes whole pieces looks them up before it merges") {
  TinyVocabulary vocabulary;
  vocabulary.words = {"bc", "abc"};
  vocabulary.merges = {"b c"};
  CHECK(vocabulary.build()->encode("abc", false, false) == std::vector<Token>{'a', 256});
  vocabulary.pre = "llama-bpe";
  CHECK(vocabulary.build()->encode("abc", false, false) == std::vector<Token>{257});
}

TEST_CASE("special tokens: control ones when parsed, user-defined ones always") {
  TinyVocabulary vocabulary;
  const auto tokenizer = vocabulary.build();
  const Token end = 256, tag = 257;
  CHECK(tokenizer->encode("a<end><tag>b", true, false) == std::vector<Token>{'a', end, tag, 'b'});
  CHECK(tokenizer->encode("<end>", false, false) == std::vector<Token>{'<', 'e', 'n', 'd', '>'});
  CHECK(tokenizer->encode("<tag>", false, false) == std::vector<Token>{tag});
  CHECK(tokenizer->encode("<tag", true, false).size() == 4);
  CHECK(tokenizer->encode("x", false, true) == std::vector<Token>{'x'});
  CHECK(tokenizer->decode(std::vector<Token>{'a', end, tag}) == "a<tag>");
  CHECK(tokenizer->decode(std::vector<Token>{'a', end, tag}, true) == "a<end><tag>");
  vocabulary.add_bos = true;
  CHECK(vocabulary.build()->encode("x", false, true) == std::vector<Token>{end, 'x'});
  CHECK(vocabulary.build()->encode("x", false, false) == std::vector<Token>{'x'});
}

TEST_CASE("any bytes come back as they were: NUL, stray bytes, half characters") {
  for (const char* kind : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    TinyVocabulary vocabulary;
    vocabulary.pre = kind;
    const auto tokenizer = vocabulary.build();
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    CHECK(tokenizer->decode(tokenizer->encode(all, false, false)) == all);
    std::mt19937 random(1);
    for (int i = 0; i < 200; ++i) {
      std::string text;
      while (text.size() < 40) text += random() % 2 ? std::string(1, static_cast<char>(random())) : std::string(" \xE7\x95\x8C");
      CHECK(tokenizer->decode(tokenizer->encode(text, true, false)) == text);
    }
  }
}

TEST_CASE("a byte that the vocabulary lacks is an error that names it, not a hole in the text") {
  TinyVocabulary vocabulary;
  vocabulary.left_out = 4;
  CHECK_THROWS_WITH(vocabulary.build()->encode("ab\x04", false, false), Catch::Contains("byte 2: 0x04 has no token"));
}

TEST_CASE("unknown kinds are refused, with the known ones") {
  TinyVocabulary vocabulary;
  vocabulary.pre = "viking";
  CHECK_THROWS_WITH(vocabulary.build(), Catch::Contains("unknown pre-tokenizer 'viking'; allowed: gpt-2, ") && Catch::Contains("smollm"));
  vocabulary.pre = "gpt-2";
  vocabulary.model = "bert";
  CHECK_THROWS_WITH(vocabulary.build(), Catch::Contains("unknown tokenizer 'bert'"));
}

TEST_CASE("merges that make no sense are refused by number") {
  TinyVocabulary vocabulary;
  vocabulary.words = {"ab"};
  vocabulary.merges = {"a b", "a b c"};
  CHECK_THROWS_WITH(vocabulary.build(), Catch::Contains("merge 1 'a b c' must hold one space"));
  vocabulary.merges = {"a c"};
  CHECK_THROWS_WITH(vocabulary.build(), Catch::Contains("merge 0 'a c' names a token that is not in the vocabulary"));
}

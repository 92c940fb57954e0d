// GGUF files name their pre-tokeniser instead of holding it. The patterns are those published in the models' own tokenizer.json; the names
// are llama.cpp's.
#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/readers.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr const char* kDigit = R"(\p{N})";  // each digit alone
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// DeepSeek. The letters of the first generation: cased ones, in ranges.
constexpr const char* kLineBreak = R"([\r\n])";
constexpr const char* kDeepSeekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373})"
    R"(\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481})"
    R"(\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45})"
    R"(\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D})"
    R"(\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})"
    R"(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr const char* kDeepSeekPunctuation = R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr const char* kDeepSeekEastAsian = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr const char* kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Cut by each pattern in turn, then spelled in the byte alphabet.
KnownPreTokenizer cut_by(std::initializer_list<std::string_view> patterns, bool whole_pieces = false, bool add_bos = false) {
  KnownPreTokenizer kind{{}, whole_pieces, add_bos};
  for (const std::string_view pattern : patterns) kind.steps.emplace_back(pre_tokenizers::Split{{std::string(pattern), false}});
  kind.steps.emplace_back(pre_tokenizers::ByteLevel{});
  return kind;
}

KnownPreTokenizer falcon() {
  return {{pre_tokenizers::Split{{R"([\p{P}$+<=>^`|~])", false}, SplitBehavior::contiguous}, pre_tokenizers::ByteLevel{false, true},
           pre_tokenizers::Split{{R"(\p{N})", false}, SplitBehavior::contiguous}, pre_tokenizers::Split{{"[0-9][0-9][0-9]", false}}}};
}

/// Names that stand for one rule; the first is the one that is written. The others are those that llama.cpp reads in the same way
/// (tests/golden/pre_tokenizers/names.py asks it).
struct Kind {
  std::vector<std::string_view> names;
  KnownPreTokenizer rule;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> known = {
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "exaone4", "gigachat", "mellum", "a.x-4.0", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de"},
       cut_by({kGpt2Pattern})},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}, cut_by({kLlama3}, true, true)},
      {{"smaug-bpe", "dbrx", "chatglm-bpe"}, cut_by({kLlama3})},
      {{"glm4"}, cut_by({kLlama3}, true)},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}, cut_by({kDigit, kGpt2Pattern})},
      {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan"}, cut_by({kQwen2})},
      {{"deepseek-llm"}, cut_by({kLineBreak, kDeepSeekLetters, kDeepSeekPunctuation, R"(\s+$)", kDeepSeekEastAsian, kDigit})},
      {{"deepseek-coder"}, cut_by({kLineBreak, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekEastAsian, kDigit})},
      {{"deepseek-v3", "hunyuan-dense"}, cut_by({R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)", kDeepSeekV3})},
      {{"falcon"}, falcon()},
  };
  return known;
}

}  // namespace

std::vector<std::string> known_pre_tokenizers() {
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.insert(names.end(), kind.names.begin(), kind.names.end());
  return names;
}

KnownPreTokenizer known_pre_tokenizer(std::string_view name, const std::string& where) {
  for (const Kind& kind : kinds()) {
    if (std::ranges::find(kind.names, name) != kind.names.end()) return kind.rule;
  }
  throw Error(where, fmt::format("unknown pre-tokenizer '{}'", escaped(name, 60)), fmt::format("{}", fmt::join(known_pre_tokenizers(), ", ")));
}

}  // namespace patchbay

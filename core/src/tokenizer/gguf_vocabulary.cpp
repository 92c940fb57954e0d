// `tokenizer.ggml.*`: GGUF writes vocabulary, scores or merges, and the names of all else. What the names stand for is here.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tokenizer/readers.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr const char* kMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space
constexpr std::size_t kMaxPieceBytes = 4096;   // of a Unigram token: bounds the work per position of the text

/// `tokenizer.ggml.token_type`.
enum GgufTokenType : std::int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

class Reader {
 public:
  explicit Reader(const ModelFile& file) : file_(file) {}

  TokenizerDescription run() {
    const std::string_view model = file_.string("tokenizer.ggml.model");
    if (model == "gpt2") {
      read_byte_level();
    } else if (model == "llama") {
      read_sentencepiece();
    } else if (model == "t5") {
      read_unigram();
    } else {
      fail("model", fmt::format("unknown tokenizer '{}'", escaped(model, 60)),
           "gpt2 (byte-level BPE), llama (SentencePiece BPE), t5 (SentencePiece unigram)");
    }
    add_known_ends(description_);
    return std::move(description_);
  }

 private:
  static std::string key_of(std::string_view name) { return fmt::format("tokenizer.ggml.{}", name); }
  std::string where(std::string_view name) const { return fmt::format("{}: {}", escaped(file_.path()), key_of(name)); }
  [[noreturn]] void fail(std::string_view name, std::string problem, std::string allowed = {}) const {
    throw Error(where(name), std::move(problem), std::move(allowed));
  }
  template <class List>
  const List& array_of(std::string_view name, const char* wanted) const {
    const MetaEntry* entry = file_.find(key_of(name));
    if (entry == nullptr) fail(name, "missing key", wanted);
    const List* list = std::get_if<List>(&entry->value);
    if (list == nullptr) fail(name, "wrong key type", wanted);
    return *list;
  }
  template <class List>
  const List& array_per_token(std::string_view name, const char* wanted) const {
    const List& list = array_of<List>(name, wanted);
    const auto tokens = static_cast<std::size_t>(vocabulary().size());
    if (list.size() != tokens) fail(name, "array length mismatch", fmt::format("{} entries", tokens));
    return list;
  }
  bool flag(std::string_view name, bool otherwise) const { return file_.maybe_boolean(key_of(name)).value_or(otherwise); }
  Vocabulary& vocabulary() { return description_.vocabulary; }
  const Vocabulary& vocabulary() const { return description_.vocabulary; }

  /// -1 where the file does not say and the format has no default.
  Token token_of(std::string_view name, Token otherwise = -1) const {
    const auto id = file_.maybe_integer(key_of(name));
    if (!id) return otherwise < vocabulary().size() ? otherwise : -1;
    if (*id >= static_cast<std::uint64_t>(vocabulary().size())) {
      fail(name, fmt::format("token id out of range: {}", *id), fmt::format("0 to {}", vocabulary().size() - 1));
    }
    return static_cast<Token>(*id);
  }

  void read_tokens() {
    const auto& texts = array_of<std::vector<std::string_view>>("tokens", "an array of strings");
    std::vector<std::int64_t> types(texts.size(), kNormal);
    if (file_.find(key_of("token_type")) != nullptr) {
      types = array_of<std::vector<std::int64_t>>("token_type", "an array of i32");
      if (types.size() != texts.size()) fail("token_type", "array length mismatch", fmt::format("{} entries", texts.size()));
    }
    vocabulary().reserve(texts.size());
    for (std::size_t id = 0; id < texts.size(); ++id) {
      const auto token = static_cast<Token>(id);
      const bool added = types[id] == kUserDefined && !is_known_end(texts[id]);  // what ends an answer is no text, whatever the file says
      const bool special = types[id] == kControl || types[id] == kUnknown || (types[id] == kUserDefined && !added);
      const TokenType type = special ? TokenType::special : added ? TokenType::added : types[id] == kByte ? TokenType::byte : TokenType::normal;
      vocabulary().add(token, std::string(texts[id]), type);
      if ((special || added) && !texts[id].empty()) {
        AddedToken cut_out;
        cut_out.token = token;
        cut_out.content = texts[id];
        cut_out.special = special;
        description_.added_tokens.push_back(cut_out);
      }
    }
  }

  void read_frame(bool add_bos, bool add_eos, Token bos, Token eos) {
    description_.bos = token_of("bos_token_id", bos);
    description_.eos = token_of("eos_token_id", eos);
    if (flag("add_bos_token", add_bos) && description_.bos >= 0) description_.prefix = {description_.bos};
    if (flag("add_eos_token", add_eos) && description_.eos >= 0) description_.suffix = {description_.eos};
    for (const Token end : {description_.eos, token_of("eot_token_id"), token_of("eom_token_id")}) {
      if (end >= 0) description_.ends.push_back(end);
    }
  }

  // gpt2 -----------------------------------------------------------------------------------------------------------------------

  void read_byte_level() {
    KnownPreTokenizer kind = known_pre_tokenizer(file_.string(key_of("pre")), where("pre"));
    read_tokens();
    BpeDescription bpe;
    bpe.whole_pieces = kind.whole_pieces;
    const auto& lines = array_of<std::vector<std::string_view>>("merges", "an array of strings");
    bpe.merges.reserve(lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) bpe.merges.push_back(read_merge(lines[i], i));
    description_.model = std::move(bpe);
    description_.pre_tokenizer = std::move(kind.steps);
    description_.decoder = {decoders::ByteLevel{}};
    read_frame(kind.add_bos, false, -1, -1);
  }

  /// "left right" in the byte alphabet, where a space can't occur: exactly one space, and three known tokens.
  BpeMerge read_merge(std::string_view line, std::size_t i) const {
    const auto refuse = [&](const char* problem) {
      fail("merges", fmt::format("merge {} '{}' {}", i, escaped(line, 60), problem), "two tokens, a space between them, that join to a token");
    };
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) refuse("must hold one space");
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    const BpeMerge merge{vocabulary().find(left), vocabulary().find(right), vocabulary().find(std::string(left) + std::string(right)),
                         static_cast<std::int32_t>(i)};
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) refuse("names a token that is not in the vocabulary");
    return merge;
  }

  // llama ----------------------------------------------------------------------------------------------------------------------

  void read_sentencepiece() {
    read_tokens();
    BpeDescription bpe;
    bpe.byte_fallback = true;
    bpe.unknown = token_of("unknown_token_id", 0);
    bpe.merges = merges_from_scores(array_per_token<std::vector<double>>("scores", "an array of f32"));
    description_.model = std::move(bpe);
    const bool space_first = flag("add_space_prefix", true);
    if (space_first) description_.normalizer.push_back(normalizers::Prepend{kMark});
    description_.normalizer.push_back(normalizers::Replace{{" ", true}, kMark});
    set_sentencepiece_decoder(space_first);
    read_frame(true, false, 1, 2);
  }

  /// SentencePiece joins the two neighbours whose joint text has the best score: each way to cut a token into two is a merge, and its rank
  /// is the token's place in the order of scores, equal ones sharing it.
  std::vector<BpeMerge> merges_from_scores(const std::vector<double>& scores) const {
    std::vector<Token> order;
    for (Token token = 0; token < vocabulary().size(); ++token) {
      if (vocabulary().type(token) == TokenType::normal) order.push_back(token);
    }
    const auto score = [&](Token token) { return scores[static_cast<std::size_t>(token)]; };
    std::ranges::stable_sort(order, [&](Token a, Token b) { return score(a) > score(b); });
    std::vector<BpeMerge> merges;
    std::int32_t rank = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::string_view text = vocabulary().text(order[i]);
      if (i > 0 && score(order[i]) != score(order[i - 1])) rank = static_cast<std::int32_t>(i);
      for (std::size_t cut = 1; cut < text.size(); ++cut) {
        if ((text[cut] & 0xC0) == 0x80) continue;  // inside a character
        const Token left = vocabulary().find(text.substr(0, cut));
        const Token right = left < 0 ? -1 : vocabulary().find(text.substr(cut));
        if (right >= 0) merges.push_back({left, right, order[i], rank});
      }
    }
    return merges;
  }

  // t5 -------------------------------------------------------------------------------------------------------------------------

  void read_unigram() {
    read_tokens();
    UnigramDescription unigram;
    unigram.scores = array_per_token<std::vector<double>>("scores", "an array of f32");
    unigram.unknown = token_of("unknown_token_id", 2);
    unigram.byte_fallback = vocabulary().byte_token(0) >= 0;
    unigram.sums_in_float = true;
    for (Token token = 0; token < vocabulary().size(); ++token) {
      if (vocabulary().text(token).size() > kMaxPieceBytes) fail("tokens", fmt::format("token {} is too long", token), fmt::format("up to {} bytes", kMaxPieceBytes));
    }
    description_.model = std::move(unigram);
    if (file_.find(key_of("precompiled_charsmap")) != nullptr) description_.normalizer.push_back(normalizers::Precompiled{charsmap(), false});
    if (flag("remove_extra_whitespaces", false)) {
      description_.normalizer.push_back(normalizers::Replace{{"^ +| +$|(?<= ) +", false}, ""});
    }
    const bool space_first = flag("add_space_prefix", true);
    if (space_first) description_.normalizer.push_back(normalizers::Prepend{kMark});
    description_.normalizer.push_back(normalizers::Replace{{" ", true}, kMark});
    set_sentencepiece_decoder(space_first);
    read_frame(false, true, -1, 1);
  }

  std::string charsmap() const {
    const MetaValue& value = file_.find(key_of("precompiled_charsmap"))->value;
    std::string bytes;
    const auto append = [&](const auto& list) { for (const auto byte : list) bytes += static_cast<char>(byte); };
    if (const auto* list = std::get_if<std::vector<std::uint64_t>>(&value)) {
      append(*list);
    } else if (const auto* signed_list = std::get_if<std::vector<std::int64_t>>(&value)) {
      append(*signed_list);
    } else {
      fail("precompiled_charsmap", "wrong key type", "an array of u8 or i8");
    }
    return bytes;
  }

  void set_sentencepiece_decoder(bool space_first) {
    description_.decoder = {decoders::Replace{{kMark, true}, " "}, decoders::ByteFallback{}, decoders::Fuse{}};
    if (space_first) description_.decoder.push_back(decoders::Strip{" ", 1, 0});
  }

  const ModelFile& file_;
  TokenizerDescription description_;
};

}  // namespace

TokenizerDescription read_gguf_tokenizer(const ModelFile& file) { return Reader(file).run(); }

}  // namespace patchbay

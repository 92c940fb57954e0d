// tokenizer.json (Hugging Face's `tokenizers`): the model, the added tokens and the post-processor.
#include <fmt/format.h>

#include <algorithm>

#include "tokenizer/readers.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr std::size_t kShownBytes = 60;
constexpr std::size_t kMaxPieceBytes = 4096;  // of a Unigram token: bounds the work per position of the text

class Reader {
 public:
  explicit Reader(const JsonNode& root) : root_(root) {}

  TokenizerDescription run() {
    root_.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"});
    description_.normalizer = read_normalizer(root_);
    description_.pre_tokenizer = read_pre_tokenizer(root_);
    description_.decoder = read_decoder(root_);
    const JsonNode model = root_.at("model"), type = model.at("type");
    if (type.text() == "BPE") {
      read_bpe(model);
    } else if (type.text() == "Unigram") {
      read_unigram(model);
    } else {
      type.fail(fmt::format("unknown model '{}'", escaped(type.text(), kShownBytes)), "BPE, Unigram");
    }
    read_added_tokens();
    if (const auto processor = root_.find("post_processor")) read_post_processor(*processor);
    drop_merges_to_special(description_);
    add_known_ends(description_);
    return std::move(description_);
  }

 private:
  Vocabulary& vocabulary() { return description_.vocabulary; }
  Token find_or_none(const std::optional<JsonNode>& text) { return text ? vocabulary().find(text->text()) : -1; }

  /// Numbers may leave holes, but not so that the list of tokens outgrows the file.
  void check_number(const JsonNode& number, std::size_t count) const {
    const std::size_t limit = 4 * count + 65536;
    number.integer(0, static_cast<std::int64_t>(std::min<std::size_t>(limit, INT32_MAX)));
  }

  // BPE ------------------------------------------------------------------------------------------------------------------------

  void read_bpe(const JsonNode& model) {
    model.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
                "vocab", "merges"});
    if (const auto dropout = model.find("dropout"); dropout && dropout->real() != 0) dropout->fail("makes tokens random", "null or 0");
    BpeDescription bpe;
    bpe.continuing_prefix = model.text_or("continuing_subword_prefix", "");
    bpe.end_suffix = model.text_or("end_of_word_suffix", "");
    bpe.fuse_unknown = model.boolean_or("fuse_unk", false);
    bpe.byte_fallback = model.boolean_or("byte_fallback", false);
    bpe.whole_pieces = model.boolean_or("ignore_merges", false);
    const JsonNode vocab = model.at("vocab");
    vocabulary().reserve(vocab.size());
    vocab.members([&](std::string_view text, const JsonNode& number) {
      check_number(number, vocab.size());
      const bool is_byte = bpe.byte_fallback && byte_of_text(text);
      if (!vocabulary().add(number.index(), std::string(text), is_byte ? TokenType::byte : TokenType::normal)) number.fail("is taken by another token");
    });
    bpe.unknown = find_or_none(model.find("unk_token"));
    const JsonNode merges = model.at("merges");
    bpe.merges.reserve(merges.size());
    std::int32_t rank = 0;
    merges.elements([&](const JsonNode& merge) {
      if (!(merge.is_string() && merge.text().starts_with("#version"))) bpe.merges.push_back(read_merge(merge, bpe, rank));
      ++rank;
    });
    description_.model = std::move(bpe);
  }

  std::optional<BpeMerge> resolve(std::string_view left, std::string_view right, const BpeDescription& bpe, std::int32_t rank) {
    const bool continues = !bpe.continuing_prefix.empty() && right.starts_with(bpe.continuing_prefix);
    const std::string both = std::string(left) + std::string(continues ? right.substr(bpe.continuing_prefix.size()) : right);
    const BpeMerge merge{vocabulary().find(left), vocabulary().find(right), vocabulary().find(both), rank};
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) return std::nullopt;
    return merge;
  }

  /// A pair, or, in older files, both in one string with a space between: where it holds several, the vocabulary says which one counts.
  BpeMerge read_merge(const JsonNode& node, const BpeDescription& bpe, std::int32_t rank) {
    constexpr const char* kAllowed = "two tokens that join to a token";
    if (node.is_array()) {
      if (node.size() != 2) node.fail(fmt::format("has {} entries", node.size()), "2");
      const auto merge = resolve(node.element(0).text(), node.element(1).text(), bpe, rank);
      if (!merge) node.fail("names a token that is not in the vocabulary", kAllowed);
      return *merge;
    }
    const std::string_view line = node.text();
    std::optional<BpeMerge> found;
    for (std::size_t space = line.find(' '); space != std::string_view::npos; space = line.find(' ', space + 1)) {
      const auto merge = resolve(line.substr(0, space), line.substr(space + 1), bpe, rank);
      if (merge && found) node.fail(fmt::format("merge '{}' can be read in two ways", escaped(line, kShownBytes)), kAllowed, "write it as a pair");
      if (merge) found = merge;
    }
    if (!found) node.fail(fmt::format("merge '{}' names no two tokens of the vocabulary", escaped(line, kShownBytes)), kAllowed);
    return *found;
  }

  // Unigram --------------------------------------------------------------------------------------------------------------------

  void read_unigram(const JsonNode& model) {
    model.only({"type", "unk_id", "vocab", "byte_fallback"});
    UnigramDescription unigram;
    unigram.byte_fallback = model.boolean_or("byte_fallback", false);
    const JsonNode vocab = model.at("vocab");
    if (vocab.size() == 0) vocab.fail("is empty");
    vocabulary().reserve(vocab.size());
    Token token = 0;
    vocab.elements([&](const JsonNode& entry) {
      if (!entry.is_array() || entry.size() != 2) entry.fail("is no pair", "[text, score]");
      const std::string_view text = entry.element(0).text();
      if (text.size() > kMaxPieceBytes) entry.fail(fmt::format("a token of {} bytes", text.size()), fmt::format("up to {}", kMaxPieceBytes));
      const bool is_byte = unigram.byte_fallback && byte_of_text(text);
      if (!vocabulary().add(token++, std::string(text), is_byte ? TokenType::byte : TokenType::normal)) entry.fail("duplicate token");
      unigram.scores.push_back(entry.element(1).real());
    });
    if (const auto unknown = model.find("unk_id")) unigram.unknown = static_cast<Token>(unknown->integer(0, vocabulary().size() - 1));
    description_.model = std::move(unigram);
  }

  // Added tokens ---------------------------------------------------------------------------------------------------------------

  void read_added_tokens() {
    const auto tokens = root_.find("added_tokens");
    if (!tokens) return;
    const auto known = static_cast<std::size_t>(vocabulary().size()) + tokens->size();
    tokens->elements([&](const JsonNode& node) {
      node.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      const JsonNode number = node.at("id");
      check_number(number, known);
      AddedToken added;
      added.token = number.index();
      added.content = node.at("content").text();
      added.special = node.boolean_or("special", false);
      added.normalized = node.boolean_or("normalized", !added.special);
      added.single_word = node.boolean_or("single_word", false);
      added.lstrip = node.boolean_or("lstrip", false);
      added.rstrip = node.boolean_or("rstrip", false);
      if (added.content.empty()) return;
      place(number, added);
      description_.added_tokens.push_back(added);
    });
    if (auto* unigram = std::get_if<UnigramDescription>(&description_.model)) unigram->scores.resize(static_cast<std::size_t>(vocabulary().size()));
  }

  void place(const JsonNode& number, const AddedToken& added) {
    const bool taken = added.token < vocabulary().size() && vocabulary().type(added.token) != TokenType::absent;
    const Token known = vocabulary().find(added.content);
    const bool same = taken && vocabulary().text(added.token) == added.content;
    if ((taken && !same) || (known >= 0 && known != added.token)) {
      number.fail(fmt::format("{} is not the number of '{}' in the vocabulary", added.token, escaped(added.content, kShownBytes)));
    }
    if (!taken) vocabulary().add(added.token, added.content, added.special ? TokenType::special : TokenType::added);
    if (taken && added.special) vocabulary().make_special(added.token);
  }

  // Post-processor -------------------------------------------------------------------------------------------------------------

  void wrap(std::vector<Token> before, const std::vector<Token>& after) {
    before.insert(before.end(), description_.prefix.begin(), description_.prefix.end());
    description_.prefix = std::move(before);
    description_.suffix.insert(description_.suffix.end(), after.begin(), after.end());
  }
  Token number_in_vocabulary(const JsonNode& node) { return static_cast<Token>(node.integer(0, vocabulary().size() - 1)); }

  void read_post_processor(const JsonNode& node) {
    const JsonNode type = node.at("type");
    if (type.text() == "Sequence") return node.at("processors").elements([&](const JsonNode& one) { read_post_processor(one); });
    if (type.text() == "ByteLevel") return;  // moves offsets, no tokens
    if (type.text() == "BertProcessing" || type.text() == "RobertaProcessing") {
      return wrap({number_in_vocabulary(node.at("cls").element(1))}, {number_in_vocabulary(node.at("sep").element(1))});
    }
    if (type.text() == "TemplateProcessing") return read_template(node);
    type.fail(fmt::format("unknown type '{}'", escaped(type.text(), kShownBytes)),
              "Sequence, ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing");
  }

  /// The template for one text: special tokens, the text once, special tokens.
  void read_template(const JsonNode& node) {
    const JsonNode single = node.at("single");
    std::vector<Token> before, after;
    bool seen = false;
    single.elements([&](const JsonNode& item) {
      if (item.find("Sequence")) {
        if (seen || item.at("Sequence").at("id").text() != "A") item.fail("a template for one text holds it once", "Sequence A, once");
        seen = true;
        return;
      }
      const JsonNode special = node.at("special_tokens").at(item.at("SpecialToken").at("id").text());
      special.at("ids").elements([&](const JsonNode& number) { (seen ? after : before).push_back(number_in_vocabulary(number)); });
    });
    if (!seen) single.fail("the text is missing", "Sequence A, once");
    wrap(std::move(before), after);
  }

  JsonNode root_;
  TokenizerDescription description_;
};

}  // namespace

TokenizerDescription read_tokenizer_json(const JsonFile& file) { return Reader(file.root()).run(); }

}  // namespace patchbay

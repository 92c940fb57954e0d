// From a path to a tokenizer: a GGUF file, a tokenizer.json, or the folder of a model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>

#include "engine/model_spec.h"
#include "path_checks.h"
#include "tokenizer.h"
#include "tokenizer/readers.h"
#include "utf8.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEndTexts[] = {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>",
                                          "<|end|>",       "<end_of_turn>",   "<|endofturn|>", "</s>",    "<EOT>"};

void add_end(TokenizerDescription& description, Token token) {
  if (std::ranges::find(description.ends, token) == description.ends.end()) description.ends.push_back(token);
}

/// A token by its text, added ones first; "eos_token" is a string or an object with its content.
Token named_token(const TokenizerDescription& description, const JsonNode& config, std::string_view key) {
  const auto node = config.find(key);
  if (!node) return -1;
  const std::string_view text = node->is_object() ? node->at("content").text() : node->text();
  const auto added = std::ranges::find(description.added_tokens, text, &AddedToken::content);
  const Token token = added != description.added_tokens.end() ? added->token : description.vocabulary.find(text);
  if (token < 0) node->fail("'" + escaped(text, 60) + "' is not in the vocabulary");
  return token;
}

void read_config(const JsonFile& config, TokenizerDescription& description) {
  description.bos = named_token(description, config.root(), "bos_token");
  description.eos = named_token(description, config.root(), "eos_token");
  if (description.eos >= 0) add_end(description, description.eos);
}

/// eos_token_id: one number, or several.
void read_generation_config(const JsonFile& config, TokenizerDescription& description, int tokens) {
  const auto ends = config.root().find("eos_token_id");
  if (!ends) return;
  const auto add = [&](const JsonNode& node) { add_end(description, static_cast<Token>(node.integer(0, tokens - 1))); };
  if (ends->is_array()) {
    ends->elements(add);
  } else {
    add(*ends);
  }
}

/// Where a folder's generation_config.json is missing, transformers takes its keys from config.json.
std::optional<JsonFile> generation_config(const fs::path& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (is_there((folder / name).string())) return std::make_optional<JsonFile>((folder / name).string());
  }
  return std::nullopt;
}

/// A model's tokens without their texts: of a folder without tokenizer.json, or of a GGUF file without a key of a tokenizer.
class Numbers final : public Tokenizer {
 public:
  Numbers(const ModelFile& model, int size) : gguf_(model.form() == FileForm::gguf), size_(size) {
    where_ = gguf_ ? escaped(model.path()) : escaped(model.folder()) + "/tokenizer.json";
    if (gguf_) return;
    TokenizerDescription description;
    if (const auto config = generation_config(model.folder())) read_generation_config(*config, description, size);
    ends_ = description.ends;
  }
  std::vector<Token> encode(std::string_view, bool, bool) const override { refuse(); }
  std::vector<Token> encode(const FramedText&) const override { refuse(); }
  std::string_view piece(Token, bool) const override { refuse(); }
  std::string decode_text(std::span<const Token>, bool) const override { refuse(); }
  int size() const override { return size_; }
  Token bos() const override { return -1; }
  Token eos() const override { return ends_.empty() ? -1 : ends_[0]; }
  bool is_end_of_generation(Token token) const override { return std::ranges::find(ends_, token) != ends_.end(); }
  bool knows_text() const override { return false; }

 private:
  [[noreturn]] void refuse() const {
    throw Error(where_, gguf_ ? "holds no tokenizer: the model's tokens have no texts" : "no such file: the model's tokens have no texts", "",
                gguf_ ? "use token numbers (--tokens, --json)" : "add the file, or use token numbers (--tokens, --json)");
  }
  bool gguf_;
  std::string where_;
  int size_;
  std::vector<Token> ends_;
};

/// Models often have more rows of embedding than tokens. Such a row's token is shown as it is in GGUF; no text becomes it.
void name_unused(TokenizerDescription& description, int rows) {
  for (Token token = 0; token < rows; ++token) {
    if (token < description.vocabulary.size() && description.vocabulary.type(token) != TokenType::absent) continue;
    description.vocabulary.add(token, fmt::format("[PAD{}]", token), TokenType::added);
  }
  if (auto* unigram = std::get_if<UnigramDescription>(&description.model)) unigram->scores.resize(static_cast<std::size_t>(description.vocabulary.size()), unigram->scores.front());
}

/// `rows`: of the embedding, where the model is known.
TokenizerDescription described(const fs::path& folder, int rows) {
  const JsonFile file((folder / "tokenizer.json").string());
  TokenizerDescription description = read_tokenizer_json(file);
  name_unused(description, rows);
  if (is_there((folder / "tokenizer_config.json").string())) read_config(JsonFile((folder / "tokenizer_config.json").string()), description);
  if (const auto config = generation_config(folder)) read_generation_config(*config, description, description.vocabulary.size());
  return description;
}

bool begins_as_gguf(const std::string& path) {
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

}  // namespace

TokenizerDescription read_folder_tokenizer(const std::string& folder) { return described(folder, 0); }

bool is_known_end(std::string_view text) { return std::ranges::find(kEndTexts, text) != std::end(kEndTexts); }

void add_known_ends(TokenizerDescription& description) {
  for (const AddedToken& added : description.added_tokens) {
    if (added.special && is_known_end(added.content)) add_end(description, added.token);
  }
}

void drop_merges_to_special(TokenizerDescription& description) {
  auto* bpe = std::get_if<BpeDescription>(&description.model);
  if (bpe == nullptr) return;
  std::erase_if(bpe->merges, [&](const BpeMerge& merge) { return description.vocabulary.type(merge.result) == TokenType::special; });
}

std::vector<Token> encode_from(const std::string& place, const Tokenizer& tokenizer, std::string_view text, bool parse_special,
                               bool add_special) {
  try {
    return tokenizer.encode(text, parse_special, add_special);
  } catch (const Error& error) {
    throw error.at(place);
  }
}

bool has_gguf_tokenizer(const ModelFile& file) {
  return std::ranges::any_of(file.metadata(), [](const MetaEntry& entry) { return entry.key.starts_with("tokenizer."); });
}

std::unique_ptr<Tokenizer> make_tokenizer(const ModelFile& file) {
  const std::string tokenizer = file.folder() + "/tokenizer.json";
  const bool has_texts = file.form() == FileForm::gguf ? has_gguf_tokenizer(file) : is_there(tokenizer);
  if (!has_texts) return std::make_unique<Numbers>(file, read_model_spec(file).vocabulary);
  if (file.form() == FileForm::gguf) return make_tokenizer(read_gguf_tokenizer(file), escaped(file.path()));
  return make_tokenizer(described(file.folder(), read_model_spec(file).vocabulary), escaped(tokenizer));
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  if (fs::is_directory(path)) return make_tokenizer(read_folder_tokenizer(path), escaped(path) + "/tokenizer.json");
  if (begins_as_gguf(path)) return make_tokenizer(*ModelFile::open(path));
  const JsonFile file(path);
  return make_tokenizer(read_tokenizer_json(file), file.name());
}

}  // namespace patchbay

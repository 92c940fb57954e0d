// From a path to a tokenizer: a GGUF file, a tokenizer.json, or the folder of a model.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

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
void read_generation_config(const JsonFile& config, TokenizerDescription& description) {
  const auto ends = config.root().find("eos_token_id");
  if (!ends) return;
  const auto add = [&](const JsonNode& node) { add_end(description, static_cast<Token>(node.integer(0, description.vocabulary.size() - 1))); };
  if (ends->is_array()) {
    ends->elements(add);
  } else {
    add(*ends);
  }
}

std::unique_ptr<Tokenizer> load_folder(const fs::path& folder) {
  const JsonFile file((folder / "tokenizer.json").string());
  TokenizerDescription description = read_tokenizer_json(file);
  if (fs::exists(folder / "tokenizer_config.json")) read_config(JsonFile((folder / "tokenizer_config.json").string()), description);
  if (fs::exists(folder / "generation_config.json")) {
    read_generation_config(JsonFile((folder / "generation_config.json").string()), description);
  }
  return make_tokenizer(std::move(description), file.name());
}

bool begins_as_gguf(const std::string& path) {
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

}  // namespace

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

std::unique_ptr<Tokenizer> make_tokenizer(const ModelFile& file) { return make_tokenizer(read_gguf_tokenizer(file), escaped(file.path())); }

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  if (fs::is_directory(path)) return load_folder(path);
  if (begins_as_gguf(path)) return make_tokenizer(*ModelFile::open(path));
  const JsonFile file(path);
  return make_tokenizer(read_tokenizer_json(file), file.name());
}

}  // namespace patchbay

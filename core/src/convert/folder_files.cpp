#include "convert/folder_files.h"

#include <fmt/format.h>

#include <set>

#include "convert/chat_forms.h"
#include "convert/hf_config.h"
#include "convert/same_model.h"
#include "convert/tokenizer_forms.h"
#include "engine/architectures.h"
#include "engine/model_spec_hf.h"
#include "files.h"
#include "tokenizer/readers.h"
#include "utf8.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

/// Without those at the end that only fill up the embedding.
int tokens_in_use(const ModelFile& file, int count) {
  constexpr std::int64_t kUnused = 5;
  const MetaEntry* entry = file.find("tokenizer.ggml.token_type");
  const auto* types = entry ? std::get_if<std::vector<std::int64_t>>(&entry->value) : nullptr;
  while (types && count > 0 && (*types)[static_cast<std::size_t>(count) - 1] == kUnused) --count;
  return count;
}

Json token_or_null(Token token) { return token >= 0 ? Json(token) : Json(); }
Json text_or_null(const TokenizerDescription& tokenizer, Token token) { return token >= 0 ? Json(tokenizer.vocabulary.text(token)) : Json(); }

/// What no place of the folder takes would be lost.
void require_all_placed(const ModelFile& file, const std::vector<TensorPair>& pairs) {
  std::set<std::string_view> placed = {"rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};  // config.json has them
  for (const TensorPair& pair : pairs) placed.insert(pair.gguf);
  for (const FileTensor& tensor : file.tensors()) {
    if (!placed.contains(tensor.name)) throw Error(fmt::format("{}: tensor '{}'", escaped(file.path()), escaped(tensor.name)), "a folder has no place for it in this model");
  }
}

void write_json(const std::string& path, const Json& value) { write_file_atomically(path, value.dump(2) + "\n"); }

}  // namespace

const char* torch_type(std::string_view type_name) { return type_name == "F32" ? "float32" : type_name == "F16" ? "float16" : "bfloat16"; }

void require_same_model(const ModelSpec& source, const ModelSpec& target, const std::string& where, const char* form) {
  const std::string difference = model_difference(source, target);
  if (!difference.empty()) throw Error(where, fmt::format("{} has no words for this model's {}", form, difference));
}

FolderFiles::FolderFiles(std::shared_ptr<const ModelFile> gguf) : file_(std::move(gguf)), has_text_(has_gguf_tokenizer(*file_)) {
  const ModelSpec spec = read_model_spec(*file_);
  config = hf_config(*file_, spec);
  if (has_text_) tokenizer_ = read_gguf_tokenizer(*file_);
  config["bos_token_id"] = token_or_null(tokenizer_.bos);
  config["eos_token_id"] = token_or_null(tokenizer_.eos);
  config["pad_token_id"] = nullptr;
  const ModelSpec described = read_hf_model_spec(nlohmann::json(config), escaped(file_->path()));
  require_same_model(spec, described, escaped(file_->path()), "config.json");
  pairs_ = tensor_pairs(described, find_architecture(file_->string("general.architecture"))->interleaved);
  require_all_placed(*file_, pairs_);
}

std::vector<std::string> FolderFiles::write(const std::string& folder) const {
  write_json(folder + "/config.json", config);
  if (has_text_) return write_texts(folder);
  return {"the GGUF file has no tokenizer: the folder knows no text and no chats"};
}

std::vector<std::string> FolderFiles::write_texts(const std::string& folder) const {
  std::vector<std::string> notes;
  write_json(folder + "/tokenizer.json", tokenizer_json(tokenizer_, tokens_in_use(*file_, tokenizer_.vocabulary.size())));
  Json texts = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"bos_token", text_or_null(tokenizer_, tokenizer_.bos)},
                {"eos_token", text_or_null(tokenizer_, tokenizer_.eos)}, {"clean_up_tokenization_spaces", false}};
  if (Json templates = chat_template_json(*file_); !templates.is_null()) texts["chat_template"] = std::move(templates);
  write_json(folder + "/tokenizer_config.json", texts);
  Json generation = {{"bos_token_id", token_or_null(tokenizer_.bos)}, {"eos_token_id", tokenizer_.ends}};
  generation.update(sampling_json(*file_, notes));
  write_json(folder + "/generation_config.json", generation);
  return notes;
}

}  // namespace patchbay

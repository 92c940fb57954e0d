/// @file folder_files.h
/// What a Hugging Face folder says of a GGUF file's model beside its weights: config.json, tokenizer, chat template, sampling.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/moved_tensors.h"
#include "tokenizer/description.h"

namespace patchbay {

class FolderFiles {
 public:
  /// @throws Error for what config.json has no words for.
  explicit FolderFiles(std::shared_ptr<const ModelFile> gguf);
  /// config.json, without the type of the weights.
  nlohmann::ordered_json config;
  /// Where each tensor of the folder stands in the file.
  const std::vector<TensorPair>& pairs() const { return pairs_; }
  /// Writes config.json and the files of text into a folder. Returns notes.
  std::vector<std::string> write(const std::string& folder) const;

 private:
  std::vector<std::string> write_texts(const std::string& folder) const;
  std::shared_ptr<const ModelFile> file_;
  bool has_text_ = false;
  TokenizerDescription tokenizer_;
  std::vector<TensorPair> pairs_;
};

/// Of a type of the weights: "float16".
const char* torch_type(std::string_view type_name);
/// @throws Error where `target`, which `form` says, is another model than `source`.
void require_same_model(const ModelSpec& source, const ModelSpec& target, const std::string& where, const char* form);

}  // namespace patchbay

// The words are those of tokenizer/description.h, which are tokenizer.json's; only the steps that GGUF's kinds consist of can come here.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "convert/tokenizer_forms.h"
#include "patchbay/error.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const char* part) { throw Error("tokenizer.json", std::string("this ") + part + " is not written", "those of byte-level and SentencePiece BPE"); }

Json pattern_of(const Pattern& pattern) { return {{pattern.literal ? "String" : "Regex", pattern.text}}; }

Json step(const NormalizerStep& step) {
  if (const auto* prepend = std::get_if<normalizers::Prepend>(&step)) return {{"type", "Prepend"}, {"prepend", prepend->text}};
  const auto* replace = std::get_if<normalizers::Replace>(&step);
  if (!replace) refuse("normalizer");
  return {{"type", "Replace"}, {"pattern", pattern_of(replace->pattern)}, {"content", replace->content}};
}

Json step(const PreTokenizerStep& step) {
  constexpr const char* kBehaviors[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
  if (const auto* bytes = std::get_if<pre_tokenizers::ByteLevel>(&step)) {
    return {{"type", "ByteLevel"}, {"add_prefix_space", bytes->add_prefix_space}, {"trim_offsets", true}, {"use_regex", bytes->use_regex}};
  }
  const auto* split = std::get_if<pre_tokenizers::Split>(&step);
  if (!split) refuse("pre_tokenizer");
  return {{"type", "Split"}, {"pattern", pattern_of(split->pattern)}, {"behavior", kBehaviors[static_cast<int>(split->behavior)]}, {"invert", split->invert}};
}

Json step(const DecoderStep& step) {
  if (std::holds_alternative<decoders::ByteLevel>(step)) return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  if (std::holds_alternative<decoders::ByteFallback>(step)) return {{"type", "ByteFallback"}};
  if (std::holds_alternative<decoders::Fuse>(step)) return {{"type", "Fuse"}};
  if (const auto* strip = std::get_if<decoders::Strip>(&step)) return {{"type", "Strip"}, {"content", strip->content}, {"start", strip->start}, {"stop", strip->stop}};
  const auto* replace = std::get_if<decoders::Replace>(&step);
  if (!replace) refuse("decoder");
  return {{"type", "Replace"}, {"pattern", pattern_of(replace->pattern)}, {"content", replace->content}};
}

/// One step by itself, several as a Sequence, none as null.
template <class Step>
Json sequence(const std::vector<Step>& steps, const char* list) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return step(steps[0]);
  Json all = {{"type", "Sequence"}, {list, Json::array()}};
  for (const Step& one : steps) all[list].push_back(step(one));
  return all;
}

Json model(const TokenizerDescription& tokenizer, int count) {
  const auto* bpe = std::get_if<BpeDescription>(&tokenizer.model);
  if (!bpe) refuse("model");
  const Vocabulary& vocabulary = tokenizer.vocabulary;
  Json vocab = Json::object(), merges = Json::array();
  for (Token token = 0; token < count; ++token) {
    if (vocabulary.type(token) == TokenType::absent) continue;
    vocab.get_ref<Json::object_t&>().emplace_back(std::string(vocabulary.text(token)), token);  // operator[] would search them all
  }
  std::vector<BpeMerge> order = bpe->merges;
  std::ranges::stable_sort(order, {}, &BpeMerge::rank);
  for (const BpeMerge& merge : order) merges.push_back({vocabulary.text(merge.left), vocabulary.text(merge.right)});
  return {{"type", "BPE"}, {"dropout", nullptr}, {"unk_token", bpe->unknown >= 0 ? Json(vocabulary.text(bpe->unknown)) : Json()},
          {"continuing_subword_prefix", nullptr}, {"end_of_word_suffix", nullptr}, {"fuse_unk", bpe->fuse_unknown}, {"byte_fallback", bpe->byte_fallback},
          {"ignore_merges", bpe->whole_pieces}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}};
}

Json added_tokens(const TokenizerDescription& tokenizer, int count) {
  Json list = Json::array();
  for (const AddedToken& added : tokenizer.added_tokens) {
    if (added.token >= count) continue;
    list.push_back({{"id", added.token}, {"content", added.content}, {"single_word", added.single_word}, {"lstrip", added.lstrip}, {"rstrip", added.rstrip},
                    {"normalized", added.normalized}, {"special", added.special}});
  }
  return list;
}

/// Puts the frame around a text, or around each of two.
Json post_processor(const TokenizerDescription& tokenizer) {
  if (tokenizer.prefix.empty() && tokenizer.suffix.empty()) return nullptr;
  Json single = Json::array(), pair = Json::array(), tokens = Json::object();
  const auto add = [&](Json& list, const std::vector<Token>& frame, int type) {
    for (const Token token : frame) {
      const std::string text(tokenizer.vocabulary.text(token));
      list.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
      tokens[text] = {{"id", text}, {"ids", Json::array({token})}, {"tokens", Json::array({text})}};
    }
  };
  const auto add_text = [&](Json& list, const char* name, int type) {
    add(list, tokenizer.prefix, type);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
    add(list, tokenizer.suffix, type);
  };
  add_text(single, "A", 0);
  add_text(pair, "A", 0);
  add_text(pair, "B", 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

}  // namespace

Json tokenizer_json(const TokenizerDescription& tokenizer, int count) {
  return {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added_tokens(tokenizer, count)},
          {"normalizer", sequence(tokenizer.normalizer, "normalizers")}, {"pre_tokenizer", sequence(tokenizer.pre_tokenizer, "pretokenizers")},
          {"post_processor", post_processor(tokenizer)}, {"decoder", sequence(tokenizer.decoder, "decoders")}, {"model", model(tokenizer, count)}};
}

}  // namespace patchbay

// The rules that tie a model's metadata and tensors together. Which tensors an architecture has, and of which shapes, is the table
// of architectures.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <unordered_set>

#include "engine/architectures.h"
#include "engine/model_spec_hf.h"
#include "model_file.h"
#include "utf8.h"

namespace patchbay {
namespace {

using Extents = std::map<char, std::int64_t>;

class ModelCheck {
 public:
  explicit ModelCheck(const ModelFile& file) : file_(file), name_(escaped(file.path())) {}

  void run() {
    if (has_key_of("tokenizer.")) check_tokenizer();
    if (!has_key_of("tokenizer.") && !has_model_tensors() && !has_architecture_keys()) return;
    architecture_ = file_.string("general.architecture");
    rule_ = find_architecture(architecture_);
    if (!has_model_tensors() && !has_architecture_keys()) return;
    const Extents extents = check_sizes();
    if (rule_ != nullptr && has_model_tensors()) check_tensors(extents);
  }

 private:
  [[noreturn]] void fail(std::string_view key, std::string problem, std::string allowed = {}, std::string remedy = {}) const {
    throw Error(fmt::format("{}: {}", name_, key), std::move(problem), std::move(allowed), std::move(remedy));
  }
  bool has_key_of(std::string_view prefix) const {
    for (const MetaEntry& entry : file_.metadata()) if (entry.key.starts_with(prefix)) return true;
    return false;
  }
  bool has_model_tensors() const {
    for (const FileTensor& tensor : file_.tensors()) {
      if (tensor.name.starts_with("token_embd.") || tensor.name.starts_with("blk.")) return true;
    }
    return false;
  }
  bool has_architecture_keys() const {
    const MetaEntry* entry = file_.find("general.architecture");
    const auto* name = entry ? std::get_if<std::string_view>(&entry->value) : nullptr;
    return name != nullptr && has_key_of(std::string(*name) + ".");
  }

  // Vocabulary ---------------------------------------------------------------------------------------------------------------

  template <class List>
  const List* list(std::string_view key, std::uint32_t type, const char* wanted) const {
    const MetaEntry* entry = file_.find(key);
    if (entry == nullptr) return nullptr;
    if (!entry->array) fail(key, "wrong key type", wanted);
    if (entry->type != type) fail(key, "wrong array type", wanted);
    return &std::get<List>(entry->value);
  }
  void check_length(std::string_view key, std::size_t length) const {
    if (length == vocabulary_) return;
    fail(key, fmt::format("array length mismatch: {} entries for {} tokens", length, vocabulary_));
  }

  void check_tokenizer() {
    constexpr std::string_view kTokens = "tokenizer.ggml.tokens", kScores = "tokenizer.ggml.scores";
    constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
    file_.maybe_string("tokenizer.ggml.model");
    const auto* tokens = list<std::vector<std::string_view>>(kTokens, 8, "array of string");
    if (tokens == nullptr) return;
    vocabulary_ = tokens->size();
    if (const auto* scores = list<std::vector<double>>(kScores, 6, "array of f32")) check_length(kScores, scores->size());
    if (const auto* types = list<std::vector<std::int64_t>>(kTypes, 5, "array of i32")) check_length(kTypes, types->size());
    list<std::vector<std::string_view>>("tokenizer.ggml.merges", 8, "array of string");
    std::unordered_set<std::string_view> seen(vocabulary_);
    for (std::size_t id = 0; id < vocabulary_; ++id) {
      const std::string_view text = (*tokens)[id];
      if (!seen.insert(text).second) fail(kTokens, fmt::format("duplicate token '{}' (id {})", escaped(text, 60), id));
    }
    for (const MetaEntry& entry : file_.metadata()) {
      if (!entry.key.starts_with("tokenizer.ggml.") || !entry.key.ends_with("_token_id")) continue;
      const std::uint64_t id = file_.integer(entry.key);
      if (id >= vocabulary_) fail(entry.key, fmt::format("token id out of range: {} of {} tokens", id, vocabulary_));
    }
  }

  // Sizes --------------------------------------------------------------------------------------------------------------------

  std::string key_of(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  /// A count of 1 or more. An architecture that we have no table of may leave keys out, or list one entry per block: 0.
  std::int64_t count(std::string_view name, std::string_view what) const {
    const std::string key = key_of(name);
    const MetaEntry* entry = file_.find(key);
    if (rule_ == nullptr && (entry == nullptr || entry->array)) return 0;
    const std::uint64_t value = file_.integer(key);
    if (value < 1 || value > INT32_MAX) fail(key, fmt::format("bad {} {}", what, value), "1 or more");
    return static_cast<std::int64_t>(value);
  }
  std::int64_t count_or(std::string_view name, std::string_view what, std::int64_t otherwise) const {
    return file_.find(key_of(name)) ? count(name, what) : otherwise;
  }
  void check_positive(std::string_view name, std::string_view what) const {
    const auto value = file_.maybe_real(key_of(name));
    if (value && !(std::isfinite(*value) && *value > 0)) fail(key_of(name), fmt::format("bad {} {}", what, *value), "above 0");
  }

  Extents check_sizes() {
    blocks_ = count("block_count", "block count");
    const std::int64_t context = count("context_length", "context length");
    const std::int64_t embedding = count("embedding_length", "embedding length");
    const std::int64_t heads = count("attention.head_count", "head count");
    const std::int64_t kv_heads = count_or("attention.head_count_kv", "kv head count", heads);
    const bool has_key_length = file_.find(key_of("attention.key_length")) != nullptr;
    if (heads > 0 && embedding > 0 && !has_key_length && embedding % heads != 0) {
      fail(key_of("attention.head_count"), fmt::format("bad head count {}", heads),
           fmt::format("a divisor of embedding_length {}", embedding));
    }
    if (heads > 0 && kv_heads > 0 && (kv_heads > heads || heads % kv_heads != 0)) {
      fail(key_of("attention.head_count_kv"), fmt::format("bad kv head count {}", kv_heads),
           fmt::format("a divisor of head_count {}", heads));
    }
    const std::int64_t head_size = count_or("attention.key_length", "key length", heads > 0 ? embedding / heads : 0);
    const std::int64_t value_size = count_or("attention.value_length", "value length", head_size);
    const std::int64_t rotated = count_or("rope.dimension_count", "rope dimension", head_size);
    if (head_size > 0 && (rotated % 2 != 0 || rotated > head_size)) {
      fail(key_of("rope.dimension_count"), fmt::format("bad rope dimension {}", rotated),
           fmt::format("an even number up to the head size {}", head_size));
    }
    check_positive("rope.freq_base", "rope base");
    check_positive("attention.layer_norm_rms_epsilon", "norm epsilon");
    check_positive("attention.layer_norm_epsilon", "norm epsilon");
    const std::int64_t ffn = count("feed_forward_length", "feed-forward length");
    const bool has_experts = (rule_ != nullptr && rule_->experts) || file_.maybe_integer(key_of("expert_count")).value_or(0) > 0;
    return {{'E', embedding},
            {'P', context},
            {'D', head_size},
            {'Q', heads * head_size},
            {'K', kv_heads * head_size},
            {'A', heads * value_size},
            {'W', kv_heads * value_size},
            {'J', heads * head_size + kv_heads * (head_size + value_size)},
            {'F', ffn},
            {'G', 2 * ffn},
            {'R', rotated / 2},
            {'X', has_experts ? count("expert_count", "expert count") : 0},
            {'M', count_or("expert_feed_forward_length", "expert feed-forward length", ffn)},
            {'S', count_or("expert_shared_feed_forward_length", "shared expert's feed-forward length", ffn)}};
  }

  // Tensors ------------------------------------------------------------------------------------------------------------------

  void check_tensors(Extents extents) const {
    const FileTensor* embedding = file_.tensor("token_embd.weight");
    if (embedding == nullptr) fail("tensor 'token_embd.weight'", "missing tensor");
    if (embedding->shape.size() != 2) fail("tensor 'token_embd.weight'", "tensor shape mismatch", "2 dimensions");
    extents['V'] = embedding->shape[1];
    if (static_cast<std::int64_t>(vocabulary_) > extents['V']) {
      fail("tokenizer.ggml.tokens", fmt::format("vocab larger than embedding: {} tokens, {} rows", vocabulary_, extents['V']));
    }
    std::unordered_set<std::string> expected;
    for (const auto& group : rule_->tensors) {
      for (const TensorRule& rule : group) {
        const bool per_block = rule.name.starts_with("blk.*");
        for (std::int64_t block = 0; block < (per_block ? blocks_ : 1); ++block) {
          const std::string name = per_block ? fmt::format("blk.{}{}", block, rule.name.substr(5)) : std::string(rule.name);
          check_tensor(rule, name, extents);
          expected.insert(name);
        }
      }
    }
    for (const FileTensor& tensor : file_.tensors()) {
      if (!expected.contains(std::string(tensor.name))) {
        fail(fmt::format("tensor '{}'", tensor.name),
             fmt::format("unexpected tensor: a {} model of {} blocks has none of this name", architecture_, blocks_));
      }
    }
  }

  void check_tensor(const TensorRule& rule, const std::string& name, const Extents& extents) const {
    const bool experts = extents.at('X') > 0;
    const FileTensor* tensor = file_.tensor(name);
    if (tensor == nullptr) {
      const Need other = experts ? Need::experts : Need::dense;
      if (rule.need == Need::always || rule.need == other) fail(fmt::format("tensor '{}'", name), "missing tensor");
      return;
    }
    std::vector<std::int64_t> shape;
    for (const char letter : rule.shape) shape.push_back(extents.at(letter));
    if (tensor->shape != shape) {
      fail(fmt::format("tensor '{}'", name), fmt::format("tensor shape mismatch: {}", fmt::join(tensor->shape, " x ")),
           fmt::format("{}", fmt::join(shape, " x ")), "");
    }
  }

  const ModelFile& file_;
  std::string name_;
  std::string_view architecture_;
  const ArchitectureRule* rule_ = nullptr;  ///< null: an architecture that we have no table of
  std::size_t vocabulary_ = 0;
  std::int64_t blocks_ = 0;
};

}  // namespace

void check_model(const ModelFile& file) {
  if (file.form() == FileForm::gguf) return ModelCheck(file).run();
  if (!file.folder().empty()) read_folder_model_spec(file);
}

}  // namespace patchbay

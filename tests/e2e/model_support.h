// Trained models for the tests of the engine: the tiny one that comes with patchbay always, SmolLM2 where it has been fetched.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "config.h"
#include "generation.h"
#include "patchbay/plugin.h"
#include "session.h"
#include "support.h"

namespace patchbay::test {

struct Pairing { std::string kv_store, attention; };
inline std::string name_of(const Pairing& pairing) { return pairing.kv_store + " + " + pairing.attention; }

struct TrainedModel {
  std::string path;
  std::vector<Pairing> pairings;  ///< all where the model is small, else two that hold each technique
};
inline TrainedModel tiny_shakespeare() {
  return {source_path("data/tiny-shakespeare/tiny-shakespeare-f16.gguf"),
          {{"contiguous", "naive"}, {"contiguous", "flash"}, {"paged", "naive"}, {"paged", "flash"}}};
}
inline TrainedModel smollm2() { return {smollm2_path(), {{"contiguous", "naive"}, {"paged", "flash"}}}; }
inline std::vector<TrainedModel> trained_models() {
  std::vector<TrainedModel> models = {tiny_shakespeare()};
  if (!smollm2_path().empty()) models.push_back(smollm2());
  return models;
}

/// In fp32 but for the cache. Loading takes longer than most tests: one session for each combination.
inline Session& session(const TrainedModel& model, const Pairing& pairing, const std::string& kv_format = "fp32") {
  static std::map<std::string, std::shared_ptr<const ModelFile>> files;
  static std::map<std::string, std::unique_ptr<Session>> sessions;
  auto& entry = sessions[model.path + name_of(pairing) + kv_format];
  if (!entry) {
    auto& file = files[model.path];
    if (!file) file = ModelFile::open(model.path);
    const Settings settings = parse_yaml("activations: fp32\nkv_store: {type: " + pairing.kv_store + ", format: " + kv_format +
                                         "}\nattention: " + pairing.attention, "test");
    entry = std::make_unique<Session>(file, read_run_config(settings), SessionOptions{512, 4});
  }
  return *entry;
}

inline std::vector<float> copied(View<const float, 1> row) { return {row.data, row.data + row.size()}; }

inline double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

inline std::vector<TokenRow> chain(SeqId seq, const std::vector<Token>& tokens, bool all_logits) {
  std::vector<TokenRow> rows;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back({seq, tokens[i], static_cast<std::int32_t>(i) - 1, all_logits || i + 1 == tokens.size()});
  }
  return rows;
}

inline void commit_all(ModelRunner& runner, SeqId seq, std::size_t rows) {
  std::vector<std::int32_t> path(rows);
  std::iota(path.begin(), path.end(), 0);
  runner.commit(seq, path);
}

inline std::vector<float> last_logits(ModelRunner& runner, const std::vector<Token>& tokens) {
  const SeqId seq = runner.open();
  std::vector<float> logits = copied(runner.forward(chain(seq, tokens, false)).logits[0]);
  runner.commit(seq, {});
  runner.close(seq);
  return logits;
}

inline GenerationRequest request(const Session& session, const std::vector<Token>& prompt, const std::string& decoder, std::int64_t tokens) {
  const RunConfig run = read_run_config(parse_yaml("decoder: " + decoder, "test"));
  GenerationRequest made;
  made.prompt = prompt;
  made.max_tokens = tokens;
  made.decoder = make<Decoder>(run.decoder);
  made.is_end = [&session](Token token) { return session.tokenizer().is_end_of_generation(token); };
  return made;
}

}  // namespace patchbay::test

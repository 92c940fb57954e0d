// Sample by sample, so that memory is that of one sample in one block. What a sample gives does not depend on
// how many there are: kernels compute a row the same in every batch.
#include "quantize/sample_runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/transformer.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

PluginSpec cache_in_fp32() {
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  Settings format;
  format.kind = Settings::Kind::scalar;
  format.text = "fp32";
  format.where = "calibration";
  settings->entries.emplace_back("format", format);
  return {RunConfig{}.kv_store.type, settings};
}

/// Takes what goes into the first block.
struct EmbeddingProbe : Probe {
  explicit EmbeddingProbe(SpilledRows& states) : states_(states) {}
  void saw(std::string_view name, int, TensorRef tensor) override {
    if (name != "embedding") return;
    const auto rows = tensor.as<const float, 2>();
    states_.write(done_, rows);
    done_ += rows.shape[0];
  }

 private:
  SpilledRows& states_;
  std::int64_t done_ = 0;
};

std::int64_t tokens_of(const std::vector<std::vector<Token>>& samples) {
  std::int64_t tokens = 0;
  for (const auto& sample : samples) tokens += std::ssize(sample);
  return tokens;
}

void require_finite(int layer, View<const float, 2> x) {
  if (std::all_of(x.data, x.data + x.size(), [](float value) { return std::isfinite(value); })) return;
  throw Error("blk." + std::to_string(layer), "with the calibration samples its output is not finite", {},
              "look for weights that are NaN or infinite (patchbay check), or leave the block as stored (weights.rules)");
}

}  // namespace

SampleRunner::SampleRunner(const ModelSpec& spec, const ModelWeights& weights, const std::vector<std::vector<Token>>& samples, Ops& ops)
    : spec_(spec), weights_(weights), samples_(samples), ops_(ops), tokens_(tokens_of(samples)), attention_(make<Attention>(RunConfig{}.attention)),
      store_(make<KvStore>(cache_in_fp32())), states_(tokens_, spec.hidden) {
  for (const auto& sample : samples) longest_ = std::max(longest_, std::ssize(sample));
  attention_->prepare(ops.device());
  store_->configure({1, spec.kv_heads, spec.head_size, longest_, 1}, ops.device());
  const StageParts none{0, 0, &ops, attention_.get(), store_.get()};
  embed({&none, 1});
}

/// By a model without blocks.
void SampleRunner::embed(std::span<const StageParts> none) {
  Transformer transformer(spec_, weights_, none, longest_, ActivationMode::fp32);
  EmbeddingProbe probe(states_);
  transformer.set_probe(&probe);
  for (const auto& sample : samples_) transformer.forward(plan_of(sample));
}

StepPlan SampleRunner::plan_of(const std::vector<Token>& sample) const {
  StepPlan plan;
  plan.tokens = sample;
  plan.positions.resize(sample.size());
  std::iota(plan.positions.begin(), plan.positions.end(), 0);
  plan.sequences.push_back({0, 0, std::ssize(sample), 0, {}});
  return plan;
}

void SampleRunner::run(int layer, BlockPart first, BlockPart last, bool keep) {
  const bool keeps_heads = keep && last == BlockPart::attention;
  if (keeps_heads && !heads_) heads_ = std::make_unique<SpilledRows>(tokens_, static_cast<std::int64_t>(spec_.heads) * spec_.head_size);
  const BlockWeights& block = weights_.blocks[static_cast<std::size_t>(layer)];
  Stage stage(spec_, weights_, {layer, 1, &ops_, attention_.get(), store_.get()}, longest_, ActivationMode::fp32);
  std::int64_t done = 0;
  for (const auto& sample : samples_) {
    if (progress_) progress_(static_cast<double>(done) / static_cast<double>(tokens_));
    const StepPlan plan = plan_of(sample);
    stage.begin(plan);
    const View<float, 2> x = stage.x().as<float, 2>();
    states_.read(done, x);
    if (first == BlockPart::attention) {
      stage.normalise(stage.x(), block.attention_norm, stage.norm());
      store_->open(0);
      store_->grow(0, std::ssize(sample));
      stage.run_attention(plan, layer);
      store_->close(0);
    } else if (first == BlockPart::output) {
      heads_->read(done, stage.attention().as<float, 2>());
    }
    if (first == BlockPart::feed_forward) stage.normalise(stage.x(), block.ffn_norm, stage.norm());
    else if (last >= BlockPart::output) stage.add_attention(layer);
    if (last == BlockPart::feed_forward) stage.add_feed_forward(layer);
    if (keep && last == BlockPart::feed_forward) require_finite(layer, x);
    if (keeps_heads) heads_->write(done, stage.attention().as<float, 2>());
    else if (keep) states_.write(done, x);
    done += std::ssize(sample);
  }
}

void SampleRunner::run_final_norm(const std::function<void(View<const float, 2> x)>& sees) {
  Stage stage(spec_, weights_, {0, 0, &ops_, attention_.get(), store_.get()}, longest_, ActivationMode::fp32);
  std::int64_t done = 0;
  for (const auto& sample : samples_) {
    const StepPlan plan = plan_of(sample);
    stage.begin(plan);
    states_.read(done, stage.x().as<float, 2>());
    stage.normalise(stage.x(), weights_.output_norm, stage.norm());
    sees(stage.norm().as<const float, 2>());
    done += std::ssize(sample);
  }
}

}  // namespace patchbay

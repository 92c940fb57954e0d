// Sample by sample, so that memory beyond the hidden states is that of one sample in one block. What a sample gives does not depend on
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
  float* out = nullptr;
  void saw(std::string_view name, int, TensorRef tensor) override {
    if (name != "embedding") return;
    const auto rows = tensor.as<const float, 2>();
    for (std::int64_t t = 0; t < rows.shape[0]; ++t) out = std::copy_n(&rows(t, 0), rows.shape[1], out);
  }
};

void copy_rows(View<const float, 2> from, View<float, 2> to) {
  for (std::int64_t t = 0; t < from.shape[0]; ++t) std::copy_n(&from(t, 0), from.shape[1], &to(t, 0));
}

}  // namespace

SampleRunner::SampleRunner(const ModelSpec& spec, const ModelWeights& weights, const std::vector<std::vector<Token>>& samples, Ops& ops)
    : spec_(spec), weights_(weights), samples_(samples), ops_(ops), attention_(make<Attention>(RunConfig{}.attention)),
      store_(make<KvStore>(cache_in_fp32())) {
  for (const auto& sample : samples) {
    tokens_ += std::ssize(sample);
    longest_ = std::max(longest_, std::ssize(sample));
  }
  attention_->prepare(ops.device());
  store_->configure({1, spec.kv_heads, spec.head_size, longest_, 1}, ops.device());
  states_.resize(static_cast<std::size_t>(tokens_ * spec.hidden));
  const StageParts none{0, 0, &ops, attention_.get(), store_.get()};
  embed({&none, 1});
}

/// By a model without blocks.
void SampleRunner::embed(std::span<const StageParts> none) {
  Transformer transformer(spec_, weights_, none, longest_, ActivationMode::fp32);
  EmbeddingProbe probe;
  probe.out = states_.data();
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
  const std::int64_t hidden = spec_.hidden, inner = static_cast<std::int64_t>(spec_.heads) * spec_.head_size;
  if (keep && last == BlockPart::attention) heads_.resize(static_cast<std::size_t>(tokens_ * inner));
  const BlockWeights& block = weights_.blocks[static_cast<std::size_t>(layer)];
  Stage stage(spec_, weights_, {layer, 1, &ops_, attention_.get(), store_.get()}, longest_, ActivationMode::fp32);
  std::int64_t done = 0;
  for (const auto& sample : samples_) {
    if (progress_) progress_(static_cast<double>(done) / static_cast<double>(tokens_));
    const std::int64_t rows = std::ssize(sample);
    const StepPlan plan = plan_of(sample);
    const View<float, 2> state(states_.data() + done * hidden, {rows, hidden});
    stage.begin(plan);
    copy_rows(state, stage.x().as<float, 2>());
    if (first == BlockPart::attention) {
      stage.normalise(stage.x(), block.attention_norm, stage.norm());
      store_->open(0);
      store_->grow(0, rows);
      stage.run_attention(plan, layer);
      store_->close(0);
    } else if (first == BlockPart::output) {
      copy_rows(View<const float, 2>(heads_.data() + done * inner, {rows, inner}), stage.attention().as<float, 2>());
    }
    if (first == BlockPart::feed_forward) stage.normalise(stage.x(), block.ffn_norm, stage.norm());
    else if (last >= BlockPart::output) stage.add_attention(layer);
    if (last == BlockPart::feed_forward) stage.add_feed_forward(layer);
    if (keep && last == BlockPart::attention) copy_rows(stage.attention().as<float, 2>(), View<float, 2>(heads_.data() + done * inner, {rows, inner}));
    if (keep && last != BlockPart::attention) copy_rows(stage.x().as<float, 2>(), state);
    done += rows;
  }
  if (keep && last == BlockPart::feed_forward) require_finite(layer);
}

void SampleRunner::require_finite(int layer) const {
  if (std::ranges::all_of(states_, [](float value) { return std::isfinite(value); })) return;
  throw Error("blk." + std::to_string(layer), "with the calibration samples its output is not finite", {},
              "look for weights that are NaN or infinite (patchbay check), or leave the block as stored (weights.rules)");
}

void SampleRunner::run_final_norm(const std::function<void(View<const float, 2> x)>& sees) {
  Stage stage(spec_, weights_, {0, 0, &ops_, attention_.get(), store_.get()}, longest_, ActivationMode::fp32);
  std::int64_t done = 0;
  for (const auto& sample : samples_) {
    const StepPlan plan = plan_of(sample);
    stage.begin(plan);
    const std::int64_t rows = std::ssize(sample);
    stage.normalise(View<float, 2>(states_.data() + done * spec_.hidden, {rows, spec_.hidden}), weights_.output_norm, stage.norm());
    sees(stage.norm().as<const float, 2>());
    done += rows;
  }
}

}  // namespace patchbay

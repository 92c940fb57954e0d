// Block after block, what is finished kept on the way. Memory: one block in floats, the statistics of its inputs, and one sample; the rest is on disk.
#include "quantize/block_walk.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model_spec.h"
#include "engine/weights.h"
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"
#include "quantize/block_quantizer.h"
#include "quantize/calibration_tokens.h"
#include "quantize/finite_weights.h"
#include "quantize/finished_blocks.h"
#include "quantize/outside_blocks.h"
#include "quantize/sample_runner.h"

namespace patchbay {
namespace {

constexpr int kOutside = -1;

std::vector<std::shared_ptr<Transform>> transforms_of(const RunConfig& config) {
  std::vector<std::shared_ptr<Transform>> transforms;
  for (const PluginSpec& spec : config.transforms) transforms.push_back(make<Transform>(spec));
  return transforms;
}

class BlockWalk {
 public:
  BlockWalk(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const QuantizeOptions& options)
      : file_(file), config_(as_stored(config)), options_(options), ops_(ops), placement_{&ops, &ops, 0}, spec_(read_model_spec(*file)),
        plan_(*file, spec_, config), calibration_(config.calibration),
        quantizer_(spec_, transforms_of(config), ops, [this](double of_block, const std::string& what) { tell(of_block, what); }),
        finished_(options.folder, options.folder.empty() ? "" : walk_identity(*file, config)) {
    check_weights(*file, plan_, config);
    require_finite_weights(file, plan_, ops.device());
    last_needing_ = last_layer_that_needs();
  }

  QuantizedModel run() {
    prepare();
    for (int layer = 0; layer < spec_.layers; ++layer) {
      layer_ = layer;
      tell(0, "");
      walk(layer);
    }
    finish();
    return std::move(result_);
  }

 private:
  static RunConfig as_stored(const RunConfig& config) {
    RunConfig plain;  // host, whole model
    plain.activations = ActivationMode::fp32;
    plain.threads = config.threads;
    return plain;
  }

  /// The last block whose inputs anybody asks about; the number of blocks for the head; -1: nobody asks.
  int last_layer_that_needs() const {
    int last = quantizer_.needs().any() ? spec_.layers - 1 : -1;
    spec_.for_each_tensor([&](const TensorPlace& place, int layer, int) {
      if (place.role == Role::position_embedding || !plan_.choice(tensor_label(place, layer)).needs().any()) return;
      if (layer >= 0) last = std::max(last, layer);
      else if (place.role == Role::head || spec_.tied_head) last = spec_.layers;
    });
    return last;
  }

  void tell(double of_block, const std::string& what) const {
    if (!options_.progress) return;
    const double blocks = spec_.layers + 1;
    options_.progress((layer_ + std::min(of_block, 1.0)) / blocks, what.empty() ? fmt::format("block {} of {}", layer_ + 1, spec_.layers)
                                                                 : fmt::format("block {} of {}: {}", layer_ + 1, spec_.layers, what));
  }
  void note(const std::string& line) const {
    if (options_.note) options_.note(line);
  }
  void warn(const std::string& line) {
    result_.warnings.push_back(line);
    note(line);
  }

  // --- before and after the blocks

  void prepare() {
    weights_ = load_outside(file_, spec_, config_, placement_, {});
    weights_.blocks.resize(static_cast<std::size_t>(spec_.layers));
    if (quantizer_.rotations().turns_residual()) outside_.turn(quantizer_.rotations(), result_);
    if (result_.untied_head) note("the head is no longer the embedding: once the residual stream is turned, their matrices differ");
    if (last_needing_ < 0) return;
    read_samples();
    samples_ = std::make_unique<SampleRunner>(spec_, weights_, tokens_.samples, ops_);
    quantizer_.set_samples(samples_.get());
  }

  void read_samples() {
    const auto progress = [this](double fraction) {
      if (options_.progress) options_.progress(0, fmt::format("the model writes its calibration text: {:.0f}%", 100 * fraction));
    };
    tokens_ = calibration_.from_model() ? sampled_tokens(calibration_, file_, spec_.context, config_.threads, progress)
                                        : calibration_tokens(calibration_, *make_tokenizer(*file_), spec_.context);
    result_.calibration = tokens_.summary;
    if (!tokens_.note.empty()) warn(tokens_.note);
    warn_of_few_tokens();
    fit_to_length(spec_, tokens_.longest());
  }

  /// A Hessian of fewer tokens than columns has no full rank: what is chosen by it follows these few.
  void warn_of_few_tokens() {
    std::int64_t matrices = 0, widest = 0;
    for (const WeightPlan::Matrix& matrix : plan_.matrices()) {
      if (!plan_.choice(matrix.label).needs().hessian || matrix.cols <= tokens_.summary.tokens) continue;
      ++matrices;
      widest = std::max(widest, matrix.cols);
    }
    if (matrices > 0)
      warn(fmt::format("calibration: {} {} more columns (up to {}) than there are tokens ({}): their Hessians have no full rank, and codes fitted to so few inputs may do worse on other text",
                       matrices, matrices == 1 ? "matrix has" : "matrices have", widest, tokens_.summary.tokens));
  }

  void finish() {
    if (options_.progress) options_.progress(static_cast<double>(spec_.layers) / (spec_.layers + 1), "embedding and head");
    auto done = finished_.load(kOutside, plan_);
    if (!done) {
      done = outside_.quantize(samples_.get());
      finished_.save(kOutside, plan_, *done);
    }
    done->matrices.merge(result_.matrices);  // what is quantised goes before what a rotation left in plain numbers
    result_.matrices = std::move(done->matrices);
  }

  // --- one block

  void walk(int layer) {
    const bool goes_on = samples_ && layer < last_needing_;
    auto done = finished_.load(layer, plan_);
    QuantizedModel vectors;
    if (done) vectors.vectors = done->vectors;
    BlockWeights& weights = weights_.blocks[static_cast<std::size_t>(layer)];
    if (!done || goes_on) weights = load_block(file_, spec_, config_, placement_, vectors, layer);
    if (!done) {
      EditableBlock block(weights, spec_, plan_, layer, quantizer_.edits(), ops_);
      done = quantizer_.quantized(block, layer, goes_on);
      finished_.save(layer, plan_, *done);
    } else if (goes_on) {
      EditableBlock block(weights, spec_, plan_, layer, false, ops_);
      quantizer_.pass_kept(block, *done, layer);
    }
    for (const std::string& warning : done->warnings) warn(warning);
    result_.matrices.merge(done->matrices);
    result_.vectors.merge(done->vectors);
    weights = {};
    file_->release_pages();
  }

  const std::shared_ptr<const ModelFile>& file_;
  const RunConfig config_;
  const QuantizeOptions& options_;
  Ops& ops_;
  const Placement placement_;
  ModelSpec spec_;
  const WeightPlan plan_;
  const CalibrationSettings calibration_;
  BlockQuantizer quantizer_;
  const FinishedBlocks finished_;
  int last_needing_ = -1;
  CalibrationTokens tokens_;
  ModelWeights weights_;                      ///< what stands outside, and the block in work
  OutsideBlocks outside_{weights_, spec_, plan_, ops_};
  std::unique_ptr<SampleRunner> samples_;     ///< null: nobody asks for statistics
  QuantizedModel result_;
  int layer_ = 0;                             ///< in work
};

}  // namespace

bool needs_walk(const RunConfig& config) { return !config.transforms.empty() || needs_calibration(config); }

void check_calibration(const ModelFile& file, const RunConfig& config) {
  if (!config.transforms.empty()) Rotations(transforms_of(config), read_model_spec(file));
  if (!needs_calibration(config) || config.calibration.from_model()) return;
  calibration_tokens(config.calibration, *make_tokenizer(file), read_model_spec(file).context);
}

QuantizedModel quantize_model(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, Ops& ops, const QuantizeOptions& options) {
  if (!needs_walk(config)) return {};
  return BlockWalk(file, config, ops, options).run();
}

}  // namespace patchbay

// The order of work in a block: the transforms one after the other, each with the statistics that those before it leave, and rotations in the
// place of the first of them;
// then the quantizers; then the block's outputs, quantised, are the next one's inputs. Memory: one block in floats, the statistics of its
// inputs, and the hidden states of the samples.
#include "quantize/block_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config.h"
#include "engine/weights.h"
#include "engine/model_spec.h"
#include "experiment/environment.h"
#include "experiment/records.h"
#include "experiment/sha256.h"
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"
#include "quantize/calibration_tokens.h"
#include "quantize/editable_block.h"
#include "quantize/finished_blocks.h"
#include "quantize/gathering.h"
#include "quantize/outside_blocks.h"
#include "quantize/quantize_matrix.h"
#include "quantize/rotations.h"
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
        plan_(*file, spec_, config), calibration_(config.calibration), transforms_(transforms_of(config)), rotations_(transforms_, spec_), edits_(!transforms_.empty()),
        identity_(identity_of(config)), finished_(options.folder, identity_) {
    check_weights(*file, plan_, config);
    for (const auto& transform : transforms_) transform_needs_ = transform_needs_ | transform->needs();
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

  /// Of all that the packed bytes depend on.
  std::string identity_of(const RunConfig& config) const {
    if (options_.folder.empty()) return {};
    const Environment here = environment();
    const auto weights = nlohmann::json::parse(to_json(effective_settings(config))).at("weights");
    return identity_hash({{"weights", weights}, {"model", sha256_of_files(file_->paths())}, {"build_id", here.build_id}, {"sources", here.sources},
                          {"calibration", needs_calibration(config) ? calibration_hash(config.calibration) : ""}});
  }

  /// The last block whose inputs anybody asks about; the number of blocks for the head; -1: nobody asks.
  int last_layer_that_needs() const {
    int last = transform_needs_.any() ? spec_.layers - 1 : -1;
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
    if (rotations_.turns_residual()) outside_.turn(rotations_, result_);
    if (result_.untied_head) note("the head is no longer the embedding: once the residual stream is turned, their matrices differ");
    if (last_needing_ < 0) return;
    read_samples();
    samples_ = std::make_unique<SampleRunner>(spec_, weights_, tokens_.samples, ops_);
    samples_->set_progress([this](double fraction) { tell(of_block_ + kPassShare * fraction, doing_); });
  }

  void read_samples() {
    const auto progress = [this](double fraction) {
      if (options_.progress) options_.progress(0, fmt::format("the model writes its calibration text: {:.0f}%", 100 * fraction));
    };
    tokens_ = calibration_.from_model() ? sampled_tokens(calibration_, file_, spec_.context, config_.threads, progress)
                                        : calibration_tokens(calibration_, *make_tokenizer(*file_), spec_.context);
    result_.calibration = tokens_.summary;
    if (!tokens_.note.empty()) warn(tokens_.note);
    fit_to_length(spec_, tokens_.longest());
  }

  void finish() {
    if (options_.progress) options_.progress(static_cast<double>(spec_.layers) / (spec_.layers + 1), "embedding and head");
    auto done = finished_.load(kOutside, plan_);
    if (!done) {
      done = outside_.quantize(samples_.get());
      finished_.save(kOutside, *done);
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
      EditableBlock block(weights, spec_, plan_, layer, edits_, ops_);
      done = quantized(block, layer);
      finished_.save(layer, *done);
    } else if (goes_on) {
      EditableBlock block(weights, spec_, plan_, layer, false, ops_);
      for (LayerInput& input : block.inputs())
        for (BlockMatrix* matrix : input.readers)
          if (const QuantizedMatrix* kept = done->find(matrix->name())) block.use(*matrix, *kept);
      doing_ = "kept from before";
      samples_->run(layer, BlockPart::attention, BlockPart::feed_forward, true);
    }
    for (const std::string& warning : done->warnings) warn(warning);
    result_.matrices.merge(done->matrices);
    result_.vectors.merge(done->vectors);
    weights = {};
    file_->release_pages();
  }

  QuantizedModel quantized(EditableBlock& block, int layer) {
    QuantizedModel done;
    of_block_ = 0;
    for (std::size_t i = 0; i < transforms_.size(); ++i) {
      if (i == rotations_.transforms_before()) rotations_.turn(block, spec_, ops_.device());
      apply(*transforms_[i], block, layer);
    }
    block.keep_changed(done);
    Needs needs;
    for (const LayerInput& input : block.inputs()) needs = needs | input.needs();
    const bool goes_on = samples_ && layer < last_needing_;
    if (needs.any() && needs.sequential) {
      quantize_in_sequence(block, layer, goes_on, done);
    } else {
      if (needs.any()) gather_inputs(block, {layer});
      for (LayerInput& input : block.inputs()) quantize(block, input, done);
      pass("quantised", layer, BlockPart::attention, BlockPart::feed_forward, goes_on);
    }
    return done;
  }

  void apply(const Transform& transform, EditableBlock& block, int layer) {
    if (transform.needs().any()) gather_inputs(block, {layer, BlockPart::attention, BlockPart::feed_forward, {}, transform.needs()});
    for (BlockGroup& part : block.groups()) {
      try {
        if (const std::string line = transform.apply(part.group, ops_.device()); !line.empty()) block.note(part.group, line);
      } catch (const Error& error) {
        throw error.at(part.group.name);
      }
    }
    for (LayerInput& input : block.inputs()) input.statistics = {}, input.gathered = nullptr;
  }

  /// Each stage of the block sees those before it quantised. What attention makes is kept between two stages, so that it runs once.
  void quantize_in_sequence(EditableBlock& block, int layer, bool goes_on, QuantizedModel& done) {
    const auto stage = [&](BlockStage which, BlockPart part) {
      gather_inputs(block, {layer, part, part, which, {}});
      for (LayerInput& input : block.inputs())
        if (input.stage == which) quantize(block, input, done);
    };
    stage(BlockStage::attention_in, BlockPart::attention);
    pass("attention", layer, BlockPart::attention, BlockPart::attention, true);
    stage(BlockStage::attention_out, BlockPart::output);
    pass("attention's output", layer, BlockPart::output, BlockPart::output, true);
    stage(BlockStage::ffn_in, BlockPart::feed_forward);
    stage(BlockStage::ffn_out, BlockPart::feed_forward);
    pass("feed-forward part", layer, BlockPart::feed_forward, BlockPart::feed_forward, goes_on);
  }

  void pass(const char* what, int layer, BlockPart first, BlockPart last, bool keep) {
    if (!keep || !samples_) return;
    doing_ = what;
    samples_->run(layer, first, last, true);
    of_block_ += kPassShare;
  }

  void gather_inputs(EditableBlock& block, const Gathering& wanted) {
    doing_ = "inputs";
    gather(block, *samples_, wanted, ops_);
    of_block_ += kPassShare;
  }

  void quantize(EditableBlock& block, LayerInput& input, QuantizedModel& done) {
    for (BlockMatrix* matrix : input.readers) {
      if (!matrix->choice->format) continue;
      if (input.gathered && input.statistics.tokens == 0)
        done.warnings.push_back(matrix->name() + ": no calibration token came by; it is quantised as if all its inputs were alike");
      tell(of_block_, matrix->name());
      QuantizedMatrix quantized = quantize_one(*matrix, input.statistics);
      if (!matrix->note.empty()) quantized.note = matrix->note + (quantized.note.empty() ? "" : "; ") + quantized.note;
      block.use(*matrix, quantized);
      done.matrices[matrix->name()] = std::move(quantized);
    }
    input.gathered = nullptr;
    input.statistics = {};
  }

  QuantizedMatrix quantize_one(const BlockMatrix& matrix, const Statistics& statistics) {
    std::vector<float> room;
    if (matrix.values.empty()) room = decoded(*matrix.linear, ops_.device());
    const std::vector<float>& values = matrix.values.empty() ? room : matrix.values;
    return quantize_matrix(matrix.name(), View<const float, 2>(values.data(), {matrix.stored.rows, matrix.stored.cols}), statistics,
                           *matrix.choice->quantizer, matrix.choice->format, ops_.device());
  }

  static constexpr double kPassShare = 1.0 / 8;  // of a block's time, for the progress bar

  const std::shared_ptr<const ModelFile>& file_;
  const RunConfig config_;
  const QuantizeOptions& options_;
  Ops& ops_;
  const Placement placement_;
  ModelSpec spec_;
  const WeightPlan plan_;
  const CalibrationSettings calibration_;
  const std::vector<std::shared_ptr<Transform>> transforms_;
  const Rotations rotations_;
  const bool edits_;
  const std::string identity_;
  const FinishedBlocks finished_;
  Needs transform_needs_;
  int last_needing_ = -1;
  CalibrationTokens tokens_;
  ModelWeights weights_;                      ///< what stands outside, and the block in work
  OutsideBlocks outside_{weights_, spec_, plan_, ops_};
  std::unique_ptr<SampleRunner> samples_;     ///< null: nobody asks for statistics
  QuantizedModel result_;
  int layer_ = 0;                             ///< in work
  double of_block_ = 0;                       ///< which share of it is done
  std::string doing_;
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

// (S1) error: of a matrix W(R,C) with inputs x, sum_c m_c sum_r (w - w')^2 / sum_c m_c sum_r w^2, m the mean squares of x's columns: the relative squared error of its
// outputs, inputs taken for uncorrelated. (S2) kl: the mean divergence of the next token's distribution from the model's, with the unit alone in that format. Both with
// w' rounded to the nearest on searched scales, whichever quantizer will write the codes: so no candidate waits for a quantizer of hours.
#include "quantize/sensitivity_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/transformer.h"
#include "experiment/records.h"
#include "files.h"
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"
#include "quantize/bit_allocation.h"
#include "quantize/calibration_tokens.h"
#include "quantize/editable_block.h"
#include "quantize/finished_blocks.h"
#include "quantize/finite_weights.h"
#include "quantize/gathering.h"
#include "quantize/quantize_matrix.h"
#include "quantize/sample_runner.h"

namespace patchbay {
namespace {

/// Matrices in the blocks whose format no rule names.
std::vector<WeightPlan::Matrix> chosen_for(const WeightPlan& plan) {
  std::vector<WeightPlan::Matrix> matrices;
  for (const WeightPlan::Matrix& matrix : plan.matrices())
    if (plan.choice(matrix.label).format && !plan.choice(matrix.label).by_rule && matrix.label.starts_with("blk.")) matrices.push_back(matrix);
  return matrices;
}

double weights_of(const std::vector<WeightPlan::Matrix>& matrices) {
  double weights = 0;
  for (const WeightPlan::Matrix& matrix : matrices) weights += static_cast<double>(matrix.rows * matrix.cols);
  return weights;
}

std::string layer_of(const std::string& label) { return label.substr(0, label.find('.', 4)); }  // "blk.12"

using Formats = std::vector<std::shared_ptr<WeightFormat>>;
Formats formats_of(const RunConfig& config) {
  Formats formats;
  for (const PluginSpec& spec : config.sensitivity.candidates) formats.push_back(make<WeightFormat>(spec));
  return formats;
}

/// What gets one format together, with its bits in each; no losses yet.
std::vector<SensitiveUnit> units_of(const std::vector<WeightPlan::Matrix>& matrices, const SensitivitySettings& sensitivity, const Formats& formats) {
  std::vector<SensitiveUnit> units;
  for (const WeightPlan::Matrix& matrix : matrices) {
    const std::string name = sensitivity.per == "layer" ? layer_of(matrix.label) : matrix.label;
    auto unit = std::ranges::find(units, name, &SensitiveUnit::name);
    if (unit == units.end()) {
      units.push_back({name, {}, std::vector<double>(formats.size()), std::vector<double>(formats.size())});
      unit = units.end() - 1;
    }
    unit->labels.push_back(matrix.label);
    for (std::size_t c = 0; c < formats.size(); ++c)
      unit->bits[c] += formats[c]->bits_per_weight(matrix.rows, matrix.cols) * static_cast<double>(matrix.rows * matrix.cols);
  }
  return units;
}

/// The divergence from what the model as stored computes behind its last block.
class Divergence {
 public:
  Divergence(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, std::int64_t tokens)
      : spec_(spec), tokens_(tokens), attention_(make<Attention>(RunConfig{}.attention)), store_(make<KvStore>(RunConfig{}.kv_store)),
        parts_{0, 0, &ops, attention_.get(), store_.get()}, transformer_(spec, weights, {&parts_, 1}, kRows, ActivationMode::fp32),
        reference_(tokens, spec.hidden) {}
  void set_reference(SampleRunner& samples) {
    std::int64_t done = 0;
    samples.run_final_norm([&](View<const float, 2> x) {
      reference_.write(done, x);
      done += x.shape[0];
    });
  }
  double of(SampleRunner& samples) {
    const std::int64_t vocabulary = spec_.vocabulary;
    std::vector<float> before(static_cast<std::size_t>(kRows * spec_.hidden)), p(static_cast<std::size_t>(kRows * vocabulary)), q(p.size());
    double sum = 0;
    std::int64_t done = 0;
    samples.run_final_norm([&](View<const float, 2> x) {
      for (std::int64_t first = 0; first < x.shape[0]; first += kRows) {
        const View<const float, 2> hidden = x.rows(first, std::min(first + kRows, x.shape[0]));
        const std::int64_t rows = hidden.shape[0];
        const View<float, 2> reference(before.data(), {rows, spec_.hidden}), of_reference(p.data(), {rows, vocabulary}), of_other(q.data(), {rows, vocabulary});
        reference_.read(done, reference);
        transformer_.head(reference, of_reference);
        transformer_.head(hidden, of_other);
        for (std::int64_t r = 0; r < rows; ++r) sum += divergence(of_reference[r], of_other[r]);
        done += rows;
      }
    });
    return sum / static_cast<double>(tokens_);
  }

 private:
  static constexpr std::int64_t kRows = 32;  // of logits at once

  static double log_sum(View<const float, 1> logits) {
    const float largest = *std::max_element(logits.data, logits.data + logits.size());
    double sum = 0;
    for (std::int64_t i = 0; i < logits.size(); ++i) sum += std::exp(double{logits[i]} - largest);
    return largest + std::log(sum);
  }
  static double divergence(View<const float, 1> p, View<const float, 1> q) {
    const double of_p = log_sum(p), of_q = log_sum(q);
    double sum = 0;
    for (std::int64_t i = 0; i < p.size(); ++i) sum += std::exp(p[i] - of_p) * ((p[i] - of_p) - (q[i] - of_q));
    return sum;
  }

  const ModelSpec& spec_;
  const std::int64_t tokens_;
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<KvStore> store_;
  StageParts parts_;
  Transformer transformer_;
  SpilledRows reference_;  ///< (tokens, E)
};

class Scan {
 public:
  Scan(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, const QuantizeOptions& options)
      : file_(file), config_(config), options_(options), backend_(make<Backend>({"cpu", nullptr})), ops_(backend_->ops()), spec_(read_model_spec(*file)),
        plan_(*file, spec_, config), formats_(formats_of(config)), units_(units_of(chosen_for(plan_), config.sensitivity, formats_)) {
    for (std::size_t u = 0; u < units_.size(); ++u)
      for (const std::string& label : units_[u].labels) unit_of_[label] = u;
  }

  std::vector<SensitiveUnit> run(CalibrationSummary& calibration) {
    require_finite_weights(file_, plan_, ops_.device());
    weights_ = load_weights(file_, spec_, plain_, {&ops_, &ops_, 0}, {});
    read_samples();
    calibration = tokens_.summary;
    SampleRunner samples(spec_, weights_, tokens_.samples, ops_);
    if (by_kl()) take_reference(samples);
    for (int layer = 0; layer < spec_.layers; ++layer) {
      tell(layer);
      EditableBlock block(weights_.blocks[static_cast<std::size_t>(layer)], spec_, plan_, layer, false, ops_);
      by_kl() ? measure_divergences(block, layer, samples) : measure_errors(block, layer, samples);
      samples.run(layer, BlockPart::attention, BlockPart::feed_forward, true);
    }
    for (SensitiveUnit& unit : units_)
      for (const auto& label : unit.labels)
        if (!by_kl()) add_errors(label, unit);
    return units_;
  }
  const std::vector<SensitiveUnit>& units() const { return units_; }

 private:
  struct Errors { std::vector<double> errors; double size = 0; };  ///< of the parts of a stored matrix

  bool by_kl() const { return config_.sensitivity.measure == "kl"; }

  void read_samples() {
    const CalibrationSettings& settings = config_.calibration;
    tokens_ = settings.from_model() ? sampled_tokens(settings, file_, spec_.context, config_.threads, nullptr)
                                    : calibration_tokens(settings, *make_tokenizer(*file_), spec_.context);
    std::int64_t count = 0;
    for (std::size_t i = 0; by_kl() && i < tokens_.samples.size(); ++i) {
      count += std::ssize(tokens_.samples[i]);
      if (count >= config_.sensitivity.tokens) tokens_.samples.resize(i + 1);
    }
    tokens_.summary.samples = std::ssize(tokens_.samples);
    tokens_.summary.tokens = 0;
    for (const auto& sample : tokens_.samples) tokens_.summary.tokens += std::ssize(sample);
    fit_to_length(spec_, tokens_.longest());
  }

  void tell(int layer) const {
    if (options_.progress) options_.progress(static_cast<double>(layer) / spec_.layers, fmt::format("sensitivity of block {} of {}", layer + 1, spec_.layers));
  }

  QuantizedMatrix rounded(const BlockMatrix& matrix, std::size_t candidate, const Statistics& statistics, std::vector<float>& values) const {
    values = decoded(*matrix.linear, ops_.device());
    QuantizedMatrix result;
    result.format = formats_[candidate];
    result.packed = result.format->allocate(matrix.name(), matrix.stored.rows, matrix.stored.cols, ops_.device());
    round_to_nearest({values.data(), {matrix.stored.rows, matrix.stored.cols}}, {statistics.second_moment, true}, *result.format, ops_.device(), result.packed);
    return result;
  }

  void measure_errors(EditableBlock& block, int layer, SampleRunner& samples) {  // (S1)
    gather(block, samples, {layer, BlockPart::attention, BlockPart::feed_forward, {}, {.moments = true}}, ops_);
    for (LayerInput& input : block.inputs())
      for (BlockMatrix* matrix : input.readers) {
        Errors& sums = errors_[label_of(matrix->name())];
        sums.errors.resize(formats_.size());
        std::vector<float> values;
        for (std::size_t c = 0; c < formats_.size(); ++c) {
          if (!unit_of(*matrix)) break;
          Linear other;
          QuantizedMatrix quantized = rounded(*matrix, c, input.statistics, values);
          other.packed = quantized.packed;
          other.format = quantized.format;
          const std::vector<float> nearest = decoded(other, ops_.device());
          const auto cols = static_cast<std::size_t>(matrix->stored.cols);
          double size = 0;
          for (std::size_t i = 0; i < values.size(); ++i) {
            const double weight = input.statistics.tokens > 0 ? input.statistics.second_moment[static_cast<std::int64_t>(i % cols)] : 1.0, less = double{values[i]} - nearest[i];
            sums.errors[c] += weight * less * less;
            size += weight * values[i] * double{values[i]};
          }
          if (c == 0) sums.size += size;
        }
      }
  }

  void add_errors(const std::string& label, SensitiveUnit& unit) const {
    const Errors& sums = errors_.at(label);
    for (std::size_t c = 0; c < formats_.size(); ++c) unit.losses[c] += sums.size > 0 ? sums.errors[c] / sums.size : 0;
  }

  void take_reference(SampleRunner& samples) {
    SpilledRows before(tokens_.summary.tokens, spec_.hidden);
    before.copy(samples.states());
    for (int layer = 0; layer < spec_.layers; ++layer) samples.run(layer, BlockPart::attention, BlockPart::feed_forward, true);
    divergence_ = std::make_unique<Divergence>(spec_, weights_, ops_, tokens_.summary.tokens);
    divergence_->set_reference(samples);
    samples.restore(before);
  }

  SensitiveUnit* unit_of(const BlockMatrix& matrix) {
    const auto found = unit_of_.find(label_of(matrix.name()));
    return found == unit_of_.end() ? nullptr : &units_[found->second];
  }

  void measure_divergences(EditableBlock& block, int layer, SampleRunner& samples) {  // (S2)
    std::map<SensitiveUnit*, std::vector<BlockMatrix*>> by_unit;
    for (LayerInput& input : block.inputs())
      for (BlockMatrix* matrix : input.readers)
        if (SensitiveUnit* unit = unit_of(*matrix)) by_unit[unit].push_back(matrix);
    SpilledRows before(tokens_.summary.tokens, spec_.hidden);
    before.copy(samples.states());
    for (auto& [unit, matrices] : by_unit) {
      for (std::size_t c = 0; c < formats_.size(); ++c) {
        std::vector<std::unique_ptr<LinearKernel>> kernels;
        std::vector<QuantizedMatrix> rounded_ones;  // their bytes must outlive the run
        std::vector<float> values;
        for (BlockMatrix* matrix : matrices) rounded_ones.push_back(rounded(*matrix, c, {}, values));
        for (std::size_t i = 0; i < matrices.size(); ++i) {
          kernels.push_back(std::move(matrices[i]->linear->kernel));
          matrices[i]->linear->kernel = decode_then_multiply(*rounded_ones[i].format, rounded_ones[i].packed, ops_);
        }
        for (int later = layer; later < spec_.layers; ++later) samples.run(later, BlockPart::attention, BlockPart::feed_forward, true);
        unit->losses[c] = divergence_->of(samples);
        for (std::size_t i = 0; i < matrices.size(); ++i) matrices[i]->linear->kernel = std::move(kernels[i]);
        samples.restore(before);
        tell(layer);
      }
    }
  }

  const std::shared_ptr<const ModelFile>& file_;
  const RunConfig& config_;
  const QuantizeOptions& options_;
  const std::shared_ptr<Backend> backend_;
  Ops& ops_;
  ModelSpec spec_;
  const WeightPlan plan_;
  const Formats formats_;
  std::vector<SensitiveUnit> units_;
  std::map<std::string, std::size_t> unit_of_;  ///< by label
  const RunConfig plain_ = [] { RunConfig plain; plain.activations = ActivationMode::fp32; return plain; }();
  ModelWeights weights_;
  CalibrationTokens tokens_;
  std::map<std::string, Errors> errors_;
  std::unique_ptr<Divergence> divergence_;
};

/// Before any scan: the sizes of candidates are known.
void check_budget(const std::vector<WeightPlan::Matrix>& matrices, const SensitivitySettings& sensitivity, const Formats& formats) {
  double smallest = 0;
  for (const SensitiveUnit& unit : units_of(matrices, sensitivity, formats)) smallest += *std::ranges::min_element(unit.bits);
  smallest /= weights_of(matrices);
  if (smallest <= sensitivity.budget) return;
  throw Error("weights.bits_by_sensitivity.budget", fmt::format("the smallest candidates take {:.3f} bits per weight, scales included, and {} are allowed", smallest, sensitivity.budget),
              fmt::format("{:.3f} or more", std::ceil(1000 * smallest) / 1000), "raise the budget, or add a smaller candidate");
}

std::string matrices_counted(std::size_t count) { return fmt::format("{} {}", count, count == 1 ? "matrix" : "matrices"); }

/// Losses that an earlier scan of the same model, settings and texts left; or those of a scan.
std::vector<SensitiveUnit> scanned(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, const QuantizeOptions& options, CalibrationSummary& calibration) {
  Scan scan(file, config, options);
  const std::string path = options.folder.empty() ? "" : options.folder + "/sensitivity-" + walk_identity(*file, config) + ".json";
  if (!path.empty() && std::filesystem::exists(path)) {
    const Json kept = Json::parse(read_whole_file(path), nullptr, false);
    if (kept.is_object() && kept.value("losses", Json::array()).size() == scan.units().size()) {
      auto units = scan.units();
      for (std::size_t u = 0; u < units.size(); ++u) kept["losses"][u].get_to(units[u].losses);
      calibration = {kept["source"], kept["sha256"], kept["samples"], kept["tokens"]};
      return units;
    }
  }
  auto units = scan.run(calibration);
  if (path.empty()) return units;
  Json losses = Json::array();
  for (const SensitiveUnit& unit : units) losses.push_back(unit.losses);
  std::filesystem::create_directories(options.folder);
  write_file_atomically(path, Json{{"source", calibration.source}, {"sha256", calibration.sha256}, {"samples", calibration.samples}, {"tokens", calibration.tokens}, {"losses", losses}}.dump());
  return units;
}

}  // namespace

void check_candidates(const ModelFile& file, const RunConfig& config) {
  if (!config.sensitivity.on()) return;
  const WeightPlan plan(file, read_model_spec(file), config);
  const auto matrices = chosen_for(plan);
  if (matrices.empty()) throw Error("weights.bits_by_sensitivity", "rules name a format for every matrix: none is left to choose for");
  for (const auto& format : formats_of(config)) {
    if (format->for_tensor({.name = "blk.0.ffn_up", .layer = 0, .layers = 1, .cols = 256}))
      throw Error("weights.bits_by_sensitivity.candidates", format->label() + " is a mix of formats", "formats of one kind");
    for (const WeightPlan::Matrix& matrix : matrices) {
      try {
        format->layout(matrix.rows, matrix.cols);
      } catch (const Error& error) {
        throw error.at("tensor " + matrix.label + " in candidate " + format->label());
      }
    }
  }
  check_budget(matrices, config.sensitivity, formats_of(config));
}

std::set<std::string> left_to_scan(const WeightPlan& plan, const RunConfig& config) {
  std::set<std::string> labels;
  if (!config.sensitivity.on()) return labels;
  for (const WeightPlan::Matrix& matrix : chosen_for(plan)) labels.insert(matrix.label);
  return labels;
}

std::string candidate_labels(const RunConfig& config) {
  std::string all;
  for (const auto& format : formats_of(config)) all += (all.empty() ? "" : " or ") + format->label();
  return all;
}

std::string scan_note(const RunConfig& config) {
  if (!config.sensitivity.on()) return {};
  return fmt::format("bits_by_sensitivity: a scan that comes first decides which of {} each matrix gets; its bits here are the budget's, {} on average", candidate_labels(config),
                     config.sensitivity.budget);
}

ResolvedRun with_bits_by_sensitivity(const std::shared_ptr<const ModelFile>& file, const RunConfig& config, const QuantizeOptions& options) {
  ResolvedRun run{config, {}, {}};
  if (!config.sensitivity.on()) return run;
  check_candidates(*file, config);
  const auto units = scanned(file, config, options, run.calibration);
  const auto formats = formats_of(config);
  const double weights = weights_of(chosen_for(WeightPlan(*file, read_model_spec(*file), config)));
  double bits = 0;
  const auto chosen = allocate_bits(units, config.sensitivity.budget * weights);
  std::map<std::string, std::size_t> counts;
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::string line = "bits by sensitivity (" + config.sensitivity.measure + "):";
    for (std::size_t c = 0; c < formats.size(); ++c)
      line += fmt::format("{} {:.3g} at {}{}", c ? "," : "", units[u].losses[c], formats[c]->label(), c == chosen[u] ? " (taken)" : "");
    for (const std::string& label : units[u].labels) {
      run.config.rules.push_back({label.substr(0, label.rfind(".weight")), config.weights.quantizer, config.sensitivity.candidates[chosen[u]]});
      run.notes.emplace_back(label, line);
    }
    counts[formats[chosen[u]]->label()] += units[u].labels.size();
    bits += units[u].bits[chosen[u]];
  }
  run.config.sensitivity = {};
  std::string line = fmt::format("bits by sensitivity: {:.3f} bits per weight of {} allowed", bits / weights, config.sensitivity.budget);
  for (const auto& [label, count] : counts)
    line += label == counts.begin()->first ? fmt::format(": {} in {}", matrices_counted(count), label) : fmt::format(", {} in {}", count, label);
  if (options.note) options.note(line);
  return run;
}

}  // namespace patchbay

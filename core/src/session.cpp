#include "session.h"

#include <algorithm>
#include <set>

#include "engine/cost_model.h"
#include "engine/kernel_trial.h"
#include "engine/runner.h"
#include "generation.h"
#include "patchbay/decoder.h"
#include "patchbay/kv_prefix.h"
#include "patchbay/kv_retention.h"
#include "patchbay/plugin.h"
#include "quantize/sensitivity_scan.h"

namespace patchbay {
namespace {

constexpr std::int64_t kDefaultMaxTokens = 4096;

QuantizationReport report_of(const QuantizedModel& quantized) {
  QuantizationReport report{quantized.calibration, {}, quantized.warnings};
  for (const auto& [name, matrix] : quantized.matrices)
    if (!matrix.note.empty()) report.notes.emplace_back(name, matrix.note);
  return report;
}

std::int64_t room(const ModelFile& file, const ModelSpec& spec, const SessionOptions& options) {
  if (options.max_tokens > spec.context) {
    throw Error(file.path(), std::to_string(options.max_tokens) + " tokens do not fit into the model's context",
                "at most " + std::to_string(spec.context));
  }
  return options.max_tokens > 0 ? options.max_tokens : std::min(spec.context, kDefaultMaxTokens);
}

}  // namespace

struct Session::Impl {
  Impl(std::shared_ptr<const ModelFile> model, const RunConfig& run, const SessionOptions& options)
      : file(std::move(model)), resolved(with_bits_by_sensitivity(file, run, options.quantize)), config(resolved.config), spec(read_model_spec(*file)), max_tokens(room(*file, spec, options)),
        tokenizer(make_tokenizer(*file)), stages(spec, config), retention(make<KvRetention>(config.kv_retention)),
        prefix(make<KvPrefix>(config.kv_prefix)), weights(loaded(options.quantize)),
        transformer(spec, weights, stages.parts(), max_tokens, config.activations),
        runner(spec, transformer, stages.store(), options.max_sequences, max_tokens) {
    fit_to_length(spec, max_tokens);
    stages.configure(spec, max_tokens, options.max_sequences);
  }

  ModelWeights loaded(const QuantizeOptions& options) {
    const QuantizedModel quantized = quantize_model(file, config, stages.host().ops(), options);
    quantization = report_of(quantized);
    quantization.notes.insert(quantization.notes.begin(), resolved.notes.begin(), resolved.notes.end());
    if (quantization.calibration.samples == 0) quantization.calibration = resolved.calibration;
    return load_weights(file, spec, config, stages.placement(), quantized);
  }

  std::shared_ptr<const ModelFile> file;
  ResolvedRun resolved;
  RunConfig config;
  ModelSpec spec;
  std::int64_t max_tokens;
  std::unique_ptr<Tokenizer> tokenizer;
  StageSet stages;
  std::shared_ptr<KvRetention> retention;
  std::shared_ptr<KvPrefix> prefix;
  QuantizationReport quantization;
  ModelWeights weights;
  Transformer transformer;
  EngineRunner runner;
};

Session::Session(std::shared_ptr<const ModelFile> file, const RunConfig& config, const SessionOptions& options)
    : impl_(std::make_unique<Impl>(std::move(file), config, options)) {}
Session::~Session() = default;

ModelRunner& Session::runner() { return impl_->runner; }
const Tokenizer& Session::tokenizer() const { return *impl_->tokenizer; }
const RunConfig& Session::config() const { return impl_->config; }
Device& Session::device() { return impl_->stages.backend().device(); }
Device& Session::host() { return impl_->stages.host().device(); }
KvRetention& Session::retention() { return *impl_->retention; }
KvPrefix& Session::prefix() { return *impl_->prefix; }
const KvStore& Session::kv_store() const { return impl_->stages.store(); }
WeightSizes Session::sizes() const { return impl_->weights.sizes; }
const std::vector<TensorPath>& Session::tensor_paths() const { return impl_->weights.paths; }
const QuantizationReport& Session::quantization() const { return impl_->quantization; }
std::vector<WeightView> Session::weights() const { return weight_views(impl_->weights, impl_->spec); }
ModelCost Session::cost() const { return model_cost(*impl_->file, impl_->config, impl_->weights.paths); }
int Session::hidden_size() const { return impl_->spec.hidden; }
void Session::head(View<const float, 2> hidden, View<float, 2> logits) { impl_->transformer.head(hidden, logits); }

std::map<std::string, std::string> Session::paths() const {
  std::map<std::string, int> counts;
  for (const TensorPath& tensor : impl_->weights.paths) ++counts[tensor.path];
  std::string weights;
  for (const auto& [path, count] : counts) weights += (weights.empty() ? "" : ", ") + path + " x " + std::to_string(count);
  std::map<std::string, std::string> all = {{"attention", impl_->stages.attention_path()},
                                            {"operations", impl_->stages.operations_path()},
                                            {"weights", weights},
                                            {"kv_cache", impl_->transformer.kv_path()},
                                            {"activations", impl_->stages.activations(impl_->config.activations)}};
  if (!impl_->stages.backend().device().is_host()) {
    all["graphs"] = "steps that decode are recorded once per shape and replayed";
    const bool draws = impl_->transformer.draws() && draw_on_device(*make_decoder(), make_processors());
    all["choice_of_tokens"] = draws ? "on the device" : "on the host, from logits brought there";
  }
  return all;
}

std::shared_ptr<Decoder> Session::make_decoder() const { return make<Decoder>(impl_->config.decoder); }

std::vector<std::shared_ptr<LogitsProcessor>> Session::make_processors() const {
  std::vector<std::shared_ptr<LogitsProcessor>> processors;
  for (const PluginSpec& spec : impl_->config.processors) processors.push_back(make<LogitsProcessor>(spec));
  return processors;
}

std::map<std::string, TensorPath> planned_weights(const ModelFile& file, const RunConfig& config) {
  const WeightPlan plan(file, read_model_spec(file), config);
  const std::set<std::string> open = left_to_scan(plan, config);
  const std::string candidates = candidate_labels(config);
  std::map<std::string, TensorPath> weights;
  for (const WeightPlan::Matrix& matrix : plan.matrices()) {
    const WeightPlan::Choice& choice = plan.choice(matrix.label);
    const auto format = choice.format ? choice.format : stored_format(file, *matrix.tensor);
    TensorPath& weight = weights[std::string(matrix.tensor->name)];
    weight = {matrix.label, format->label(), "", format->bits_per_weight(matrix.rows, matrix.cols), choice.instead_of};
    if (open.contains(matrix.label)) weight = {matrix.label, candidates, "", config.sensitivity.budget};
  }
  return weights;
}

std::string check_run(const ModelFile& file, const RunConfig& config, const SessionOptions& options) {
  const ModelSpec spec = read_model_spec(file);
  room(file, spec, options);  // refuses what is longer than the context
  const WeightPlan plan(file, spec, config);
  check_weights(file, plan, config);
  check_calibration(file, config);
  check_candidates(file, config);
  StageSet stages(spec, config);  // says what this machine lacks
  try_kernels(file, spec, plan, config, stages);
  return stages.activations(config.activations);
}

}  // namespace patchbay

#include "session.h"

#include <algorithm>

#include "engine/cost_model.h"
#include "engine/runner.h"
#include "patchbay/decoder.h"
#include "patchbay/kv_prefix.h"
#include "patchbay/kv_retention.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

constexpr std::int64_t kDefaultMaxTokens = 4096;

PluginSpec with_threads(PluginSpec backend, int threads) {
  if (threads == 0) return backend;
  auto settings = backend.settings ? std::make_shared<Settings>(*backend.settings) : std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  std::erase_if(settings->entries, [](const auto& entry) { return entry.first == "threads"; });
  Settings value;
  value.kind = Settings::Kind::scalar;
  value.text = std::to_string(threads);
  value.where = "threads";
  settings->entries.emplace_back("threads", value);
  backend.settings = settings;
  return backend;
}

KvSpec kv_spec(const ModelSpec& spec, std::int64_t max_tokens, int max_sequences) {
  return {spec.layers, spec.kv_heads, spec.head_size, max_tokens, max_sequences};
}

std::int64_t room(const ModelFile& file, const ModelSpec& spec, const SessionOptions& options) {
  if (options.max_tokens > spec.context) {
    throw Error(file.path(), std::to_string(options.max_tokens) + " tokens do not fit into the model's context",
                "at most " + std::to_string(spec.context));
  }
  return options.max_tokens > 0 ? options.max_tokens : std::min(spec.context, kDefaultMaxTokens);
}

std::shared_ptr<Backend> host_of(const std::shared_ptr<Backend>& backend, int threads) {
  return backend->device().is_host() ? backend : make<Backend>(with_threads({"cpu", nullptr}, threads));
}

std::shared_ptr<Attention> prepared_attention(const RunConfig& config, Device& device) {
  auto attention = make<Attention>(config.attention);
  try {
    attention->prepare(device);
  } catch (const Error& error) {
    throw error.at(config.attention.type + " on device " + config.device);
  }
  return attention;
}

}  // namespace

struct Session::Impl {
  Impl(std::shared_ptr<const ModelFile> model, const RunConfig& run, const SessionOptions& options)
      : file(std::move(model)), config(run), spec(read_model_spec(*file)), max_tokens(room(*file, spec, options)),
        tokenizer(make_tokenizer(*file)), backend(make<Backend>(with_threads(config.backend, config.threads))),
        host(host_of(backend, config.threads)), attention(prepared_attention(config, backend->device())),
        store(make<KvStore>(config.kv_store)), retention(make<KvRetention>(config.kv_retention)),
        prefix(make<KvPrefix>(config.kv_prefix)), placement{&host->ops(), &backend->ops(), 0},
        weights(load_weights(file, spec, config, placement)),
        transformer(spec, weights, std::vector{StageParts{0, spec.layers, &backend->ops(), attention.get(), store.get()}}, max_tokens,
                    config.activations),
        runner(spec, transformer, *store, options.max_sequences, max_tokens) {
    fit_to_length(spec, max_tokens);
    store->configure(kv_spec(spec, max_tokens, options.max_sequences), backend->device());
  }

  std::shared_ptr<const ModelFile> file;
  RunConfig config;
  ModelSpec spec;
  std::int64_t max_tokens;
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<Backend> backend, host;  ///< host: what decodes and quantises weights; the backend itself where it is the host's
  std::shared_ptr<Attention> attention;
  std::shared_ptr<KvStore> store;
  std::shared_ptr<KvRetention> retention;
  std::shared_ptr<KvPrefix> prefix;
  Placement placement;
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
Device& Session::device() { return impl_->backend->device(); }
KvRetention& Session::retention() { return *impl_->retention; }
KvPrefix& Session::prefix() { return *impl_->prefix; }
const KvStore& Session::kv_store() const { return *impl_->store; }
WeightSizes Session::sizes() const { return impl_->weights.sizes; }
const std::vector<TensorPath>& Session::tensor_paths() const { return impl_->weights.paths; }
std::vector<WeightView> Session::weights() const { return weight_views(impl_->weights, impl_->spec); }
ModelCost Session::cost() const { return model_cost(*impl_->file, impl_->config, impl_->weights.paths); }
int Session::hidden_size() const { return impl_->spec.hidden; }
void Session::head(View<const float, 2> hidden, View<float, 2> logits) { impl_->transformer.head(hidden, logits); }

std::map<std::string, std::string> Session::paths() const {
  std::map<std::string, int> counts;
  for (const TensorPath& tensor : impl_->weights.paths) ++counts[tensor.path];
  std::string weights;
  for (const auto& [path, count] : counts) weights += (weights.empty() ? "" : ", ") + path + " x " + std::to_string(count);
  return {{"attention", impl_->attention->path()},
          {"operations", std::string(impl_->backend->ops().kernel())},
          {"weights", weights},
          {"kv_cache", impl_->transformer.kv_path()},
          {"activations", impl_->config.activations == ActivationMode::q8 ? "q8" : "fp32"}};
}

std::shared_ptr<Decoder> Session::make_decoder() const { return make<Decoder>(impl_->config.decoder); }

std::vector<std::shared_ptr<LogitsProcessor>> Session::make_processors() const {
  std::vector<std::shared_ptr<LogitsProcessor>> processors;
  for (const PluginSpec& spec : impl_->config.processors) processors.push_back(make<LogitsProcessor>(spec));
  return processors;
}

void check_run(const ModelFile& file, const RunConfig& config, const SessionOptions& options) {
  const ModelSpec spec = read_model_spec(file);
  room(file, spec, options);  // refuses what is longer than the context
  check_weights(file, WeightPlan(file, spec, config));
  // These say what this machine lacks.
  const auto backend = make<Backend>(with_threads(config.backend, config.threads));
  prepared_attention(config, backend->device());
}

}  // namespace patchbay

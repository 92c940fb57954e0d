#include "profile_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common.h"
#include "config.h"
#include "device_rows.h"
#include "engine/cached_attention.h"
#include "gpu/profiler.h"
#include "patchbay/decoder.h"
#include "patchbay/quantizer.h"
#include "registry.h"

namespace patchbay::app {
namespace {

/// The emulator's device with every check and counter on.
constexpr const char* kDevice = "{type: simt, checked: true}";

/// Settings under their own keys: those of the technique, and of what it is used with.
struct Case {
  const ProfileOptions& options;
  std::string kind, name;
  Settings settings;
  std::shared_ptr<Backend> backend = make<Backend>(plugin_spec(parse_value(kDevice, "backend"), "backend"));

  Ops& ops() const { return backend->ops(); }
  Device& device() const { return backend->device(); }
  DType type() const { return device().activations(); }
  PluginSpec technique() const {
    Settings own = settings;
    std::erase_if(own.entries, [](const auto& entry) { return entry.first == "kv_store" || entry.first == "quantizer"; });
    return {name, std::make_shared<Settings>(own)};
  }
  PluginSpec other(const char* key, const char* default_type) const {
    const Settings* given = settings.find(key);
    return given ? plugin_spec(*given, key, default_type) : PluginSpec{default_type, nullptr};
  }
};

std::vector<float> random_values(std::int64_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1);
  return values;
}
/// Random numbers on the device, as (rows, cols) of `type`.
Buffer random_rows(const Case& c, std::int64_t rows, std::int64_t cols, DType type) {
  const auto values = random_values(rows * cols, static_cast<std::uint64_t>(rows * 31 + cols));
  return upload_values(View<const float, 2>(values.data(), {rows, cols}), type, c.device());
}

template <class Body> std::vector<gpu::KernelCounters> counted_launches(Body&& body) {
  gpu::Profiler profiler;
  body();
  return profiler.launches();
}

void require_counts(std::initializer_list<std::pair<const char*, std::int64_t>> counts) {
  constexpr std::int64_t kMost = 1 << 20;
  for (const auto& [name, value] : counts)
    if (value < 1 || value > kMost) throw Error(name, std::to_string(value) + " is no count", "1 to " + std::to_string(kMost));
}

ProfiledCase profile_format(const Case& c) {
  const auto& o = c.options;
  require_counts({{"--rows", o.rows}, {"--cols", o.cols}, {"--tokens", o.tokens}});
  const auto format = make<WeightFormat>(c.technique());
  const auto host = make<Backend>(RunConfig{}.backend);
  PackedWeight weight = format->allocate("w", o.rows, o.cols, host->device());
  const auto values = random_values(o.rows * o.cols, 1);
  make<Quantizer>(c.other("quantizer", "rtn"))->quantize(View<const float, 2>(values.data(), {o.rows, o.cols}), {}, *format, host->device(), weight);
  const auto kernel = format->prepare(weight, c.ops(), ActivationMode::fp32);
  const Buffer x = random_rows(c, o.tokens, o.cols, c.type()), y = c.device().allocate(o.tokens * o.rows * bytes_of(c.type()));
  Activation input(ActivationMode::fp32, c.ops());
  input.reset(x.tensor(c.type(), {o.tokens, o.cols}));
  ProfiledCase result;
  result.title = fmt::format("y({0},{1}) = x({0},{2}) w({1},{2})^T, w as {3}", o.tokens, o.rows, o.cols, format->label());
  result.launches = counted_launches([&] { kernel->run(input, y.tensor(c.type(), {o.tokens, o.rows})); });
  result.path = kernel->path();
  result.flops = 2.0 * static_cast<double>(o.tokens * o.rows * o.cols);
  result.bytes = static_cast<double>(format->packed_bytes(o.rows, o.cols) + o.tokens * (o.rows + o.cols) * bytes_of(c.type()));
  return result;
}

/// One sequence with `committed` tokens in the cache and `rows` more in this step.
StepPlan step_plan(std::int64_t committed, std::int64_t rows) {
  StepPlan plan;
  plan.tokens.resize(static_cast<std::size_t>(rows));
  plan.positions.resize(static_cast<std::size_t>(rows));
  std::iota(plan.positions.begin(), plan.positions.end(), static_cast<std::int32_t>(committed));
  StepSequence sequence;
  sequence.rows = rows, sequence.committed = committed;
  plan.sequences = {sequence};
  return plan;
}

ProfiledCase profile_attention(const Case& c) {
  const auto& o = c.options;
  require_counts({{"--tokens", o.tokens}, {"--heads", o.heads}, {"--kv-heads", o.kv_heads}, {"--head-size", o.head_size}, {"--context", o.context + 1}});
  if (o.heads % o.kv_heads) throw Error("--kv-heads", fmt::format("{} do not divide {} heads", o.kv_heads, o.heads), "a divisor of --heads");
  const auto attention = make<Attention>(c.technique());
  attention->prepare(c.device());
  const auto store = make<KvStore>(c.other("kv_store", RunConfig{}.kv_store.type.c_str()));
  store->configure({1, static_cast<int>(o.kv_heads), static_cast<int>(o.head_size), o.context + o.tokens, 1}, c.device());
  store->open(0);
  CachedAttention cached(*attention, *store, c.ops());
  StepInputs inputs(c.device());
  const auto write = [&](const StepPlan& plan) {
    const std::int64_t rows = plan.sequences[0].rows;
    if (!store->grow(0, rows)) throw Error("--context", "the cache has no room for so many tokens");
    inputs.load(plan, *store);
    const Buffer k = random_rows(c, rows, o.kv_heads * o.head_size, c.type()), v = random_rows(c, rows, o.kv_heads * o.head_size, c.type());
    cached.write(plan, inputs, 0, k.tensor(c.type(), {rows, o.kv_heads, o.head_size}), v.tensor(c.type(), {rows, o.kv_heads, o.head_size}));
  };
  if (o.context > 0) {
    const StepPlan earlier = step_plan(0, o.context);
    write(earlier);
    store->commit(0, earlier.positions);
  }
  const StepPlan plan = step_plan(o.context, o.tokens);
  write(plan);
  const AttentionSpec spec{static_cast<int>(o.heads), static_cast<int>(o.kv_heads), static_cast<int>(o.head_size),
                           1.0f / std::sqrt(static_cast<float>(o.head_size)), 0, 0.0f};
  const std::int64_t width = o.heads * o.head_size;
  const Buffer q = random_rows(c, o.tokens, width, c.type()), out = c.device().allocate(o.tokens * width * bytes_of(c.type()));
  const auto shaped = [&](const Buffer& buffer) { return buffer.tensor(c.type(), {o.tokens, o.heads, o.head_size}); };
  ProfiledCase result;
  result.title = fmt::format("attention of {} tokens after {} in the cache; {} heads of {}, {} of keys and values, cache {}", o.tokens, o.context, o.heads,
                             o.head_size, o.kv_heads, store->format().name());
  result.launches = counted_launches([&] { cached.attend(spec, plan, inputs, 0, shaped(q), shaped(out)); });
  result.path = attention->path();
  const double seen = static_cast<double>(o.tokens) * (static_cast<double>(o.context) + (static_cast<double>(o.tokens) + 1) / 2);
  result.flops = 4.0 * seen * static_cast<double>(width);
  result.bytes = static_cast<double>(store->usage().bytes_per_token * (o.context + o.tokens) + 2 * o.tokens * width * bytes_of(c.type()));
  return result;
}

/// Dense operations at (T,C): what each reads and writes, and how it is called.
struct OperationRows { TensorRef x, y, out, weight, bias, ids, logits; };
struct Operation {
  const char* name;
  int operands;        ///< of (T,C), results included
  void (*run)(Ops& ops, const OperationRows& rows);
};
constexpr Operation kOperations[] = {
    {"rms_norm", 2, [](Ops& ops, const OperationRows& r) { ops.rms_norm(r.x, r.weight, 1e-5f, r.out); }},
    {"layer_norm", 2, [](Ops& ops, const OperationRows& r) { ops.layer_norm(r.x, r.weight, r.bias, 1e-5f, r.out); }},
    {"gated", 3, [](Ops& ops, const OperationRows& r) { ops.gated(Gate::silu, r.x, r.y, r.out); }},
    {"add", 3, [](Ops& ops, const OperationRows& r) { ops.add(r.x, r.y); }},
    {"add_rms_norm", 4, [](Ops& ops, const OperationRows& r) { ops.add_rms_norm(r.x, r.y, r.weight, 1e-5f, r.out); }},
    {"softmax", 4, [](Ops& ops, const OperationRows& r) { ops.softmax(r.logits, r.logits); }},  // of fp32: each counts twice
    {"scale", 2, [](Ops& ops, const OperationRows& r) { ops.scale(r.x, 0.5f); }},
    {"soft_cap", 2, [](Ops& ops, const OperationRows& r) { ops.soft_cap(r.x, 30.0f); }},
    {"take_rows", 2, [](Ops& ops, const OperationRows& r) { ops.take_rows(r.x, r.ids, r.out); }},
    {"rope", 2,
     [](Ops& ops, const OperationRows& r) {
       RopeSpec spec;
       spec.dims = static_cast<int>(r.weight.shape[0]);
       spec.angles = r.y;
       ops.rope(r.x.reshaped({r.x.shape[0], 1, r.x.shape[1]}), r.ids, spec);
     }},
};

ProfiledCase profile_operation(const Case& c) {
  const auto& o = c.options;
  require_counts({{"--tokens", o.tokens}, {"--cols", o.cols}});
  std::vector<std::string> names;
  const Operation* operation = nullptr;
  for (const Operation& known : kOperations) {
    names.push_back(known.name);
    if (o.op == known.name) operation = &known;
  }
  if (!operation) {
    const std::string near = suggestion(o.op, names);
    throw Error("--op", o.op.empty() ? "names the operation of a backend to profile" : "'" + o.op + "' is no operation that can be profiled",
                fmt::format("{}", fmt::join(names, ", ")), near.empty() ? "" : "did you mean " + near + "?");
  }
  if (o.op == "rope" && o.cols % 2) throw Error("--cols", "RoPE turns pairs of values", "an even number");
  std::vector<std::int32_t> ids(static_cast<std::size_t>(o.tokens));
  std::iota(ids.begin(), ids.end(), 0);
  Buffer ids_there;
  const View<const std::int32_t, 1> ids_here(ids.data(), {o.tokens});
  const Buffer x = random_rows(c, o.tokens, o.cols, c.type()), y = random_rows(c, o.tokens, o.cols, c.type()), out = random_rows(c, o.tokens, o.cols, c.type());
  const Buffer weight = random_rows(c, 1, o.cols, DType::f32), table = random_rows(c, o.tokens, o.cols, DType::f32);
  OperationRows rows{x.tensor(c.type(), {o.tokens, o.cols}), y.tensor(c.type(), {o.tokens, o.cols}), out.tensor(c.type(), {o.tokens, o.cols}),
                     weight.tensor(DType::f32, {o.cols}), weight.tensor(DType::f32, {o.cols}), on_device(ids_here, ids_there, c.device()),
                     table.tensor(DType::f32, {o.tokens, o.cols})};
  if (o.op == "rope") rows.y = table.tensor(DType::f32, {o.tokens, o.cols});  // angles: any will do
  ProfiledCase result;
  result.title = fmt::format("{} of ({},{})", o.op, o.tokens, o.cols);
  result.launches = counted_launches([&] { operation->run(c.ops(), rows); });
  result.path = c.ops().kernel();
  result.bytes = static_cast<double>(operation->operands * o.tokens * o.cols * bytes_of(c.type()));
  return result;
}

std::vector<gpu::KernelCounters> profile_step(ModelRunner& runner, SeqId seq, const std::vector<Token>& tokens) {
  std::vector<TokenRow> rows;
  std::vector<std::int32_t> path;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    rows.push_back({seq, tokens[i], static_cast<std::int32_t>(i) - 1, i + 1 == tokens.size()});
    path.push_back(static_cast<std::int32_t>(i));
  }
  auto launches = counted_launches([&] {
    if (runner.forward(rows).full) throw Error("--prompt", "the tokens do not fit into the KV cache");
  });
  runner.commit(seq, path);
  return launches;
}

/// A backend's operations with its own settings, on the emulator. @throws Error for one that has no kernel for a GPU.
std::shared_ptr<Backend> emulated(const PluginTable& table, const Settings& settings) {
  const auto params = Registry::instance().describe(table);
  const auto of_gpu = [](const ParamInfo& param) { return std::ranges::find(param.kernels, "cuda", &KernelInfo::backend) != param.kernels.end(); };
  if (std::ranges::none_of(params, of_gpu))
    throw Error(fmt::format("backends/{}", table.name), "launches no kernel: it has none for a GPU", {}, "`patchbay list kernels` shows those of cuda");
  Settings own = parse_value(kDevice, "backend");
  own.entries.insert(own.entries.end(), settings.entries.begin(), settings.entries.end());
  return make<Backend>(plugin_spec(own, "backend"));
}

}  // namespace

ProfiledCase profile_technique(const ProfileOptions& options) {
  const PluginTable& table = Registry::instance().resolve(options.technique);
  Case c{options, table.kind, table.name, {}};
  c.settings.kind = Settings::Kind::map;
  for (const std::string& assignment : options.model.assignments) apply_assignment(c.settings, assignment);
  const bool backend = c.kind == KindOf<Backend>::value;
  if (!options.kernel.empty()) set_path(c.settings, backend ? "kernels." + options.op : "kernel", parse_value(options.kernel, "kernel"));
  if (backend) c.backend = emulated(table, c.settings);
  using Profile = ProfiledCase (*)(const Case&);
  const std::pair<const char*, Profile> kinds[] = {
      {KindOf<WeightFormat>::value, profile_format}, {KindOf<Attention>::value, profile_attention}, {KindOf<Backend>::value, profile_operation}};
  for (const auto& [kind, profile] : kinds) {
    if (c.kind != kind) continue;
    ProfiledCase result = profile(c);
    if (result.launches.empty())
      throw Error(c.kind + "/" + c.name, "launched no kernel: it has none for a GPU", {}, "`patchbay list kernels` shows those of cuda");
    return result;
  }
  throw Error(options.technique, "plugins of kind " + c.kind + " have no kernels", "formats, attention, backends");
}

std::vector<ProfiledCase> profile_model(const ProfileOptions& options) {
  require_counts({{"--prompt", options.prompt}, {"--generate", options.generate + 1}});
  ModelOptions model = options.model;
  model.assignments.insert(model.assignments.begin(), std::string("backend=") + kDevice);
  const auto session = open_session(model, {options.prompt + options.generate, 1});
  ModelRunner& runner = session->runner();
  Rng rng(1);  // which tokens they are changes no count
  std::vector<Token> tokens(static_cast<std::size_t>(options.prompt));
  for (Token& token : tokens) token = static_cast<Token>(rng.uniform() * runner.vocabulary());
  const SeqId seq = runner.open();
  std::string path;
  for (const auto& [part, kernels] : session->paths()) path += (path.empty() ? "" : "; ") + part + ": " + kernels;
  std::vector<ProfiledCase> cases;
  cases.push_back({fmt::format("prefill of {} tokens", options.prompt), path, 0, 0, profile_step(runner, seq, tokens)});
  for (std::int64_t i = 0; i < options.generate; ++i)
    cases.push_back({fmt::format("decode of token {} after it", i + 1), path, 0, 0, profile_step(runner, seq, {tokens[0]})});
  return cases;
}

}  // namespace patchbay::app

#include "gpu_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "config.h"
#include "dense_operations.h"
#include "device_rows.h"
#include "engine/cached_attention.h"
#include "patchbay/decoder.h"
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"
#include "registry.h"
#include "run_config.h"

namespace patchbay::bench {
namespace {

constexpr int kMostSets = 64;
constexpr double kLongestRun = 0.05;  ///< seconds: what takes longer by its time with fewer tokens is left out

int sets_for(const Limits& limits, double bytes) {
  return std::clamp(static_cast<int>(std::ceil(static_cast<double>(limits.rotate_bytes) / std::max(bytes, 1.0))), 1, kMostSets);
}
bool wanted(const Limits& limits, const std::string& name) { return name.starts_with(limits.only) || limits.only.starts_with(name + "/"); }

Settings scalar(const std::string& text) {
  Settings value;
  value.kind = Settings::Kind::scalar;
  value.text = text;
  return value;
}
PluginSpec with(const std::string& type, const std::vector<std::pair<std::string, std::string>>& values) {
  auto settings = std::make_shared<Settings>();
  settings->kind = Settings::Kind::map;
  for (const auto& [key, value] : values) settings->entries.emplace_back(key, scalar(value));
  return {type, settings};
}
/// Names of a plugin's kernels for GPUs that this machine has.
std::vector<std::string> gpu_kernels(const char* kind, const std::string& name) {
  std::vector<std::string> names;
  for (const ParamInfo& param : Registry::instance().describe(Registry::instance().find(kind, name)))
    for (const KernelInfo& kernel : param.kernels)
      if (kernel.backend == "cuda" && (!kernel.available || kernel.available())) names.emplace_back(kernel.name);
  return names;
}

/// A weight of rows x cols whose first rows are random and quantised, and the others their copies: speed does not depend on the numbers.
PackedWeight random_weight(const WeightFormat& format, std::int64_t rows, std::int64_t cols, Device& host) {
  const std::int64_t drawn = std::min<std::int64_t>(rows - 1, 16);
  PackedWeight few = format.allocate("w", drawn, cols, host), all = format.allocate("w", rows, cols, host);
  const auto values = random_values(drawn * cols, 1);
  make<Quantizer>({"rtn", nullptr})->quantize(View<const float, 2>(values.data(), {drawn, cols}), {}, format, host, few);
  for (std::size_t p = 0; p < all.parts.size(); ++p) {
    const TensorRef &from = few.parts[p], &to = all.parts[p];
    std::int64_t outer = 1, inner = bytes_of(to.dtype);  // around the axis that counts rows
    int axis = 0;
    while (axis < to.rank && to.shape[axis] == from.shape[axis]) outer *= to.shape[axis++];
    for (int i = axis + 1; i < to.rank; ++i) inner *= to.shape[i];
    const std::int64_t few_rows = axis < to.rank ? from.shape[axis] : 1, all_rows = axis < to.rank ? to.shape[axis] : 1;
    for (std::int64_t i = 0; i < outer * all_rows; ++i)
      std::memcpy(static_cast<std::byte*>(to.data) + i * inner, static_cast<const std::byte*>(from.data) + (i / all_rows * few_rows + i % all_rows % few_rows) * inner,
                  static_cast<std::size_t>(inner));
  }
  return all;
}

/// A product's weight on the device, as often as it takes to exceed the cache, and the cases with 1, 16 ... tokens.
void matmul_of(Backend& backend, const Limits& limits, const Json& names, const PluginSpec& spec, const PackedWeight& weight, const Sink& sink) {
  const auto format = make<WeightFormat>(spec);
  Device& device = backend.device();
  const double weight_bytes = static_cast<double>(format->packed_bytes(weight.rows, weight.cols));
  const int sets = sets_for(limits, weight_bytes);
  std::vector<std::unique_ptr<LinearKernel>> kernels;
  for (int i = 0; i < sets; ++i) kernels.push_back(format->prepare(weight, backend.ops(), ActivationMode::fp32));
  double before = 0;  // seconds per token
  for (const std::int64_t tokens : limits.tokens) {
    if (limits.tokens.size() > 1 && before * static_cast<double>(tokens) > kLongestRun) {
      Case left_out{names, 0, 0, 1, nullptr};
      left_out.what.update({{"tokens", tokens}, {"rows", weight.rows}, {"cols", weight.cols}, {"left_out", "a run would take long, as it does with fewer tokens"}});
      sink(left_out);
      continue;
    }
    const Buffer x = random_rows(device, tokens, weight.cols, device.activations());
    const Buffer y = device.allocate(tokens * weight.rows * bytes_of(device.activations()));
    Activation input(ActivationMode::fp32, backend.ops());
    input.reset(x.tensor(device.activations(), {tokens, weight.cols}));
    const TensorRef out = y.tensor(device.activations(), {tokens, weight.rows});
    Case one{names, 2.0 * static_cast<double>(tokens * weight.rows * weight.cols),
             weight_bytes + static_cast<double>(tokens * (weight.rows + weight.cols) * bytes_of(device.activations())), sets,
             [&](int i) { kernels[i % sets]->run(input, out); }};
    one.what.update({{"tokens", tokens}, {"rows", weight.rows}, {"cols", weight.cols}, {"path", kernels[0]->path()}});
    before = sink(one) / static_cast<double>(tokens);
  }
}
/// Those of most interest first, for time may run out.
std::vector<std::string> formats_in_order() {
  std::vector<std::string> names = Registry::instance().names(KindOf<WeightFormat>::value);
  const std::vector<std::string> first = {"fp16", "q4_k", "int_grouped", "bf16", "q8_0"};
  const auto rank = [&](const std::string& name) { return std::ranges::find(first, name) - first.begin(); };
  std::ranges::stable_sort(names, {}, rank);
  return names;
}

}  // namespace

const std::vector<ModelShape>& model_shapes() {
  static const std::vector<ModelShape> shapes = {{"SmolLM2-135M", 576, 9, 3, 64, 1536, 49152},
                                                 {"Llama-3.2-1B", 2048, 32, 8, 64, 8192, 128256},
                                                 {"Llama-3.1-8B", 4096, 32, 8, 128, 14336, 128256}};
  return shapes;
}
const std::vector<ModelShape>& quick_shapes() {
  static const std::vector<ModelShape> shapes = {{"quick", 256, 4, 2, 64, 256, 300}};
  return shapes;
}

void matmul_cases(Backend& backend, const Limits& limits, const Sink& sink) {
  const auto host = make<Backend>(RunConfig{}.backend);
  for (const std::string& name : formats_in_order()) {
    if (!wanted(limits, "matmul/" + name)) continue;
    for (const ModelShape& model : limits.models)
      for (const auto& [rows, cols] : {std::pair{model.feed_forward, model.width}, {model.width, model.feed_forward}}) {
        std::optional<PackedWeight> weight;
        for (const std::string& kernel : gpu_kernels(KindOf<WeightFormat>::value, name)) {
          if (!wanted(limits, "matmul/" + name + "/" + kernel)) continue;
          const PluginSpec spec = with(name, {{"kernel", kernel}});
          const Json names = {{"kind", "matmul"}, {"name", name}, {"kernel", kernel}, {"model", model.name}};
          try {
            if (!weight) weight = random_weight(*make<WeightFormat>(spec), rows, cols, host->device());
            matmul_of(backend, limits, names, spec, *weight, sink);
          } catch (const Error& error) {  // a shape that the format or kernel cannot take
            Case refused{names, 0, 0, 1, nullptr};
            refused.what.update({{"rows", rows}, {"cols", cols}, {"refused", error.what()}});
            sink(refused);
          }
        }
        if (rows == cols || &model != &limits.models.back()) break;
      }
  }
}

namespace {

/// `sequences` sequences of `committed` cached tokens each, with `rows` more in this step.
StepPlan step_plan(std::int64_t sequences, std::int64_t committed, std::int64_t rows) {
  StepPlan plan;
  plan.tokens.resize(static_cast<std::size_t>(sequences * rows));
  for (std::int64_t s = 0; s < sequences; ++s) {
    StepSequence sequence;
    sequence.seq = static_cast<SeqId>(s), sequence.first_row = s * rows, sequence.rows = rows, sequence.committed = committed;
    plan.sequences.push_back(sequence);
    for (std::int64_t i = 0; i < rows; ++i) plan.positions.push_back(static_cast<std::int32_t>(committed + i));
  }
  return plan;
}

struct Attended {
  std::int64_t sequences, context, rows;  ///< cached tokens and new ones of each sequence
  std::string kv_format;
};

void attention_of(Backend& backend, const Limits& limits, const ModelShape& model, const Attended& step, Json names, const PluginSpec& spec,
                  const Sink& sink) {
  Device& device = backend.device();
  const DType type = device.activations();
  const auto attention = make<Attention>(spec);
  attention->prepare(device);
  const auto store = make<KvStore>(with("contiguous", {{"format", step.kv_format}}));
  const std::int64_t tokens = step.context + step.rows, all_rows = step.sequences * step.rows;
  const double cached = 2.0 * static_cast<double>(step.sequences * tokens * model.kv_heads * model.head_size) * (step.kv_format == "int8" ? 1 : 2);
  const int layers = sets_for(limits, cached);
  store->configure({layers, static_cast<int>(model.kv_heads), static_cast<int>(model.head_size), tokens, static_cast<int>(step.sequences)}, device);
  for (std::int64_t s = 0; s < step.sequences; ++s) store->open(static_cast<SeqId>(s));
  CachedAttention attended(*attention, *store, backend.ops());
  StepInputs inputs(device);
  const auto write = [&](const StepPlan& plan, std::int64_t rows) {
    for (const StepSequence& sequence : plan.sequences)
      if (!store->grow(sequence.seq, sequence.rows)) throw Error("bench_gpu", "the cache has no room for the step");
    inputs.load(plan, *store);
    const std::int64_t n = static_cast<std::int64_t>(plan.positions.size());
    const Buffer k = random_rows(device, rows, model.kv_heads * model.head_size, type);
    const TensorRef values = k.tensor(type, {n, model.kv_heads, model.head_size});
    for (int layer = 0; layer < layers; ++layer) attended.write(plan, inputs, layer, values, values);
  };
  for (std::int64_t s = 0; s < step.sequences && step.context > 0; ++s) {  // one by one: what they cache may be large
    StepPlan earlier = step_plan(1, 0, step.context);
    earlier.sequences[0].seq = static_cast<SeqId>(s);
    write(earlier, step.context);
    store->commit(static_cast<SeqId>(s), earlier.positions);
  }
  const StepPlan plan = step_plan(step.sequences, step.context, step.rows);
  write(plan, all_rows);
  const AttentionSpec of_model{static_cast<int>(model.heads), static_cast<int>(model.kv_heads), static_cast<int>(model.head_size),
                               1.0f / std::sqrt(static_cast<float>(model.head_size)), 0, 0.0f};
  const std::int64_t width = model.heads * model.head_size;
  const Buffer q = random_rows(device, all_rows, width, type), out = device.allocate(all_rows * width * bytes_of(type));
  const TensorRef queries = q.tensor(type, {all_rows, model.heads, model.head_size}), result = out.tensor(type, {all_rows, model.heads, model.head_size});
  const double seen = static_cast<double>(all_rows) * (static_cast<double>(step.context) + (static_cast<double>(step.rows) + 1) / 2);
  Case one{std::move(names), 4.0 * seen * static_cast<double>(width), cached + static_cast<double>(2 * all_rows * width * bytes_of(type)), layers,
           [&](int i) { attended.attend(of_model, plan, inputs, i % layers, queries, result); }};
  one.what.update({{"path", attention->path()}});
  sink(one);
}

}  // namespace

void attention_cases(Backend& backend, const Limits& limits, const Sink& sink) {
  std::vector<Attended> steps = {{1, 0, limits.tokens.back(), "fp16"}};
  for (const std::int64_t context : limits.contexts) {
    for (const char* format : {"fp16", "int8"}) steps.push_back({1, context, 1, format});
    steps.push_back({16, context, 1, "fp16"});
  }
  for (const std::string& name : Registry::instance().names(KindOf<Attention>::value))
    for (const std::string& kernel : gpu_kernels(KindOf<Attention>::value, name)) {
      if (!wanted(limits, "attention/" + name + "/" + kernel)) continue;
      for (const ModelShape& model : limits.models)
        for (const Attended& step : steps) {
          Json names = {{"kind", "attention"}, {"name", name}, {"kernel", kernel}, {"model", model.name}, {"sequences", step.sequences}, {"context", step.context},
                        {"tokens", step.rows}, {"heads", model.heads}, {"kv_heads", model.kv_heads}, {"head_size", model.head_size}, {"kv_format", step.kv_format}};
          try {
            attention_of(backend, limits, model, step, names, with(name, {{"kernel", kernel}}), sink);
          } catch (const Error& error) {
            names["refused"] = error.what();
            sink({names, 0, 0, 1, nullptr});
          }
        }
    }
}

namespace {

/// One kernel of an operation: what runs it, and what to call it.
struct Choice {
  std::shared_ptr<Backend> backend;
  std::string operation, kernel;
};
/// Every kernel of the backend's operations; an operation whose kernels cannot be chosen has none here.
std::vector<Choice> choices_of(const std::string& type, const Limits& limits) {
  Registry& registry = Registry::instance();
  std::vector<Choice> choices;
  for (const ParamInfo& param : registry.describe(registry.find(KindOf<Backend>::value, type)))
    for (const KernelInfo& kernel : param.kernels) {
      const std::string operation = param.name.substr(param.name.find('.') + 1), name(kernel.name);
      if (!wanted(limits, "operation/" + operation + "/" + name)) continue;
      Settings settings;
      settings.kind = Settings::Kind::map;
      set_path(settings, param.name, scalar(name));
      choices.push_back({make<Backend>(PluginSpec{type, std::make_shared<Settings>(settings)}), operation, name});
    }
  return choices;
}
/// Until the operands lie there: the kernels to be timed have streams of their own.
void wait_for(Device& device) {
  std::vector<float> room;
  const Buffer one = device.allocate(bytes_of(DType::f32));
  read_rows(one.tensor(DType::f32, {1, 1}), room, device);
}
Json names_of(const Choice& choice, const ModelShape& model, std::int64_t tokens, std::int64_t cols) {
  return {{"kind", "operation"}, {"name", choice.operation}, {"kernel", choice.kernel}, {"model", model.name}, {"tokens", tokens}, {"cols", cols}};
}

void sampling_of(Backend& backend, const std::vector<Choice>& choices, const Limits& limits, const ModelShape& model, std::int64_t rows, const Sink& sink) {
  const double logits = static_cast<double>(rows * model.vocabulary);
  const int sets = sets_for(limits, 4 * logits);
  std::vector<std::unique_ptr<SamplingOperands>> memory;
  for (int i = 0; i < sets; ++i) memory.push_back(std::make_unique<SamplingOperands>(backend.device(), rows, model.vocabulary));
  wait_for(backend.device());
  for (const Choice& choice : choices) {
    if (choice.operation != "sample") continue;
    for (const bool greedy : {true, false}) {
      Case one{names_of(choice, model, rows, model.vocabulary), greedy ? 0 : SamplingOperands::kFlops * logits, 4 * logits, sets,
               [&](int i) { choice.backend->ops().sample(memory[i % sets]->logits, greedy ? SamplingRows() : memory[i % sets]->rows, memory[i % sets]->tokens); }, choice.backend};
      if (greedy) one.what["name"] = "argmax";
      sink(one);
    }
  }
}

/// Those on (T,C), with C the model's width; a router's softmax is over few experts, so its place here is that of a wide one.
void rows_of(Backend& backend, const std::vector<Choice>& choices, const Limits& limits, const ModelShape& model, std::int64_t tokens, const Sink& sink) {
  const double one_bytes = static_cast<double>(tokens * model.width * bytes_of(backend.device().activations()));
  const int sets = sets_for(limits, 3 * one_bytes);
  std::vector<std::unique_ptr<DenseOperands>> memory;
  for (int i = 0; i < sets; ++i) memory.push_back(std::make_unique<DenseOperands>(backend.device(), tokens, model.width, model.head_size));
  wait_for(backend.device());
  for (const Choice& choice : choices)
    for (const DenseOperation& operation : dense_operations())
      if (choice.operation == operation.name)
        sink({names_of(choice, model, tokens, model.width), operation.flops * static_cast<double>(tokens * model.width), operation.operands * one_bytes, sets,
              [&](int i) { operation.run(choice.backend->ops(), *memory[i % sets]); }, choice.backend});
}

/// A step's keys and values into an fp16 cache, alone and with RoPE, a layer for each run.
void cache_of(Backend& backend, const std::vector<Choice>& choices, const Limits& limits, const ModelShape& model, std::int64_t tokens, const Sink& sink) {
  CachedStep::Shape shape{0, tokens, model.kv_heads, model.head_size};
  shape.layers = sets_for(limits, 8.0 * static_cast<double>(tokens * model.kv_heads * model.head_size));
  CachedStep step(backend.ops(), make<KvStore>(with("contiguous", {{"format", "fp16"}})), shape);
  const RopeOperands rope(backend.device(), model.heads, shape);
  wait_for(backend.device());
  const double queries = static_cast<double>(tokens * model.heads * model.head_size), keys = static_cast<double>(tokens * model.kv_heads * model.head_size);
  for (const Choice& choice : choices) {
    Ops& ops = choice.backend->ops();
    const auto layer = [&](int i) { return i % shape.layers; };
    if (choice.operation == "write_kv")
      sink({names_of(choice, model, tokens, model.kv_heads * model.head_size), 0, step.write_bytes(), shape.layers,
            [&](int i) { ops.write_kv(step.k(), step.v(), step.inputs().gpu(), layer(i)); }, choice.backend});
    if (choice.operation == "rope_write_kv")
      sink({names_of(choice, model, tokens, (model.heads + model.kv_heads) * model.head_size), RopeOperands::kFlops * (queries + keys),
            step.write_bytes() + 2 * queries * static_cast<double>(bytes_of(backend.device().activations())), shape.layers,
            [&](int i) { ops.rope_write_kv(rope.q, step.k(), step.v(), step.inputs().positions(), rope.spec, step.inputs().gpu(), layer(i)); }, choice.backend});
  }
}

}  // namespace

void operation_cases(Backend& backend, const std::string& type, const Limits& limits, const Sink& sink) {
  const std::vector<Choice> choices = choices_of(type, limits);
  if (choices.empty()) return;
  for (const ModelShape& model : limits.models) {
    for (const std::int64_t tokens : limits.tokens) {
      rows_of(backend, choices, limits, model, tokens, sink);
      cache_of(backend, choices, limits, model, tokens, sink);
    }
    for (const std::int64_t rows : {1, 16}) sampling_of(backend, choices, limits, model, rows, sink);
  }
}

}  // namespace patchbay::bench

// patchbay profile backends/NAME --op OPERATION: one dense operation.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "config.h"
#include "device_rows.h"
#include "experiment/text_table.h"
#include "profile_scene.h"
#include "registry.h"

namespace patchbay::app {
namespace {

/// Numbers of the host on the scene's device.
template <class T> Buffer uploaded(const Scene& scene, const std::vector<T>& values) {
  const std::int64_t bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  Buffer there = scene.device().allocate(bytes);
  scene.device().copy(View<const std::uint8_t, 1>(reinterpret_cast<const std::uint8_t*>(values.data()), {bytes}), there.tensor(DType::u8, {bytes}));
  return there;
}
Buffer first_numbers(const Scene& scene, std::int64_t count) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return uploaded(scene, numbers);
}
RopeSpec rope_of(std::int64_t dims, TensorRef angles) {
  RopeSpec spec;
  spec.dims = static_cast<int>(dims);
  spec.angles = angles;
  return spec;
}

/// Of (T,C), random: operands in the type of activations, numbers and weights in fp32.
struct Rows {
  Rows(const Scene& scene, std::int64_t t, std::int64_t c)
      : tokens(t), cols(c), memory{random_rows(scene, t, c, scene.type()), random_rows(scene, t, c, scene.type()), random_rows(scene, t, c, scene.type()),
                                   random_rows(scene, t, c, DType::f32), first_numbers(scene, t)} {
    const auto activations = [&](const Buffer& buffer) { return buffer.tensor(scene.type(), {t, c}); };
    x = activations(memory[0]), y = activations(memory[1]), out = activations(memory[2]);
    floats = memory[3].tensor(DType::f32, {t, c}), weight = memory[3].tensor(DType::f32, {c}), column = memory[3].tensor(DType::f32, {t});
    ids = memory[4].tensor(DType::i32, {t});
  }
  std::int64_t tokens, cols;
  Buffer memory[5];
  TensorRef x, y, out, floats, weight, column, ids;
};
struct RowOperation {
  const char* name;
  int operands;   ///< of (T,C), results included
  void (*run)(Ops& ops, const Rows& rows);
};
constexpr RowOperation kRowOperations[] = {
    {"rms_norm", 2, [](Ops& ops, const Rows& r) { ops.rms_norm(r.x, r.weight, 1e-5f, r.out); }},
    {"layer_norm", 2, [](Ops& ops, const Rows& r) { ops.layer_norm(r.x, r.weight, r.weight, 1e-5f, r.out); }},
    {"rope", 2, [](Ops& ops, const Rows& r) { ops.rope(r.x.reshaped({r.tokens, 1, r.cols}), r.ids, rope_of(r.cols, r.floats)); }},
    {"gated", 3, [](Ops& ops, const Rows& r) { ops.gated(Gate::silu, r.x, r.y, r.out); }},
    {"add", 3, [](Ops& ops, const Rows& r) { ops.add(r.x, r.y); }},
    {"add_rms_norm", 4, [](Ops& ops, const Rows& r) { ops.add_rms_norm(r.x, r.y, r.weight, 1e-5f, r.out); }},
    {"softmax", 4, [](Ops& ops, const Rows& r) { ops.softmax(r.floats, r.floats); }},  // of fp32: each counts twice
    {"scale", 2, [](Ops& ops, const Rows& r) { ops.scale(r.x, 0.5f); }},
    {"soft_cap", 2, [](Ops& ops, const Rows& r) { ops.soft_cap(r.x, 30.0f); }},
    {"take_rows", 2, [](Ops& ops, const Rows& r) { ops.take_rows(r.x, r.ids, r.out); }},
    {"add_rows", 3, [](Ops& ops, const Rows& r) { ops.add_rows(r.x, r.ids, r.column, r.y); }},
};

ProfiledCase finished(const Scene& scene, std::string title, std::int64_t bytes, FunctionRef<void()> run) {
  ProfiledCase result;
  result.title = std::move(title);
  result.launches = counted_launches(run);
  result.path = scene.ops().kernel();
  result.bytes = static_cast<double>(bytes);
  return result;
}

ProfiledCase run_rows(const Scene& scene, const RowOperation& operation) {
  allow_options(scene.options, "--op " + scene.options.op, {"--op", "--kernel", "--tokens", "--cols"});
  const std::int64_t tokens = count_of("--tokens", scene.options.tokens, 1), cols = count_of("--cols", scene.options.cols, 256);
  if (scene.options.op == "rope" && cols % 2) throw Error("--cols", "RoPE turns pairs of values", "an even number");
  const Rows rows(scene, tokens, cols);
  return finished(scene, fmt::format("{} of ({},{})", operation.name, tokens, cols), operation.operands * tokens * cols * bytes_of(scene.type()),
                  [&] { operation.run(scene.ops(), rows); });
}

ProfiledCase run_matmul_stored(const Scene& scene) {
  const auto& o = scene.options;
  allow_options(o, "--op matmul_stored, which has one kernel", {"--op", "--tokens", "--rows", "--cols"});
  const std::int64_t tokens = count_of("--tokens", o.tokens, 1), rows = count_of("--rows", o.rows, 256), cols = count_of("--cols", o.cols, 256);
  const DType type = scene.type();
  const Buffer x = random_rows(scene, tokens, cols, type), w = random_rows(scene, rows, cols, DType::f16), y = scene.device().allocate(tokens * rows * bytes_of(type));
  ProfiledCase result = finished(scene, fmt::format("y({0},{1}) = x({0},{2}) w({1},{2})^T, w as stored, fp16", tokens, rows, cols),
                                 (rows * cols + tokens * (rows + cols)) * bytes_of(type), [&] {
                                   scene.ops().matmul_stored(x.tensor(type, {tokens, cols}), w.tensor(DType::f16, {rows, cols}), y.tensor(type, {tokens, rows}));
                                 });
  result.flops = 2.0 * static_cast<double>(tokens * rows * cols);
  return result;
}

/// Keys and values into the cache; with queries and RoPE, or without.
ProfiledCase run_write_kv(const Scene& scene, bool with_rope) {
  const auto& o = scene.options;
  if (with_rope) allow_options(o, "--op rope_write_kv", {"--op", "--kernel", "--tokens", "--context", "--heads", "--kv-heads", "--head-size"});
  else allow_options(o, "--op write_kv", {"--op", "--kernel", "--tokens", "--context", "--kv-heads", "--head-size"});
  const std::int64_t tokens = count_of("--tokens", o.tokens, 1), context = count_of("--context", o.context, 0, 0), heads = count_of("--heads", o.heads, 8),
                     kv_heads = count_of("--kv-heads", o.kv_heads, 2), head_size = count_of("--head-size", o.head_size, 64);
  if (with_rope && head_size % 2) throw Error("--head-size", "RoPE turns pairs of values", "an even number");
  const DType type = scene.type();
  CachedStep step(scene, context, tokens, kv_heads, head_size);
  const Buffer q = random_rows(scene, tokens, heads * head_size, type), angles = random_rows(scene, context + tokens, head_size, DType::f32);
  const std::int64_t stored = step.store().usage().bytes_per_token * tokens, read = 2 * tokens * kv_heads * head_size * bytes_of(type);
  const std::string what = fmt::format("{} after {} in the cache, {} heads of {} values, cache {}", counted(tokens, "token"), context, kv_heads, head_size, step.store().format().name());
  if (!with_rope) return finished(scene, "write_kv of " + what, read + stored, [&] { scene.ops().write_kv(step.k(), step.v(), step.inputs().gpu(), 0); });
  const RopeSpec spec = rope_of(head_size, angles.tensor(DType::f32, {context + tokens, head_size}));
  return finished(scene, fmt::format("rope of {} query heads, and write_kv of {}", heads, what), read + stored + 2 * tokens * heads * head_size * bytes_of(type), [&] {
    scene.ops().rope_write_kv(q.tensor(type, {tokens, heads, head_size}), step.k(), step.v(), step.inputs().positions(), spec, step.inputs().gpu(), 0);
  });
}

ProfiledCase run_sample(const Scene& scene) {
  const auto& o = scene.options;
  allow_options(o, "--op sample", {"--op", "--kernel", "--tokens", "--cols"});
  const std::int64_t tokens = count_of("--tokens", o.tokens, 1), vocabulary = count_of("--cols", o.cols, 256);
  const auto count = static_cast<std::size_t>(tokens);
  const Buffer logits = random_rows(scene, tokens, vocabulary, DType::f32), out = scene.device().allocate(tokens * bytes_of(DType::i32));
  const Buffer temperature = uploaded(scene, std::vector<float>(count, 0.8f)), top_k = uploaded(scene, std::vector<std::int32_t>(count, 40)),
               top_p = uploaded(scene, std::vector<double>(count, 0.95)), uniform = uploaded(scene, std::vector<double>(count, 0.5));
  const SamplingRows rows{reinterpret_cast<const float*>(temperature.data()), reinterpret_cast<const std::int32_t*>(top_k.data()),
                          reinterpret_cast<const double*>(top_p.data()), reinterpret_cast<const double*>(uniform.data())};
  return finished(scene, fmt::format("sample of {} of {} logits: temperature 0.8, top_k 40, top_p 0.95", counted(tokens, "row"), vocabulary), tokens * (vocabulary + 1) * 4, [&] {
    scene.ops().sample(logits.tensor(DType::f32, {tokens, vocabulary}), rows, out.tensor(DType::i32, {tokens}));
  });
}

struct OtherOperation { const char* name; ProfiledCase (*run)(const Scene& scene); };
constexpr OtherOperation kOtherOperations[] = {{"matmul_stored", run_matmul_stored},
                                               {"write_kv", [](const Scene& scene) { return run_write_kv(scene, false); }},
                                               {"rope_write_kv", [](const Scene& scene) { return run_write_kv(scene, true); }},
                                               {"sample", run_sample}};

[[noreturn]] void refuse_operation(const std::string& op) {
  std::vector<std::string> names;
  for (const RowOperation& known : kRowOperations) names.push_back(known.name);
  for (const OtherOperation& known : kOtherOperations) names.push_back(known.name);
  const std::string near = suggestion(op, names);
  throw Error("--op", op.empty() ? "names the operation of a backend to profile" : "'" + op + "' is no operation that can be profiled",
              fmt::format("{}", fmt::join(names, ", ")), near.empty() ? "" : "did you mean " + near + "?");
}

/// The operations' backend in place of the one that a scene brings: with the user's settings, on the emulator.
std::shared_ptr<Backend> backend_of(const Scene& scene) {
  Registry& registry = Registry::instance();
  const auto params = registry.describe(registry.find(scene.kind, scene.name));
  const auto of_gpu = [](const ParamInfo& param) { return std::ranges::find(param.kernels, "cuda", &KernelInfo::backend) != param.kernels.end(); };
  if (std::ranges::none_of(params, of_gpu))
    throw Error(scene.label(), "launches no kernel: it has none for a GPU", {}, "`patchbay list kernels` shows those of cuda");
  Settings settings = scene.own;
  const std::string choice = "kernels." + scene.options.op;  // an operation with one kernel has none
  if (!scene.options.kernel.empty() && std::ranges::find(params, choice, &ParamInfo::name) != params.end())
    set_path(settings, choice, parse_value(scene.options.kernel, choice));
  return make<Backend>(emulated_backend(&settings));
}

}  // namespace

ProfiledCase profile_operation(const ProfileOptions& options, const std::string& name) {
  Scene scene(options, KindOf<Backend>::value, name, {"kv_store"});
  const auto row = std::ranges::find_if(kRowOperations, [&](const RowOperation& known) { return options.op == known.name; });
  const auto other = std::ranges::find_if(kOtherOperations, [&](const OtherOperation& known) { return options.op == known.name; });
  if (row == std::end(kRowOperations) && other == std::end(kOtherOperations)) refuse_operation(options.op);
  scene.backend = backend_of(scene);
  return row != std::end(kRowOperations) ? run_rows(scene, *row) : other->run(scene);
}

}  // namespace patchbay::app

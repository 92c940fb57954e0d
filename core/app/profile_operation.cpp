// patchbay profile backends/NAME --op OPERATION: one dense operation.
#include <fmt/format.h>

#include <algorithm>

#include "config.h"
#include "experiment/text_table.h"
#include "profile_scene.h"
#include "registry.h"

namespace patchbay::app {
namespace {

struct Work { double bytes = 0, flops = 0; };
ProfiledCase finished(const Scene& scene, std::string title, const Work& work, FunctionRef<void()> run) {
  ProfiledCase result;
  result.title = std::move(title);
  result.launches = counted_launches(run);
  result.path = scene.ops().kernel();
  result.bytes = work.bytes, result.flops = work.flops;
  return result;
}

ProfiledCase run_rows(const Scene& scene, const DenseOperation& operation) {
  allow_options(scene.options, "--op " + scene.options.op, {"--op", "--kernel", "--tokens", "--cols"});
  const std::int64_t tokens = count_of("--tokens", scene.options.tokens, 1), cols = count_of("--cols", scene.options.cols, 256);
  if (scene.options.op == "rope" && cols % 2) throw Error("--cols", "RoPE turns pairs of values", "an even number");
  const DenseOperands operands(scene.device(), tokens, cols, cols);
  const double values = static_cast<double>(tokens * cols);
  return finished(scene, fmt::format("{} of ({},{})", operation.name, tokens, cols),
                  {operation.operands * values * static_cast<double>(bytes_of(scene.type())), operation.flops * values}, [&] { operation.run(scene.ops(), operands); });
}

ProfiledCase run_matmul_stored(const Scene& scene) {
  const auto& o = scene.options;
  allow_options(o, "--op matmul_stored, which has one kernel", {"--op", "--tokens", "--rows", "--cols"});
  const std::int64_t tokens = count_of("--tokens", o.tokens, 1), rows = count_of("--rows", o.rows, 256), cols = count_of("--cols", o.cols, 256);
  const DType type = scene.type();
  const Buffer x = random_rows(scene.device(), tokens, cols, type), w = random_rows(scene.device(), rows, cols, DType::f16), y = scene.device().allocate(tokens * rows * bytes_of(type));
  return finished(scene, fmt::format("y({0},{1}) = x({0},{2}) w({1},{2})^T, w as stored, fp16", tokens, rows, cols),
                  {static_cast<double>((rows * cols + tokens * (rows + cols)) * bytes_of(type)), 2.0 * static_cast<double>(tokens * rows * cols)}, [&] {
                    scene.ops().matmul_stored(x.tensor(type, {tokens, cols}), w.tensor(DType::f16, {rows, cols}), y.tensor(type, {tokens, rows}));
                  });
}

/// Keys and values into the cache; with queries and RoPE, or without.
ProfiledCase run_write_kv(const Scene& scene, bool with_rope) {
  const auto& o = scene.options;
  if (with_rope) allow_options(o, "--op rope_write_kv", {"--op", "--kernel", "--tokens", "--context", "--heads", "--kv-heads", "--head-size"});
  else allow_options(o, "--op write_kv", {"--op", "--kernel", "--tokens", "--context", "--kv-heads", "--head-size"});
  const CachedStep::Shape shape{count_of("--context", o.context, 0, 0), count_of("--tokens", o.tokens, 1), count_of("--kv-heads", o.kv_heads, 2), count_of("--head-size", o.head_size, 64)};
  const std::int64_t heads = count_of("--heads", o.heads, 8);
  if (with_rope && shape.head_size % 2) throw Error("--head-size", "RoPE turns pairs of values", "an even number");
  CachedStep step = cached_step(scene, shape);
  const std::string what = fmt::format("{} after {} in the cache, {} heads of {} values, cache {}", counted(shape.tokens, "token"), shape.context, shape.kv_heads, shape.head_size,
                                       step.store().format().name());
  if (!with_rope) return finished(scene, "write_kv of " + what, {step.write_bytes()}, [&] { scene.ops().write_kv(step.k(), step.v(), step.inputs().gpu(), 0); });
  const RopeOperands rope(scene.device(), heads, shape);
  const double queries = static_cast<double>(shape.tokens * heads * shape.head_size), keys = static_cast<double>(shape.tokens * shape.kv_heads * shape.head_size);
  return finished(scene, fmt::format("rope of {} query heads, and write_kv of {}", heads, what),
                  {step.write_bytes() + 2 * queries * static_cast<double>(bytes_of(scene.type())), RopeOperands::kFlops * (queries + keys)},
                  [&] { scene.ops().rope_write_kv(rope.q, step.k(), step.v(), step.inputs().positions(), rope.spec, step.inputs().gpu(), 0); });
}

ProfiledCase run_sample(const Scene& scene) {
  const auto& o = scene.options;
  allow_options(o, "--op sample", {"--op", "--kernel", "--tokens", "--cols"});
  const std::int64_t tokens = count_of("--tokens", o.tokens, 1), vocabulary = count_of("--cols", o.cols, 256);
  const SamplingOperands operands(scene.device(), tokens, vocabulary);
  return finished(scene, fmt::format("sample of {} of {} logits: temperature 0.8, top_k 40, top_p 0.95", counted(tokens, "row"), vocabulary),
                  {static_cast<double>(tokens * (vocabulary + 1) * 4), static_cast<double>(SamplingOperands::kFlops * tokens * vocabulary)},
                  [&] { scene.ops().sample(operands.logits, operands.rows, operands.tokens); });
}

struct OtherOperation { const char* name; ProfiledCase (*run)(const Scene& scene); };
constexpr OtherOperation kOtherOperations[] = {{"matmul_stored", run_matmul_stored},
                                               {"write_kv", [](const Scene& scene) { return run_write_kv(scene, false); }},
                                               {"rope_write_kv", [](const Scene& scene) { return run_write_kv(scene, true); }},
                                               {"sample", run_sample}};

[[noreturn]] void refuse_operation(const std::string& op) {
  std::vector<std::string> names;
  for (const DenseOperation& known : dense_operations()) names.emplace_back(known.name);
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
  const auto rows = dense_operations();
  const auto row = std::ranges::find(rows, options.op, &DenseOperation::name);
  const auto other = std::ranges::find_if(kOtherOperations, [&](const OtherOperation& known) { return options.op == known.name; });
  if (row == rows.end() && other == std::end(kOtherOperations)) refuse_operation(options.op);
  scene.backend = backend_of(scene);
  return row != rows.end() ? run_rows(scene, *row) : other->run(scene);
}

}  // namespace patchbay::app

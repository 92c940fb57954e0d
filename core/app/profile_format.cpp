// patchbay profile formats/NAME: a product with a weight.
#include <fmt/format.h>

#include "patchbay/gpu_linear.h"
#include "patchbay/quantizer.h"
#include "profile_scene.h"
#include "run_config.h"

namespace patchbay::app {

ProfiledCase profile_format(const ProfileOptions& o, const std::string& name) {
  allow_options(o, "a weight format", {"--kernel", "--rows", "--cols", "--tokens"});
  const std::int64_t rows = count_of("--rows", o.rows, 256), cols = count_of("--cols", o.cols, 256), tokens = count_of("--tokens", o.tokens, 1);
  const Scene scene(o, KindOf<WeightFormat>::value, name, {"quantizer", "backend"});
  require_phase(scene, tokens, kDecodeTokens);
  const auto format = make<WeightFormat>(scene.technique());
  const auto host = make<Backend>(RunConfig{}.backend);
  PackedWeight weight = format->allocate("w", rows, cols, host->device());
  const auto values = random_values(rows * cols, 1);
  make<Quantizer>(scene.other("quantizer", "rtn"))->quantize(View<const float, 2>(values.data(), {rows, cols}), {}, *format, host->device(), weight);
  const auto kernel = format->prepare(weight, scene.ops(), ActivationMode::fp32);
  const DType type = scene.type();
  const Buffer x = random_rows(scene.device(), tokens, cols, type), y = scene.device().allocate(tokens * rows * bytes_of(type));
  Activation input(ActivationMode::fp32, scene.ops());
  input.reset(x.tensor(type, {tokens, cols}));
  ProfiledCase result;
  result.title = fmt::format("y({0},{1}) = x({0},{2}) w({1},{2})^T, w as {3}", tokens, rows, cols, format->label());
  result.launches = counted_launches([&] { kernel->run(input, y.tensor(type, {tokens, rows})); });
  result.path = kernel->path();
  result.flops = 2.0 * static_cast<double>(tokens * rows * cols);
  result.bytes = static_cast<double>(format->packed_bytes(rows, cols) + tokens * (rows + cols) * bytes_of(type));
  return result;
}

}  // namespace patchbay::app

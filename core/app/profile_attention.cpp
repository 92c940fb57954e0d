// patchbay profile attention/NAME: a step's attention over a cache.
#include <fmt/format.h>

#include <cmath>

#include "engine/cached_attention.h"
#include "profile_scene.h"

namespace patchbay::app {

ProfiledCase profile_attention(const ProfileOptions& o, const std::string& name) {
  allow_options(o, "an attention", {"--kernel", "--tokens", "--context", "--heads", "--kv-heads", "--head-size"});
  const std::int64_t tokens = count_of("--tokens", o.tokens, 1), context = count_of("--context", o.context, 0, 0), heads = count_of("--heads", o.heads, 8),
                     kv_heads = count_of("--kv-heads", o.kv_heads, 2), head_size = count_of("--head-size", o.head_size, 64), width = heads * head_size;
  if (heads % kv_heads) throw Error("--kv-heads", fmt::format("{} do not divide {} heads", kv_heads, heads), "a divisor of --heads");
  const Scene scene(o, KindOf<Attention>::value, name, {"kv_store", "backend"});
  require_phase(scene, tokens, 1);
  const auto attention = make<Attention>(scene.technique());
  attention->prepare(scene.device());
  CachedStep step = cached_step(scene, {context, tokens, kv_heads, head_size});
  CachedAttention cached(*attention, step.store(), scene.ops());
  const DType type = scene.type();
  const AttentionSpec spec{static_cast<int>(heads), static_cast<int>(kv_heads), static_cast<int>(head_size),
                           1.0f / std::sqrt(static_cast<float>(head_size)), 0, 0.0f};
  const Buffer q = random_rows(scene.device(), tokens, width, type), out = scene.device().allocate(tokens * width * bytes_of(type));
  const auto shaped = [&](const Buffer& buffer) { return buffer.tensor(type, {tokens, heads, head_size}); };
  ProfiledCase result;
  result.title = fmt::format("attention of {} tokens after {} in the cache; {} heads of {}, {} of keys and values, cache {}", tokens, context, heads,
                             head_size, kv_heads, step.store().format().name());
  try {
    result.launches = counted_launches([&] { cached.attend(spec, step.plan(), step.inputs(), 0, shaped(q), shaped(out)); });
  } catch (const Error& error) {  // the technique knows the sequence alone, and as what its kernel rounds it to
    throw Error(fmt::format("--context {} --tokens {}", context, tokens), fmt::format("{}: {}", error.where(), error.problem()), error.allowed(), error.remedy());
  }
  result.path = attention->path();
  const double seen = static_cast<double>(tokens) * (static_cast<double>(context) + (static_cast<double>(tokens) + 1) / 2);
  result.flops = 4.0 * seen * static_cast<double>(width);
  result.bytes = static_cast<double>(step.store().usage().bytes_per_token * (context + tokens) + 2 * tokens * width * bytes_of(type));
  return result;
}

}  // namespace patchbay::app

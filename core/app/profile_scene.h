/// @file profile_scene.h
/// What the cases of `patchbay profile` share: the emulated device, random operands, options that must fit the case.
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dense_operations.h"
#include "patchbay/plugin.h"
#include "profile_case.h"

namespace patchbay::app {

/// The device of every case, as backend= takes it: the emulator with every check and counter on.
inline constexpr const char* kEmulatedDevice = "{type: simt, checked: true}";
/// The same with the user's settings of that backend.
PluginSpec emulated_backend(const Settings* settings = nullptr);

/// A technique, its settings under their own keys, and what it is used with (`uses`: kv_store, quantizer) under theirs.
struct Scene {
  Scene(const ProfileOptions& options, std::string kind, std::string name, std::initializer_list<std::string_view> uses);
  const ProfileOptions& options;
  std::string kind, name;
  Settings own, others;
  std::shared_ptr<Backend> backend;

  Ops& ops() const { return backend->ops(); }
  Device& device() const { return backend->device(); }
  DType type() const { return device().activations(); }
  PluginSpec technique() const { return {name, std::make_shared<Settings>(own)}; }
  PluginSpec other(const char* key, const std::string& default_type) const;
  std::string label() const { return kind + "/" + name; }
};

/// Options that say a case's shape. @throws Error for one that was given and is not among `allowed`.
void allow_options(const ProfileOptions& options, const std::string& what, std::initializer_list<std::string_view> allowed);
/// The count given, or `otherwise`. @throws Error outside of 1 (or `least`) to 2^20.
std::int64_t count_of(const char* option, const ProfileOptions::Count& given, std::int64_t otherwise, std::int64_t least = 1);
/// @throws Error when the kernel that was asked for (by --kernel, or kernel=NAME) is of the other phase than a step of so many tokens, which
/// would run another one. `decode_tokens`: so many at most are phase decode.
void require_phase(const Scene& scene, std::int64_t tokens, std::int64_t decode_tokens);

/// What `body` launches.
std::vector<gpu::KernelCounters> counted_launches(FunctionRef<void()> body);

/// A step over a cache in the scene's kv_store.
CachedStep cached_step(const Scene& scene, const CachedStep::Shape& shape);

ProfiledCase profile_format(const ProfileOptions& options, const std::string& name);
ProfiledCase profile_attention(const ProfileOptions& options, const std::string& name);
ProfiledCase profile_operation(const ProfileOptions& options, const std::string& name);

}  // namespace patchbay::app

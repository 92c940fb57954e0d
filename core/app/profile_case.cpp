#include "profile_case.h"

#include <fmt/format.h>

#include "common.h"
#include "config.h"
#include "patchbay/decoder.h"
#include "patchbay/weight_format.h"
#include "profile_scene.h"
#include "registry.h"

namespace patchbay::app {
namespace {

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

}  // namespace

ProfiledCase profile_technique(const ProfileOptions& options) {
  const PluginTable& table = Registry::instance().resolve(options.technique);
  const std::string kind = table.kind, name = table.name;
  using Profile = ProfiledCase (*)(const ProfileOptions&, const std::string&);
  const std::pair<const char*, Profile> kinds[] = {
      {KindOf<WeightFormat>::value, profile_format}, {KindOf<Attention>::value, profile_attention}, {KindOf<Backend>::value, profile_operation}};
  for (const auto& [known, profile] : kinds) {
    if (kind != known) continue;
    ProfiledCase result = profile(options, name);
    if (result.launches.empty()) throw Error(kind + "/" + name, "launched no kernel: it has none for a GPU", {}, "`patchbay list kernels` shows those of cuda");
    return result;
  }
  throw Error(options.technique, "plugins of kind " + kind + " have no kernel for a GPU, and profile counts those", "formats, attention, backends", "`patchbay list kernels cuda` shows them");
}

std::vector<ProfiledCase> profile_model(const ProfileOptions& options, Progress& progress) {
  allow_options(options, "a model's steps", {"--prompt", "--generate", "--threads"});
  const std::int64_t prompt = count_of("--prompt", options.prompt, 16), generate = count_of("--generate", options.generate, 1, 0);
  ModelOptions model = options.model;
  model.assignments.insert(model.assignments.begin(), std::string("backend=") + kEmulatedDevice);
  const auto session = open_session(model, {prompt + generate, 1});
  ModelRunner& runner = session->runner();
  Rng rng(1);  // which tokens they are changes no count
  std::vector<Token> tokens(static_cast<std::size_t>(prompt));
  for (Token& token : tokens) token = static_cast<Token>(rng.uniform() * runner.vocabulary());
  const SeqId seq = runner.open();
  std::string path;
  for (const auto& [part, kernels] : session->paths()) path += (path.empty() ? "" : "; ") + part + ": " + kernels;
  std::vector<ProfiledCase> cases;
  const auto add = [&](std::string title, const std::vector<Token>& step) {
    const auto done = static_cast<double>(cases.size()), all = static_cast<double>(generate + 1);
    progress.doing(done / all, title);
    cases.push_back({title, path, 0, 0, profile_step(runner, seq, step)});
    progress.finished((done + 1) / all, title);
  };
  add(fmt::format("prefill of {} tokens", prompt), tokens);
  for (std::int64_t i = 0; i < generate; ++i) add(fmt::format("decode of token {} after it", i + 1), {tokens[0]});
  return cases;
}

}  // namespace patchbay::app

#include "experiment/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiment/cpu_load.h"
#include "experiment/text_table.h"
#include "files.h"
#include "session_generation.h"
#include "utf8.h"

namespace patchbay {
namespace {

GenerationResult generate_one(Session& session, const DecodingTask& task, const Workload& work, std::uint64_t stream) {
  GenerationRequest request = generation_request(session, task.tokens, task.max_tokens);
  request.seed = work.seed;
  request.stream = stream;
  request.is_end = [&](Token token) { return session.tokenizer().is_end_of_generation(token); };
  GenerationOptions options = generation_options(session);
  options.between_steps = work.between_steps;
  return generate(session.runner(), {&request, 1}, options).at(0);
}

DecodingTask prefill_task(const Workload& work) { return {{}, {work.text.begin(), work.text.end()}, 1}; }

Prompt read_prompt(const std::string& line, const std::string& where) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) throw Error(escaped(where, 300), "is no JSON object", "lines such as {\"prompt\": \"Once upon a time\"}");
  for (const auto& [key, value] : json.items()) {
    if (key != "name" && key != "kind" && key != "prompt" && key != "max_tokens")
      throw Error(where + ": " + key, "unknown key", "name, kind, prompt, max_tokens");
    if (key == "max_tokens" ? !value.is_number_unsigned() || value < 1 || value > (1 << 30) : !value.is_string())
      throw Error(where + ": " + key, "wrong type or value", key == "max_tokens" ? "a positive integer" : "text");
  }
  if (json.value("prompt", "").empty()) throw Error(where, "a prompt is missing or empty");
  return {json.value("name", ""), json.value("kind", ""), json.value("prompt", ""), json.value("max_tokens", std::int64_t{0})};
}

/// What one pass over all tasks took.
struct Pass {
  std::vector<GenerationResult> results;

  double decode_seconds() const { return sum([](const auto& r) { return r.decode_seconds; }); }
  /// The first token of each comes from its prefill.
  double decoded_tokens() const { return sum([](const auto& r) { return static_cast<double>(r.tokens.size()) - 1; }); }
  double tokens_per_s() const { return decode_seconds() > 0 ? decoded_tokens() / decode_seconds() : 0; }
  double tpot_ms() const { return decoded_tokens() > 0 ? 1e3 * decode_seconds() / decoded_tokens() : 0; }
  double ttft_ms() const {
    std::vector<double> values;
    for (const auto& result : results) values.push_back(1e3 * result.first_token_seconds);
    return median(std::move(values));
  }
  template <class Value>
  double sum(Value value) const {
    double total = 0;
    for (const auto& result : results) total += value(result);
    return total;
  }
};

/// The same pass, cut by the prompts' kinds, in the order in which these are met.
std::vector<std::pair<std::string, Pass>> by_kind_of(const Pass& pass, std::span<const DecodingTask> tasks) {
  std::vector<std::pair<std::string, Pass>> kinds;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    auto found = std::ranges::find(kinds, tasks[i].prompt.kind, &std::pair<std::string, Pass>::first);
    if (found == kinds.end()) found = kinds.insert(kinds.end(), {tasks[i].prompt.kind, {}});
    found->second.results.push_back(pass.results[i]);
  }
  return kinds;
}

void add_acceptance(const Pass& pass, std::uint64_t seed, Json& metrics) {
  std::vector<double> accepted, drafted, decoded, passes;
  for (const auto& result : pass.results) {
    accepted.push_back(static_cast<double>(result.accepted));
    drafted.push_back(static_cast<double>(result.drafted));
    decoded.push_back(static_cast<double>(result.tokens.size()) - 1);
    passes.push_back(static_cast<double>(result.passes));
  }
  const auto total = [](const std::vector<double>& values) { double sum = 0; for (const double v : values) sum += v; return sum; };
  if (total(drafted) > 0)
    add_interval(metrics, "acceptance_rate", total(accepted) / total(drafted), interval_of_mean(accepted, drafted, seed));
  if (total(passes) > 0)
    add_interval(metrics, "tokens_per_pass", total(decoded) / total(passes), interval_of_mean(decoded, passes, seed));
  metrics["generated_tokens"] = static_cast<std::int64_t>(total(decoded)) + static_cast<std::int64_t>(pass.results.size());
}

Json outputs_of(const Session& session, std::span<const DecodingTask> tasks, const Pass& pass) {
  Json outputs = Json::array();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const auto& result = pass.results[i];
    Utf8Stream text;
    auto whole = text.push(session.tokenizer().decode(result.tokens)) + text.finish();
    outputs.push_back({{"name", tasks[i].prompt.name}, {"kind", tasks[i].prompt.kind}, {"tokens", result.tokens}, {"text", whole},
                       {"passes", result.passes}, {"drafted", result.drafted}, {"accepted", result.accepted}});
  }
  return outputs;
}

}  // namespace

std::vector<Prompt> read_prompts(const std::string& path, std::int64_t count) {
  std::istringstream in(read_whole_file(path));
  std::vector<std::string> kinds;
  std::map<std::string, std::vector<Prompt>> by_kind;
  std::int64_t there = 0, number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto prompt = read_prompt(line, fmt::format("{}:{}", path, number));
    auto& kind = by_kind[prompt.kind];
    if (kind.empty()) kinds.push_back(prompt.kind);
    kind.push_back(std::move(prompt));
    ++there;
  }
  if (there == 0) throw Error(escaped(path, 300), "holds no prompt", "lines such as {\"prompt\": \"Once upon a time\"}");
  if (count > there)
    throw Error(escaped(path, 300), fmt::format("holds {} where {} are asked for", counted(there, "prompt"), count), fmt::format("evaluation.prompt_count of at most {} (0: all)", there));
  std::vector<Prompt> prompts;
  const auto wanted = static_cast<std::size_t>(count == 0 ? there : count);
  for (std::size_t turn = 0; prompts.size() < wanted; ++turn)
    for (const auto& kind : kinds)
      if (turn < by_kind[kind].size() && prompts.size() < wanted) prompts.push_back(by_kind[kind][turn]);
  return prompts;
}

void warm_up(Session& session, const Workload& work, bool built) {
  if (built) run_prefill(session, work);
  auto task = work.tasks[0];
  task.max_tokens = std::min<std::int64_t>(2, task.max_tokens);
  generate_one(session, task, work, 0);
}

RunTimes time_once(Session& session, const Workload& work, const std::function<void()>& between) {
  const auto before = cpu_times();
  RunTimes times;
  times.prefill_tokens_per_s = static_cast<double>(work.text.size()) / generate_one(session, prefill_task(work), work, 0).prefill_seconds;
  Pass pass;
  for (std::size_t i = 0; i < work.tasks.size(); ++i) {
    between();
    pass.results.push_back(generate_one(session, work.tasks[i], work, i));
  }
  times.decode_tokens_per_s = pass.tokens_per_s();
  times.ttft_ms = pass.ttft_ms();
  times.tpot_ms = pass.tpot_ms();
  times.busy_share = busy_share(before, cpu_times());
  for (const auto& [kind, part] : by_kind_of(pass, work.tasks)) times.decode_tokens_per_s_of[kind] = part.tokens_per_s();
  return times;
}

void run_prefill(Session& session, const Workload& work) { generate_one(session, prefill_task(work), work, 0); }

Json decode_tasks(Session& session, const Workload& work, Json& metrics, Json& by_kind, const MeasureProgress& progress) {
  Pass pass;
  for (std::size_t i = 0; i < work.tasks.size(); ++i) {
    progress("decoding", static_cast<double>(i) / static_cast<double>(work.tasks.size()));
    pass.results.push_back(generate_one(session, work.tasks[i], work, i));
  }
  add_acceptance(pass, work.seed, metrics);
  for (const auto& [kind, part] : by_kind_of(pass, work.tasks)) {
    by_kind[kind]["prompts"] = part.results.size();
    add_acceptance(part, work.seed, by_kind[kind]);
  }
  return outputs_of(session, work.tasks, pass);
}

void add_sizes(Session& session, Json& metrics) {
  const auto sizes = session.sizes();
  metrics["weights_bytes"] = sizes.weights_bytes;
  metrics["bits_per_weight"] = sizes.bits_per_weight;
  metrics["quantized_bits_per_weight"] = sizes.quantized_parameters > 0 ? Json(sizes.quantized_bits_per_weight) : Json();
  metrics["kv_bytes_per_token"] = session.kv_store().usage().bytes_per_token;
  if (!session.device().is_host()) metrics["device_bytes"] = session.device().memory().bytes;  // weights, cache and activations
}

}  // namespace patchbay

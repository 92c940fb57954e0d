#include "quantize/calibration_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "experiment/measure.h"
#include "experiment/sha256.h"
#include "experiment/text_table.h"
#include "resources.h"
#include "session_generation.h"
#include "utf8.h"

namespace patchbay {
namespace {

constexpr std::size_t kSampledAtOnce = 32;  // sequences that the model writes side by side

std::string found_file(const CalibrationSettings& settings) {
  const std::string file = calibration_file(settings);
  if (std::filesystem::is_regular_file(file)) return file;
  const char* key = settings.prompts.empty() ? "weights.calibration.text" : "weights.calibration.prompts";
  if (std::filesystem::is_directory(file)) throw Error(key, escaped(file, 300) + " is a folder", settings.prompts.empty() ? "a file of text" : "a file of JSON lines", "name a file in it");
  throw Error(key, "no file " + escaped(file, 300), "a path from the current folder, or the YAML's");
}

/// Numbers 0 to n - 1, as many of them as are wanted, ascending, chosen by the seed.
std::vector<std::int64_t> chosen(std::int64_t n, std::int64_t wanted, std::int64_t seed) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  if (wanted >= n) return all;
  Rng rng(static_cast<std::uint64_t>(seed));
  for (std::int64_t i = 0; i < wanted; ++i) std::swap(all[i], all[i + static_cast<std::int64_t>(rng.uniform() * static_cast<double>(n - i))]);
  all.resize(static_cast<std::size_t>(wanted));
  std::ranges::sort(all);
  return all;
}

void cut_text(const CalibrationSettings& settings, const std::string& file, const Tokenizer& tokenizer, std::int64_t length, CalibrationTokens& result) {
  const EvaluationText text = evaluation_text(tokenizer, file);
  const auto there = static_cast<std::int64_t>(text.tokens.size());
  if (there < 2) throw Error(escaped(file, 300), "holds " + counted(there, "token"), "two or more", "give a longer text");
  length = std::min(length, there);
  for (const std::int64_t window : chosen(there / length, settings.samples, settings.seed)) {
    const auto begin = text.tokens.begin() + window * length;
    result.samples.emplace_back(begin, begin + length);
    if (text.bos >= 0) result.samples.back().front() = text.bos;
  }
}

void encode_prompts(const CalibrationSettings& settings, const std::string& file, const Tokenizer& tokenizer, std::int64_t length, CalibrationTokens& result) {
  for (const Prompt& prompt : read_prompts(file, 0)) {
    if (std::ssize(result.samples) == settings.samples) break;
    std::vector<Token> tokens = encode_from(file + ": " + prompt.name, tokenizer, prompt.text, true, true);
    if (std::ssize(tokens) > length) tokens.resize(static_cast<std::size_t>(length));
    if (tokens.size() > 1) result.samples.push_back(std::move(tokens));
  }
  if (result.samples.empty()) throw Error(escaped(file, 300), "no prompt has two tokens or more", {}, "give longer prompts");
}

void count(const CalibrationSettings& settings, std::int64_t context, CalibrationTokens& result) {
  CalibrationSummary& summary = result.summary;
  summary.samples = std::ssize(result.samples);
  for (const auto& sample : result.samples) summary.tokens += std::ssize(sample);
  if (summary.tokens == settings.samples * settings.length) return;
  result.note = fmt::format("calibration: {}, {} in all, where {} of {} tokens are asked for ({})", counted(summary.samples, "sample"),
                            counted(summary.tokens, "token"), settings.samples, settings.length, summary.source);
  if (settings.length > context) result.note += fmt::format("; none can be longer than the model's context of {} tokens", context);
}

}  // namespace

std::int64_t CalibrationTokens::longest() const {
  std::size_t longest = 0;
  for (const auto& sample : samples) longest = std::max(longest, sample.size());
  return static_cast<std::int64_t>(longest);
}

std::string calibration_file(const CalibrationSettings& settings) {
  if (!settings.prompts.empty()) return settings.prompts;
  const std::string text = settings.text_path();
  const bool ours = settings.text.empty();  // the text that comes with patchbay, not one of that name in the user's folder
  if (text != kCalibrationText || (!ours && std::filesystem::exists(text))) return text;
  for (const auto& place : resource_places(text))
    if (std::filesystem::exists(place)) return place.string();
  return text;
}

std::string calibration_hash(const CalibrationSettings& settings) { return settings.from_model() ? "" : sha256_of_file(found_file(settings)); }

CalibrationTokens calibration_tokens(const CalibrationSettings& settings, const Tokenizer& tokenizer, std::int64_t context) {
  const std::string file = found_file(settings);
  const std::int64_t length = std::min(settings.length, context);
  CalibrationTokens result;
  settings.prompts.empty() ? cut_text(settings, file, tokenizer, length, result) : encode_prompts(settings, file, tokenizer, length, result);
  result.summary.source = settings.prompts.empty() ? settings.text_path() : settings.prompts;
  result.summary.sha256 = sha256_of_file(file);
  count(settings, context, result);
  return result;
}

CalibrationTokens sampled_tokens(const CalibrationSettings& settings, const std::shared_ptr<const ModelFile>& file, std::int64_t context, int threads,
                                 const std::function<void(double fraction)>& progress) {
  RunConfig config;
  config.decoder = {"sampling", nullptr};
  config.threads = threads;
  const std::int64_t length = std::min(settings.length, context);
  const auto at_once = static_cast<std::int64_t>(std::min<std::size_t>(kSampledAtOnce, static_cast<std::size_t>(settings.samples)));
  Session session(file, config, {length, static_cast<int>(at_once), {}});
  const Token bos = session.tokenizer().bos();
  CalibrationTokens result;
  for (std::int64_t first = 0; first < settings.samples; first += at_once) {
    if (progress) progress(static_cast<double>(first) / static_cast<double>(settings.samples));
    std::vector<GenerationRequest> requests;
    for (std::int64_t i = first; i < std::min(first + at_once, settings.samples); ++i) {
      Rng rng(static_cast<std::uint64_t>(settings.seed), static_cast<std::uint64_t>(i));
      const Token start = bos >= 0 ? bos : static_cast<Token>(rng.uniform() * session.runner().vocabulary());
      result.samples.push_back({start});
      requests.push_back(generation_request(session, {start}, length - 1));
      requests.back().seed = static_cast<std::uint64_t>(settings.seed);
      requests.back().stream = static_cast<std::uint64_t>(i);
    }
    const auto written = generate(session.runner(), requests, generation_options(session));
    for (std::size_t i = 0; i < written.size(); ++i) {
      auto& sample = result.samples[static_cast<std::size_t>(first) + i];
      sample.insert(sample.end(), written[i].tokens.begin(), written[i].tokens.end());
    }
  }
  Sha256 hash;
  for (const auto& sample : result.samples) hash.update({reinterpret_cast<const char*>(sample.data()), sample.size() * sizeof(Token)});
  result.summary.source = "the model itself";
  result.summary.sha256 = hash.hex();
  count(settings, context, result);
  return result;
}

}  // namespace patchbay

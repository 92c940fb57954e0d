#include "idle_processors.h"

#include "patchbay/decoder.h"
#include "patchbay/plugin.h"

namespace patchbay::app {
namespace {

/// Of two equally likely tokens a decoder that takes the likeliest always takes the first; one that draws takes either.
bool draws(Decoder& decoder) {
  const float equal[] = {0, 0};
  for (std::uint64_t seed = 0; seed < 64; ++seed) {
    Sequence sequence;
    sequence.tokens = {0};
    sequence.prompt_length = sequence.max_new_tokens = 1;
    sequence.rng = Rng(seed);
    if (decoder.accept(sequence, {}, View<const float, 2>(equal, {1, 2})).next != 0) return true;
  }
  return false;
}

/// Tries a text that says the likeliest token again and again: a penalty on repetition shows, a temperature does not.
bool moves_the_likeliest(LogitsProcessor& processor, int vocabulary) {
  Rng rng(1);
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  for (float& logit : logits) logit = static_cast<float>(8 * rng.uniform() - 4);
  const Token likeliest = argmax(View<const float, 1>(logits.data(), {vocabulary}));
  for (int round = 0; round < 4; ++round) {
    std::vector<float> changed = logits;
    processor.apply(View<float, 1>(changed.data(), {vocabulary}));
    if (argmax(View<const float, 1>(changed.data(), {vocabulary})) != likeliest) return true;
    processor.push(likeliest);
  }
  return false;
}

}  // namespace

std::string idle_processors(const RunConfig& config, int vocabulary) {
  if (config.processors.empty()) return {};
  std::string idle;
  try {
    if (draws(*make<Decoder>(config.decoder))) return {};
    for (const PluginSpec& spec : config.processors)
      if (!moves_the_likeliest(*make<LogitsProcessor>(spec), vocabulary)) idle += (idle.empty() ? "" : ", ") + spec.type;
  } catch (const Error&) {
    return {};  // one that cannot do with made-up logits: nothing is known
  }
  if (idle.empty()) return {};
  return idle + ": no effect, since decoder " + config.decoder.type + " takes the likeliest token; leave out, or let it draw (decoder=sampling)";
}

std::string idle_processors(Session& session) { return idle_processors(session.config(), session.runner().vocabulary()); }

}  // namespace patchbay::app

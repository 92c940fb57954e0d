/// @file metrics.h
/// From raw results to metrics: plain numbers, units in their names, each interval beside it as NAME_ci.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>

#include "experiment/bootstrap.h"
#include "experiment/evaluation.h"

namespace patchbay {

using Json = nlohmann::ordered_json;

/// Neighbouring tokens are alike: intervals resample blocks of this many scored tokens (a window's last block may be shorter).
inline constexpr std::int64_t kBlockTokens = 32;

PATCHBAY_API void add_perplexity(Json& metrics, const TokenScores& scores, std::uint64_t seed);
/// perplexity_ratio: paired, the same blocks drawn for both; and perplexity_ratio_p, of "it is 1".
PATCHBAY_API void add_perplexity_ratio(Json& metrics, const TokenScores& scores, const TokenScores& baseline, std::uint64_t seed);
/// nll_difference: mean of scores - other in nats per token, paired in the same way.
PATCHBAY_API void add_nll_difference(Json& metrics, const TokenScores& scores, const TokenScores& other, std::uint64_t seed);
/// against_perplexity_ratio and, where both hold a divergence from the one baseline, the differences against_kl_nats and
/// against_top1_agreement: scores by or less `other`, paired in the same way, each with its p-value of "they are equal".
PATCHBAY_API void add_against(Json& metrics, const TokenScores& scores, const TokenScores& other, std::uint64_t seed);
/// kl_nats, top1_agreement, flips. Needs scores that hold a divergence.
PATCHBAY_API void add_divergence(Json& metrics, const TokenScores& scores, std::uint64_t seed);
/// NAME: the median of the values; NAME_ci; NAME_values.
PATCHBAY_API void add_timing(Json& metrics, const std::string& name, std::span<const double> values, std::uint64_t seed);
/// NAME, and NAME_ci where there is an interval.
PATCHBAY_API void add_interval(Json& metrics, const std::string& name, double value, const std::optional<Interval>& interval);

}  // namespace patchbay

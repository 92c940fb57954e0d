/// @file draft_rules.h
/// What the step loop demands of a draft and of what a decoder keeps of it.
#pragma once
#include "patchbay/decoder.h"

namespace patchbay {

/// @throws Error when the draft is no tree whose parents come first, or has probabilities of another size than (n, vocabulary).
void check_draft(const Draft& draft, std::int64_t vocabulary);

/// The draft without what could not be emitted or cached: tokens deeper than `depth`, and those beyond `rows` in all.
Draft clip_draft(const Draft& draft, std::int64_t depth, std::int64_t rows, std::int64_t vocabulary);

/// @throws Error unless each kept token follows the one before it.
void check_path(const Draft& draft, const Accepted& accepted);

}  // namespace patchbay

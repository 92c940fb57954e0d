/// @file session_generation.h
/// What a session brings to generate(): one place for all who decode with it.
#pragma once
#include <vector>

#include "generation.h"
#include "session.h"

namespace patchbay {

/// A request for up to `max_tokens` after the prompt, by the session's decoder and processors. Seed, stream and callbacks are the caller's.
PATCHBAY_API GenerationRequest generation_request(const Session& session, std::vector<Token> prompt, std::int64_t max_tokens);
/// How the session's techniques take part in generate().
PATCHBAY_API GenerationOptions generation_options(Session& session);

}  // namespace patchbay

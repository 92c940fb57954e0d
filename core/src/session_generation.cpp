#include "session_generation.h"

#include <utility>

namespace patchbay {

GenerationRequest generation_request(const Session& session, std::vector<Token> prompt, std::int64_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.decoder = session.make_decoder();
  request.processors = session.make_processors();
  return request;
}

GenerationOptions generation_options(Session& session) {
  GenerationOptions options;
  options.max_batched_tokens = session.config().max_batched_tokens;
  options.retention = &session.retention();
  options.prefix = &session.prefix();
  return options;
}

}  // namespace patchbay

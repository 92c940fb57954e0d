#include "experiment/session_pool.h"

#include "patchbay/kv_store.h"

namespace patchbay {

void SessionPool::visit(std::size_t run, const std::function<void(Session&, bool)>& visit) {
  if (const auto found = kept_.find(run); found != kept_.end()) return visit(*found->second, false);
  auto session = build_(run);
  visit(*session, true);
  const auto bytes = session->sizes().weights_bytes + session->kv_store().usage().bytes_reserved;
  if (kept_bytes_ + bytes > budget_bytes_) return;
  kept_bytes_ += bytes;
  kept_[run] = std::move(session);
}

}  // namespace patchbay

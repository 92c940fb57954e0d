/// @file session_pool.h
/// Sessions that are visited in turn, some of them kept loaded.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "session.h"

namespace patchbay {

/// Keeps sessions while their weights and caches together fit into a budget, the first to come; the others are built anew at each
/// visit, one at a time. In a round of visits nothing is gained by dropping a kept one for another.
class PATCHBAY_API SessionPool {
 public:
  using Build = std::function<std::unique_ptr<Session>(std::size_t run)>;
  SessionPool(Build build, std::int64_t budget_bytes) : build_(std::move(build)), budget_bytes_(budget_bytes) {}

  /// `visit(session, built)`; built: it was made for this visit.
  void visit(std::size_t run, const std::function<void(Session& session, bool built)>& visit);
  std::int64_t kept_bytes() const { return kept_bytes_; }

 private:
  Build build_;
  std::int64_t budget_bytes_, kept_bytes_ = 0;
  std::map<std::size_t, std::unique_ptr<Session>> kept_;
};

}  // namespace patchbay

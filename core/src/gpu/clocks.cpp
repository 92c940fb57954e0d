#include "gpu/clocks.h"

#include <algorithm>

namespace patchbay::gpu::emulator {
namespace {

/// What was handed on at each address that atomics of this launch touched.
std::map<const void*, Foreign>& handed_on() {
  static auto* by_address = new std::map<const void*, Foreign>;
  return *by_address;
}

void learn(Foreign& mine, const Foreign& theirs) {
  for (const auto& [epoch, clocks] : theirs) {
    auto& known = mine[epoch];
    known.resize(std::max(known.size(), clocks.size()), 0);
    for (std::size_t i = 0; i < clocks.size(); ++i) known[i] = std::max(known[i], clocks[i]);
  }
}

}  // namespace

void BlockClocks::begin_launch() { handed_on().clear(); }

void BlockClocks::begin(unsigned threads, std::uint32_t epoch) {
  threads_ = threads;
  epoch_ = epoch;
  clocks_.assign(std::size_t{threads} * threads, 0);
  for (unsigned rank = 0; rank < threads; ++rank) seen_by(rank)[rank] = 1;
  foreign_.assign(threads, nullptr);
  fenced_.clear();
}

bool BlockClocks::knows(unsigned rank, std::uint32_t epoch, unsigned other, std::uint32_t clock) const {
  if (epoch == epoch_) return seen_by(rank)[other] >= clock;
  if (!foreign_[rank]) return false;
  const auto found = foreign_[rank]->find(epoch);
  return found != foreign_[rank]->end() && other < found->second.size() && found->second[other] >= clock;
}

void BlockClocks::join(Thread* const* threads, std::size_t count) {
  std::vector<std::uint32_t> all(threads_, 0);
  std::shared_ptr<Foreign> foreign;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned rank = threads[i]->rank;
    const std::uint32_t* seen = seen_by(rank);
    for (unsigned k = 0; k < threads_; ++k) all[k] = std::max(all[k], seen[k]);
    if (!foreign_[rank] || foreign_[rank] == foreign) continue;
    if (!foreign) foreign = std::make_shared<Foreign>(*foreign_[rank]);
    else learn(*foreign, *foreign_[rank]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned rank = threads[i]->rank;
    std::copy(all.begin(), all.end(), seen_by(rank));
    ++seen_by(rank)[rank];
    foreign_[rank] = foreign;
  }
}

Foreign& BlockClocks::foreign_of(unsigned rank) {
  auto& mine = foreign_[rank];
  mine = mine ? std::make_shared<Foreign>(*mine) : std::make_shared<Foreign>();  // others may share the old one
  return *mine;
}

void BlockClocks::fence(unsigned rank) {
  Foreign& fenced = fenced_[rank];
  if (foreign_[rank]) learn(fenced, *foreign_[rank]);
  const std::uint32_t* seen = seen_by(rank);
  learn(fenced, {{epoch_, std::vector<std::uint32_t>(seen, seen + threads_)}});
  ++seen_by(rank)[rank];  // what comes after the fence is not handed on
}

void BlockClocks::atomic(unsigned rank, const void* address) {
  auto& by_address = handed_on();
  if (const auto found = by_address.find(address); found != by_address.end()) {
    learn(foreign_of(rank), found->second);
    if (const auto own = found->second.find(epoch_); own != found->second.end())
      for (unsigned k = 0; k < threads_ && k < own->second.size(); ++k) seen_by(rank)[k] = std::max(seen_by(rank)[k], own->second[k]);
  }
  if (const auto fenced = fenced_.find(rank); fenced != fenced_.end()) learn(by_address[address], fenced->second);
}

}  // namespace patchbay::gpu::emulator

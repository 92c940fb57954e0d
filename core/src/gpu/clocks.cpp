#include "gpu/clocks.h"

#include <algorithm>

namespace patchbay::gpu::emulator {
namespace {

/// What was handed on at each address that atomics of this launch touched.
std::map<const void*, Foreign>& handed_on() {
  static auto* by_address = new std::map<const void*, Foreign>;
  return *by_address;
}

void learn(std::vector<std::uint32_t>& mine, const std::vector<std::uint32_t>& theirs) {
  mine.resize(std::max(mine.size(), theirs.size()), 0);
  for (std::size_t i = 0; i < theirs.size(); ++i) mine[i] = std::max(mine[i], theirs[i]);
}
void learn(Foreign& mine, const Foreign& theirs) {
  for (const auto& [epoch, clocks] : theirs) learn(mine[epoch], clocks);
}

}  // namespace

void BlockClocks::begin_launch() { handed_on().clear(); }

void BlockClocks::begin(unsigned threads, std::uint32_t epoch) {
  threads_ = threads;
  epoch_ = epoch;
  own_.assign(threads, 1);
  seen_.assign(threads, nullptr);
  fenced_.clear();
}

bool BlockClocks::knows_foreign(unsigned rank, std::uint32_t epoch, unsigned other, std::uint32_t clock) const {
  if (!seen_[rank]) return false;
  const auto found = seen_[rank]->foreign.find(epoch);
  return found != seen_[rank]->foreign.end() && other < found->second.size() && found->second[other] >= clock;
}

void BlockClocks::join(Thread* const* threads, std::size_t count) {
  const auto all = std::make_shared<Knowledge>();
  all->clocks.assign(threads_, 0);
  const Knowledge* last = nullptr;  // neighbours mostly share theirs
  for (std::size_t i = 0; i < count; ++i) {
    const Knowledge* seen = seen_[threads[i]->rank].get();
    if (!seen || seen == last) continue;
    learn(all->clocks, seen->clocks);
    learn(all->foreign, seen->foreign);
    last = seen;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned rank = threads[i]->rank;
    all->clocks[rank] = std::max(all->clocks[rank], own_[rank]++);
    seen_[rank] = all;
  }
}

BlockClocks::Knowledge& BlockClocks::knowledge_of(unsigned rank) {
  auto& mine = seen_[rank];
  mine = mine ? std::make_shared<Knowledge>(*mine) : std::make_shared<Knowledge>(std::vector<std::uint32_t>(threads_), Foreign{});
  return *mine;
}

void BlockClocks::fence(unsigned rank) {
  Foreign& fenced = fenced_[rank];
  auto& own_block = fenced[epoch_];
  own_block.resize(threads_, 0);
  if (const Knowledge* seen = seen_[rank].get()) {
    learn(fenced, seen->foreign);
    learn(own_block, seen->clocks);
  }
  own_block[rank] = own_[rank]++;  // what comes after the fence is not handed on
}

void BlockClocks::atomic(unsigned rank, const void* address) {
  auto& by_address = handed_on();
  if (const auto found = by_address.find(address); found != by_address.end()) {
    Knowledge& mine = knowledge_of(rank);
    learn(mine.foreign, found->second);
    if (const auto own = found->second.find(epoch_); own != found->second.end()) learn(mine.clocks, own->second);
  }
  if (const auto fenced = fenced_.find(rank); fenced != fenced_.end()) learn(by_address[address], fenced->second);
}

}  // namespace patchbay::gpu::emulator

#include "gpu/counters.h"

#include <algorithm>
#include <tuple>

namespace patchbay::gpu {

const char* emulator::name_of(Instruction what) {
  constexpr const char* kNames[kInstructions] = {
      "global load", "global store", "global atomic", "shared load", "shared store", "shared atomic", "async copy", "constant load",
      "ldmatrix", "mma", "shuffle", "vote", "reduce", "match", "syncwarp", "barrier"};
  return kNames[static_cast<int>(what)];
}

KernelCounters::Traffic KernelCounters::global_traffic() const {
  Traffic all;
  for (const SiteCounters& site : sites) {
    if (site.shared || site.what == Instruction::constant_load) continue;
    all.requests += site.requests, all.sectors += site.sectors, all.bytes += site.bytes, all.unique_bytes += site.unique_bytes;
  }
  return all;
}
KernelCounters::Banks KernelCounters::shared_traffic() const {
  Banks all;
  for (const SiteCounters& site : sites)
    if (site.shared) all.requests += site.requests, all.wavefronts += site.wavefronts, all.least_wavefronts += site.least_wavefronts;
  return all;
}
BranchCounters KernelCounters::all_branches() const {
  BranchCounters all;
  for (const BranchCounters& branch : branches) all.executed += branch.executed, all.divergent += branch.divergent;
  return all;
}

namespace {

void add(SiteCounters& to, const SiteCounters& from) {
  // The worse pattern of the two; sectors and wavefronts of one request are not kept, their means are.
  if (std::max(from.sectors_per_request(), from.conflict_degree()) > std::max(to.sectors_per_request(), to.conflict_degree()) || !to.worst.lanes)
    to.worst = from.worst;
  to.requests += from.requests, to.lanes += from.lanes, to.bytes += from.bytes, to.unique_bytes += from.unique_bytes;
  to.sectors += from.sectors, to.wavefronts += from.wavefronts, to.least_wavefronts += from.least_wavefronts;
}
void add(BranchCounters& to, const BranchCounters& from) { to.executed += from.executed, to.divergent += from.divergent; }

/// Adds up what has the same key, keeping the order of first appearance.
template <class Counters, class Key>
void merge(std::vector<Counters>& all, Key key) {
  std::vector<Counters> merged;
  for (Counters& counters : all) {
    const auto same = std::ranges::find_if(merged, [&](const Counters& other) { return key(other) == key(counters); });
    if (same != merged.end()) add(*same, counters);
    else merged.push_back(std::move(counters));
  }
  all = std::move(merged);
}

}  // namespace

void merge_lines(KernelCounters& kernel) {
  merge(kernel.sites, [](const SiteCounters& site) { return std::tie(site.line, site.what, site.shared); });
  merge(kernel.branches, [](const BranchCounters& branch) { return std::tie(branch.line); });
  std::ranges::stable_sort(kernel.sites, std::greater<>(), [](const SiteCounters& site) { return site.sectors + site.wavefronts; });
  std::ranges::stable_sort(kernel.branches, std::greater<>(), [](const BranchCounters& branch) { return branch.divergent; });
}

std::vector<KernelCounters> merge_launches(const std::vector<KernelCounters>& launches) {
  const auto key = [](const KernelCounters& k) {
    return std::make_tuple(k.function, k.grid.x, k.grid.y, k.grid.z, k.block.x, k.block.y, k.block.z, k.shared_bytes);
  };
  std::vector<KernelCounters> merged;
  for (const KernelCounters& launch : launches) {
    const auto same = std::ranges::find_if(merged, [&](const KernelCounters& other) { return key(other) == key(launch); });
    if (same == merged.end()) {
      merged.push_back(launch);
      continue;
    }
    same->launches += launch.launches;
    for (int i = 0; i < kInstructions; ++i) same->instructions[static_cast<std::size_t>(i)] += launch.instructions[static_cast<std::size_t>(i)];
    for (const auto& [name, flops] : launch.tensor_flops) same->tensor_flops[name] += flops;
    same->read_bytes += launch.read_bytes, same->written_bytes += launch.written_bytes;
    same->basic_blocks += launch.basic_blocks, same->basic_block_lanes += launch.basic_block_lanes;
    same->dropped += launch.dropped;
    same->sites.insert(same->sites.end(), launch.sites.begin(), launch.sites.end());
    same->branches.insert(same->branches.end(), launch.branches.begin(), launch.branches.end());
    merge_lines(*same);
  }
  return merged;
}

}  // namespace patchbay::gpu

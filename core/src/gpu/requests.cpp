#include "gpu/requests.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace patchbay::gpu {

void sectors_of(const Request& request, std::vector<std::uint64_t>& sectors) {
  sectors.clear();
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!request.has(lane) || !request.bytes[lane]) continue;
    const std::uint64_t last = (request.address[lane] + request.bytes[lane] - 1) / kSectorBytes;
    for (std::uint64_t s = request.address[lane] / kSectorBytes; s <= last; ++s)
      if (sectors.empty() || sectors.back() != s) sectors.push_back(s);
  }
  if (!std::ranges::is_sorted(sectors)) std::ranges::sort(sectors);
  sectors.erase(std::unique(sectors.begin(), sectors.end()), sectors.end());
}

std::uint64_t unique_bytes(const Request& request) {
  std::pair<std::uint64_t, std::uint64_t> spans[32];
  std::size_t count = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (request.has(lane)) spans[count++] = {request.address[lane], request.address[lane] + request.bytes[lane]};
  if (!std::is_sorted(spans, spans + count)) std::sort(spans, spans + count);
  std::uint64_t total = 0, end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t begin = std::max(spans[i].first, end);
    if (spans[i].second > begin) total += spans[i].second - begin;
    end = std::max(end, spans[i].second);
  }
  return total;
}

namespace {

/// Wavefronts of the lanes [first, first + count), whose accesses go together.
int wavefronts_of_phase(const Request& request, unsigned first, unsigned count, bool atomic) {
  std::vector<std::uint64_t> words[kBanks];
  for (unsigned lane = first; lane < first + count; ++lane) {
    if (!request.has(lane) || !request.bytes[lane]) continue;
    const std::uint64_t last = (request.address[lane] + request.bytes[lane] - 1) / kBankBytes;
    for (std::uint64_t word = request.address[lane] / kBankBytes; word <= last; ++word) {
      auto& bank = words[word % kBanks];
      if (atomic || std::ranges::find(bank, word) == bank.end()) bank.push_back(word);
    }
  }
  std::size_t most = 0;
  for (const auto& bank : words) most = std::max(most, bank.size());
  return static_cast<int>(most);
}

}  // namespace

Wavefronts wavefronts_of(const Request& request, bool atomic) {
  int widest = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (request.has(lane)) widest = std::max<int>(widest, request.bytes[lane]);
  const unsigned together = lanes_together(widest);
  Wavefronts all;
  for (unsigned first = 0; first < 32; first += together) {
    const int needed = wavefronts_of_phase(request, first, together, atomic);
    all.needed += needed;
    all.least += needed > 0;
  }
  return all;
}

}  // namespace patchbay::gpu

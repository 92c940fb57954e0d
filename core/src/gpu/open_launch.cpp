#include "gpu/open_launch.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>

#include "gpu/device_memory.h"
#include "gpu/source_line.h"

namespace patchbay::gpu {

using emulator::Block;

AccessPattern pattern_of(const Request& request, const WarpRequests& warp, bool shared) {
  AccessPattern pattern;
  pattern.lanes = request.lanes;
  pattern.block = warp.block->number, pattern.warp = warp.number;
  const unsigned first = static_cast<unsigned>(std::countr_zero(request.lanes));
  std::uint64_t base = request.address[first];
  if (shared) {
    for (const auto& variable : warp.block->variables) {
      const auto begin = reinterpret_cast<std::uint64_t>(variable.address);
      if (base >= begin && base < begin + variable.bytes) {
        base = begin, pattern.object = variable.name;
        break;
      }
    }
  } else if (const auto* allocation = emulator::DeviceMemory::instance().find(reinterpret_cast<const void*>(base))) {
    base = reinterpret_cast<std::uint64_t>(allocation->address), pattern.object = allocation->name;
  }
  for (unsigned lane = 0; lane < 32; ++lane)
    if (request.has(lane)) pattern.offset[lane] = static_cast<std::int64_t>(request.address[lane] - base), pattern.bytes[lane] = request.bytes[lane];
  return pattern;
}

namespace {

/// Where the branch of each block is: the last instruction before the block that follows it in memory, if it led there; else the block's
/// own beginning.
std::vector<const void*> branch_addresses(const std::vector<CodeBlock>& blocks) {
  std::vector<std::int32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::less<>(), [&](std::int32_t i) { return blocks[static_cast<std::size_t>(i)].pc; });
  std::vector<const void*> addresses(blocks.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const CodeBlock& block = blocks[static_cast<std::size_t>(order[i])];
    const void*& address = addresses[static_cast<std::size_t>(order[i])];
    address = block.pc;
    if (i + 1 == order.size() || (order[i + 1] != block.to[0] && order[i + 1] != block.to[1])) continue;
    const auto* next = static_cast<const unsigned char*>(blocks[static_cast<std::size_t>(order[i + 1])].pc);
    address = next - (next[-5] == 0xE8 ? 5 : 6);  // x86-64: call near, or by way of a table
  }
  return addresses;
}

}  // namespace

KernelCounters finished(OpenLaunch& launch) {
  KernelCounters result = std::move(launch.counters);
  result.kernel = emulator::kernel_name(result.function);
  result.read_bytes = launch.read.bytes(), result.written_bytes = launch.written.bytes();
  std::vector<const void*> addresses;
  for (const Site& site : launch.sites) addresses.push_back(site.pc);
  for (const void* address : branch_addresses(launch.blocks)) addresses.push_back(address);
  const auto lines = emulator::source_lines(addresses);
  auto line = lines.begin();
  for (Site& site : launch.sites) {
    site.counters.line = site.call.line ? emulator::text_of(site.call) : line->text;
    result.sites.push_back(std::move(site.counters));
    ++line;
  }
  for (CodeBlock& block : launch.blocks) {
    block.counters.line = line->text;
    // What only the emulator branches on, in the conversion of a half for instance, is no branch of the kernel.
    if (block.to[1] >= 0 && !line->emulators) result.branches.push_back(std::move(block.counters));
    ++line;
  }
  merge_lines(result);
  return result;
}

}  // namespace patchbay::gpu

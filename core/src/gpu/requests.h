/// @file requests.h
/// How the memory system serves one access of a warp: sectors of global memory, banks of shared memory.
#pragma once
#include <cstdint>
#include <vector>

#include "gpu/counters.h"

namespace patchbay::gpu {

/// What the lanes of a warp ask of memory in one instruction.
struct Request {
  std::uint32_t lanes = 0;  ///< bit l: lane l takes part
  std::uint16_t bytes[32];
  std::uint64_t address[32];
  void add(unsigned lane, std::uint64_t where, std::size_t size) {
    lanes |= 1u << lane;
    address[lane] = where;
    bytes[lane] = static_cast<std::uint16_t>(size);
  }
  bool has(unsigned lane) const { return lanes >> lane & 1; }
};

/// The numbers (address / 32) of the sectors touched, ascending, into `sectors`.
PATCHBAY_API void sectors_of(const Request& request, std::vector<std::uint64_t>& sectors);
/// Bytes touched, those of several lanes once.
PATCHBAY_API std::uint64_t unique_bytes(const Request& request);

/// How many neighbouring lanes go through the banks at once when each moves so many bytes.
constexpr unsigned lanes_together(int bytes) { return bytes <= 4 ? 32 : bytes <= 8 ? 16 : 8; }
struct Wavefronts { int needed = 0, least = 0; };
/// 32 banks of 4 bytes; in one wavefront a bank gives one word, to all lanes that want it. Lanes go together all 32 for accesses of up to
/// 4 bytes, by halves of a warp for 8 bytes, by quarters for 16. Atomics on one word wait for one another.
PATCHBAY_API Wavefronts wavefronts_of(const Request& request, bool atomic = false);

}  // namespace patchbay::gpu

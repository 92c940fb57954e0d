/// @file counters.h
/// What a profile says of a kernel. Every figure counts instructions of warps, as a GPU issues them; docs/profiling.md says what each means.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gpu/observer.h"

namespace patchbay::gpu {

using emulator::Instruction;
inline constexpr int kInstructions = static_cast<int>(Instruction::barrier) + 1;
inline constexpr int kSectorBytes = 32, kBanks = 32, kBankBytes = 4;
namespace emulator { PATCHBAY_API const char* name_of(Instruction what); }

/// One warp's access by one instruction: which bytes each lane touched, as offsets in the object that they lie in.
struct AccessPattern {
  std::string object;             ///< name of the allocation or shared variable; may be ""
  std::uint32_t lanes = 0;        ///< bit l: lane l took part
  std::int64_t offset[32] = {};
  int bytes[32] = {};
  unsigned block = 0, warp = 0;
};

/// One instruction that touches memory. A request is one execution by a warp.
struct SiteCounters {
  std::string line;               ///< "gemm.cu:31"
  Instruction what{};
  bool shared = false;            ///< the side that is counted here: a cp.async has two
  std::uint64_t requests = 0, lanes = 0;
  std::uint64_t bytes = 0;        ///< summed over lanes
  std::uint64_t unique_bytes = 0; ///< summed over requests, bytes that several lanes of one share counted once
  std::uint64_t sectors = 0;      ///< global: 32-byte sectors touched, summed over requests
  std::uint64_t wavefronts = 0;   ///< shared: passes through the banks
  std::uint64_t least_wavefronts = 0;  ///< without bank conflicts
  AccessPattern worst;            ///< of the request with the most sectors or wavefronts, the first of them

  double sectors_per_request() const { return ratio(sectors, requests); }
  /// The part of the sectors' bytes that a lane asked for.
  double used() const { return ratio(unique_bytes, sectors * kSectorBytes); }
  /// Passes per pass that are needed: 1 is free of conflicts.
  double conflict_degree() const { return ratio(wavefronts, least_wavefronts); }
  std::uint64_t conflicts() const { return wavefronts - least_wavefronts; }
  static double ratio(std::uint64_t a, std::uint64_t b) { return b ? static_cast<double>(a) / static_cast<double>(b) : 0.0; }
};

/// A basic block that has been left by more than one way.
struct BranchCounters {
  std::string line;
  std::uint64_t executed = 0;     ///< by warps
  std::uint64_t divergent = 0;    ///< of them, with lanes that went different ways
};

/// One launch, or several of one kernel and shape added up.
struct KernelCounters {
  std::string kernel;
  const void* function = nullptr;
  dim3 grid, block;
  std::size_t shared_bytes = 0;   ///< of a block, static and dynamic
  std::uint64_t launches = 1;
  std::array<std::uint64_t, kInstructions> instructions{};
  std::map<std::string, std::int64_t> tensor_flops;  ///< of mma instructions, by their kind
  std::uint64_t read_bytes = 0, written_bytes = 0;  ///< global sectors touched at least once, in bytes
  std::uint64_t basic_blocks = 0, basic_block_lanes = 0;  ///< executed by warps, and by lanes
  std::uint64_t dropped = 0;      ///< accesses left out because a warp's lanes were too far apart
  std::vector<SiteCounters> sites;      ///< the costliest first, one per line and kind
  std::vector<BranchCounters> branches; ///< the most divergent first, one per line

  std::uint64_t count(Instruction what) const { return instructions[static_cast<std::size_t>(what)]; }
  std::uint64_t blocks() const { return std::uint64_t{grid.x} * grid.y * grid.z; }
  unsigned threads() const { return block.x * block.y * block.z; }
  /// Sums over the sites.
  struct Traffic { std::uint64_t requests = 0, sectors = 0, bytes = 0, unique_bytes = 0; };
  PATCHBAY_API Traffic global_traffic() const;
  struct Banks { std::uint64_t requests = 0, wavefronts = 0, least_wavefronts = 0; };
  PATCHBAY_API Banks shared_traffic() const;
  PATCHBAY_API BranchCounters all_branches() const;
};

/// "gemm<__half>" of "void a::(anonymous namespace)::gemm<__half>(__half const*, int)", and of the same as ncu writes it.
PATCHBAY_API std::string short_kernel_name(std::string name);
/// Adds up sites and branches of one line (and kind), and sorts them.
void merge_lines(KernelCounters& kernel);
/// Adds up launches of the same kernel and shape, in the order of their first launch.
PATCHBAY_API std::vector<KernelCounters> merge_launches(const std::vector<KernelCounters>& launches);

}  // namespace patchbay::gpu

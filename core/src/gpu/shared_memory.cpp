// The shared memory of a block: an arena in which variables are laid down as the kernel first meets them, with gaps between.
#include <sys/mman.h>

#include <cstring>

#include "gpu/sanitizer.h"
#include "gpu/state.h"
#include "patchbay/error.h"

namespace patchbay::gpu::emulator {
namespace {

constexpr std::size_t kStaticLimit = 48 * 1024;  // what the compiler lets a kernel declare

char* lay_down(Block& block, const void* key, const char* name, std::size_t bytes) {
  block.shared_bytes += bytes;
  const int architecture = worker->launch->architecture;
  if (const std::size_t limit = shared_limit(architecture); block.shared_bytes > limit)
    fail("shared memory: " + std::to_string(block.shared_bytes) + " bytes with '" + name + "', more than the " + std::to_string(limit) +
         " of a block on sm_" + std::to_string(architecture));
  // Aligned to 16 bytes and to no more: a kernel that counts on more is found out.
  char* address = block.arena + ((block.arena_used + kSharedGap + 31) & ~std::size_t{31}) + 16;
  block.arena_used = static_cast<std::size_t>(address - block.arena) + bytes;
  unpoison(address, bytes);
  std::memset(address, 0xFF, bytes);  // whatever was there: NaN in every float format
  block.variables.push_back({key, name, address, bytes});
  return address;
}

}  // namespace

void begin_shared_memory(Block& block, std::size_t dynamic_bytes) {
  block.arena_used = block.shared_bytes = block.static_bytes = 0;
  block.variables.clear();
  if (!block.arena) {
    void* memory = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw Error("emulator", "no memory for a block's shared memory");
    block.arena = static_cast<char*>(memory);
  }
  poison(block.arena, kArenaBytes);
  block.dynamic = lay_down(block, nullptr, "dynamic shared memory", dynamic_bytes);
}

void release_shared_memory(Block& block) {
  unpoison(block.arena, kArenaBytes);
  munmap(block.arena, kArenaBytes);
  block.arena = nullptr;
}

void* static_shared(const void* key, std::size_t bytes, const char* name) {
  const Quiet quiet;
  Block& block = *worker->current->block;
  for (const auto& variable : block.variables)
    if (variable.key == key) return variable.address;
  block.static_bytes += bytes;
  if (block.static_bytes > kStaticLimit)
    fail("shared memory: " + std::to_string(block.static_bytes) + " bytes of static variables with '" + name + "', and CUDA allows " +
             std::to_string(kStaticLimit),
         "use PATCHBAY_DYNAMIC_SHARED");
  return lay_down(block, key, name, bytes);
}
void* dynamic_shared() { return worker->current->block->dynamic; }

}  // namespace patchbay::gpu::emulator

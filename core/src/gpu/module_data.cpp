#include "gpu/module_data.h"

#include <link.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "patchbay/gpu/emulator_runtime.h"

extern PATCHBAY_API constinit thread_local uint3 threadIdx, blockIdx;
extern PATCHBAY_API constinit thread_local dim3 blockDim, gridDim;

namespace patchbay::gpu::emulator {
namespace {

struct Range { std::uintptr_t begin, end; };

std::vector<Range> ranges_of_modules() {
  std::vector<Range> ranges;
  dl_iterate_phdr([](dl_phdr_info* info, std::size_t, void* data) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD) continue;
      const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
      static_cast<std::vector<Range>*>(data)->push_back({begin, begin + part.p_memsz});
    }
    return 0;
  }, &ranges);
  std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.begin < b.begin; });
  return ranges;
}

bool within(const std::vector<Range>& ranges, std::uintptr_t address) {
  const auto next = std::upper_bound(ranges.begin(), ranges.end(), address, [](std::uintptr_t a, Range r) { return a < r.begin; });
  return next != ranges.begin() && address < std::prev(next)->end;
}

template <class T> bool is_part_of(const T& variable, std::uintptr_t address) {
  return address - reinterpret_cast<std::uintptr_t>(&variable) < sizeof(T);
}

}  // namespace

bool is_module_data(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  static thread_local std::vector<Range> known = ranges_of_modules();
  if (within(known, address)) return true;
  known = ranges_of_modules();  // a plugin may have been loaded since
  return within(known, address);
}

bool is_thread_index(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return is_part_of(threadIdx, address) || is_part_of(blockIdx, address) || is_part_of(blockDim, address) || is_part_of(gridDim, address);
}

}  // namespace patchbay::gpu::emulator

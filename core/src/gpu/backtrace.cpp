#include "gpu/backtrace.h"

#include <unwind.h>

#include "gpu/source_line.h"

namespace patchbay::gpu::emulator {
namespace {

struct Walk {
  std::uintptr_t module;   ///< base of the kernel's library
  const void* from;
  Callers found{};
  std::size_t count = 0;
  int frames = 0;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* data) {
  constexpr int kMostFrames = 200;
  Walk& walk = *static_cast<Walk*>(data);
  const auto* pc = reinterpret_cast<const void*>(_Unwind_GetIP(context));
  if (++walk.frames > kMostFrames || walk.count == walk.found.size()) return _URC_END_OF_STACK;
  if (walk.from && walk.count == 0 && pc != walk.from) return _URC_NO_REASON;
  if (module_of(pc).base != walk.module) return walk.count ? _URC_END_OF_STACK : _URC_NO_REASON;
  walk.found[walk.count++] = pc;
  return _URC_NO_REASON;
}

}  // namespace

Callers callers_in_kernel(const void* kernel, const void* pc) {
  Walk walk{module_of(kernel).base, pc};
  if (walk.module) _Unwind_Backtrace(visit, &walk);
  return walk.found;
}

}  // namespace patchbay::gpu::emulator

/// @file module_data.h
/// The variables of the library that a kernel is part of: __device__ and __constant__ ones, tables, and the host's statics. Known from its table of
/// symbols; memory of other libraries is never a kernel's.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "gpu/shadow.h"

namespace patchbay::gpu::emulator {

struct ModuleVariable {
  std::uintptr_t begin = 0, end = 0;
  std::string name;                ///< "counter"; empty in a library without symbols, where a whole segment counts as one
  bool writable = false;
  std::unique_ptr<Shadow> shadow;  ///< of a writable one that a kernel has touched
};

/// The variable at `address` of the library that holds `kernel`, or null.
ModuleVariable* module_variable_at(const void* kernel, const void* address);
/// True for threadIdx and its like.
bool is_thread_index(const void* address);

}  // namespace patchbay::gpu::emulator

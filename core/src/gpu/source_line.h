/// @file source_line.h
/// From a code address to the words that a person knows it by. Needs binutils' addr2line and line tables (-g1); says less without.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "patchbay/error.h"

namespace patchbay::gpu::emulator {

/// A library or the program itself.
struct Module { std::string path; std::uintptr_t base = 0; };
/// The one that holds `address`; base 0 when none does.
Module module_of(const void* address);

/// "gemm.cu:31" for the return address `pc` in a kernel: the innermost inlined line that is not the emulator's own.
std::string source_line(const void* pc);
struct SourceLine {
  std::string text;
  bool emulators = false;  ///< code of the emulator's own, inlined there (the conversion of a half)
  std::string caller;      ///< "mine.cu:43" where `text` is the line of a header that was inlined into it
};
/// The same for many at once: one call of addr2line per library.
std::vector<SourceLine> source_lines(std::span<const void* const> pcs);
/// "helper.cuh:16 (called at mine.cu:43)" for reports: with the line of a .cu where `pc` is in a header. `callers` are asked where it was not
/// inlined.
std::string report_line(const void* pc, std::span<const void* const> callers = {});
/// "gemm<__half>" for the address of a kernel.
std::string kernel_name(const void* function);
/// A line was asked for, and this machine has no addr2line: places are "library.so+0x1234" then.
PATCHBAY_API bool lacks_addr2line();

}  // namespace patchbay::gpu::emulator

/// @file source_line.h
/// From a code address to the words that a person knows it by. Needs binutils' addr2line and line tables (-g1); says less without.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace patchbay::gpu::emulator {

/// "gemm.cu:31" for the return address `pc` in a kernel: the innermost inlined line that is not the emulator's own.
std::string source_line(const void* pc);
struct SourceLine {
  std::string text;
  bool emulators = false;  ///< code of the emulator's own, inlined there (the conversion of a half)
};
/// The same for many at once: one call of addr2line per library.
std::vector<SourceLine> source_lines(std::span<const void* const> pcs);
/// "gemm<__half>" for the address of a kernel.
std::string kernel_name(const void* function);

}  // namespace patchbay::gpu::emulator

#include "gpu/source_line.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/counters.h"

namespace patchbay::gpu::emulator {

Module module_of(const void* address) {
  struct Search { std::uintptr_t address; Module found; } search{reinterpret_cast<std::uintptr_t>(address), {}};
  dl_iterate_phdr([](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
      if (part.p_type != PT_LOAD || wanted.address < begin || wanted.address >= begin + part.p_memsz) continue;
      wanted.found = {info->dlpi_name, info->dlpi_addr};
      return 1;
    }
    return 0;
  }, &search);
  if (search.found.base && search.found.path.empty()) {  // the program itself
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length > 0) search.found.path.assign(path, static_cast<std::size_t>(length));
  }
  return search.found;
}

namespace {

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::atomic<bool> no_addr2line{false};

/// What addr2line prints for offsets of a module.
std::vector<std::string> addr2line(const std::string& flags, const Module& module, std::span<const std::uintptr_t> offsets) {
  std::string command = "addr2line " + flags + " -e " + quoted(module.path);
  for (const std::uintptr_t offset : offsets) {
    char number[32];
    std::snprintf(number, sizeof number, " 0x%llx", static_cast<unsigned long long>(offset));
    command += number;
  }
  command += " 2>/dev/null";
  std::vector<std::string> lines;
  if (FILE* output = popen(command.c_str(), "r")) {
    char line[4096];
    while (std::fgets(line, sizeof line, output)) lines.emplace_back(line, std::string(line).find_last_not_of('\n') + 1);
    constexpr int kNoSuchCommand = 127;  // as the shell says it
    const int status = pclose(output);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchCommand) no_addr2line = true;
  }
  return lines;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Code that stands in a kernel only because it was inlined: no author's line.
bool is_ours(const std::string& line) {
  for (const char* header : {"/patchbay/gpu/emulated", "/patchbay/gpu/vector_types.h", "/patchbay/gpu/half_", "/patchbay/gpu/fp8_types.h",
                             "/patchbay/gpu/async_copy.cuh", "/patchbay/gpu/tensor_core", "/patchbay/gpu/vector.cuh", "/patchbay/half.h",
                             "/include/c++/"})
    if (line.find(header) != std::string::npos) return true;
  return false;
}

/// A file that an author of kernels writes, other than a header that several share.
bool is_kernel_file(const std::string& line) { return line.find(".cu:") != std::string::npos; }

std::string fallback(const Module& module, std::uintptr_t offset) {
  char text[64];
  std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(offset));
  return file_name(module.path) + text;
}

/// "gemm.cu:31" of "/a/gemm.cu:31 (discriminator 2)".
std::string short_line(const std::string& frame) {
  const std::string name = file_name(frame);
  return name.substr(0, name.find(' '));
}

/// From the frames of one address, the innermost first.
SourceLine line_of(std::span<const std::string> frames, const Module& module, std::uintptr_t offset) {
  SourceLine line;
  bool found = false;  // a line that is not the emulator's own
  for (const std::string& frame : frames) {
    if (frame.find("?") == 0 || frame.find(":?") != std::string::npos) continue;
    if (line.text.empty()) line.emulators = is_ours(frame);
    if (found && is_kernel_file(frame)) line.caller = short_line(frame);
    if (!found) line.text = short_line(frame), found = !is_ours(frame);
    if (found && (is_kernel_file(line.text) || !line.caller.empty())) break;
  }
  if (line.text.empty()) return {fallback(module, offset), false, ""};
  return line;
}

/// Looks up addresses of one module, by one call of addr2line.
void look_up(const Module& module, std::span<const void* const> addresses, std::map<const void*, SourceLine>& known) {
  std::vector<std::uintptr_t> offsets;
  for (const void* address : addresses) offsets.push_back(reinterpret_cast<std::uintptr_t>(address) - module.base - 1);  // inside the call
  const auto printed = addr2line("-a -i", module, offsets);  // -a: each address's frames follow a line "0x..."
  std::size_t at = 0;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (at < printed.size()) ++at;
    const std::size_t begin = at;
    while (at < printed.size() && !printed[at].starts_with("0x")) ++at;
    known[addresses[i]] = line_of(std::span(printed).subspan(begin, at - begin), module, offsets[i]);
  }
}

std::mutex mutex;

}  // namespace

std::vector<SourceLine> source_lines(std::span<const void* const> pcs) {
  static std::map<const void*, SourceLine> known;
  const std::lock_guard lock(mutex);
  std::map<std::string, std::pair<Module, std::vector<const void*>>> wanted;
  for (const void* pc : pcs) {
    if (known.contains(pc)) continue;
    const Module module = module_of(pc);
    known[pc] = {"?", false, ""};
    if (!module.base) continue;
    auto& [its_module, addresses] = wanted[module.path];
    its_module = module;
    addresses.push_back(pc);
  }
  constexpr std::size_t kAtOnce = 1000;  // arguments of one command
  for (const auto& [path, work] : wanted)
    for (std::size_t i = 0; i < work.second.size(); i += kAtOnce)
      look_up(work.first, std::span(work.second).subspan(i, std::min(kAtOnce, work.second.size() - i)), known);
  std::vector<SourceLine> lines;
  for (const void* pc : pcs) lines.push_back(known[pc]);
  return lines;
}

std::string report_line(const void* pc, std::span<const void* const> callers) {
  SourceLine line = source_lines({&pc, 1})[0];
  for (const void* caller : callers) {
    if (!caller || !line.caller.empty() || is_kernel_file(line.text)) break;
    const SourceLine outer = source_lines({&caller, 1})[0];
    line.caller = is_kernel_file(outer.text) ? outer.text : outer.caller;
  }
  return line.text + (line.caller.empty() ? "" : " (called at " + line.caller + ")") + (no_addr2line ? " (its line needs addr2line, of binutils)" : "");
}

bool lacks_addr2line() { return no_addr2line; }

std::string source_line(const void* pc) { return source_lines({&pc, 1})[0].text; }

std::string kernel_name(const void* function) {
  static std::map<const void*, std::string> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(function);
  if (found != known.end()) return found->second;
  const Module module = module_of(function);
  if (!module.base) return known[function] = "?";
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(function) - module.base;
  const auto lines = addr2line("-f -C", module, {&offset, 1});
  return known[function] = lines.empty() || lines[0].find("?") == 0 ? fallback(module, offset) : short_kernel_name(lines[0]);
}

}  // namespace patchbay::gpu::emulator

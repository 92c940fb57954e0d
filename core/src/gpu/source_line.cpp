#include "gpu/source_line.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

namespace patchbay::gpu::emulator {
namespace {

struct Module { std::string path; std::uintptr_t base = 0; };

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

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::vector<std::string> addr2line(const std::string& flags, const Module& module, std::uintptr_t offset) {
  char number[32];
  std::snprintf(number, sizeof number, " 0x%llx", static_cast<unsigned long long>(offset));
  const std::string command = "addr2line " + flags + " -e " + quoted(module.path) + number + " 2>/dev/null";
  std::vector<std::string> lines;
  if (FILE* output = popen(command.c_str(), "r")) {
    char line[4096];
    while (std::fgets(line, sizeof line, output)) lines.emplace_back(line, std::string(line).find_last_not_of('\n') + 1);
    pclose(output);
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

std::string fallback(const Module& module, std::uintptr_t offset) {
  char text[64];
  std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(offset));
  return file_name(module.path) + text;
}

/// `compute(key)`, once for each key.
template <class Compute>
std::string remembered(const void* key, Compute compute) {
  static std::mutex mutex;
  static std::map<const void*, std::string> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known[key] = compute(key);
}

/// "void a::(anonymous namespace)::gemm<__half>(__half const*, int)" to "gemm<__half>".
std::string short_name(const std::string& name) {
  int depth = 0;
  std::size_t begin = 0, end = name.size();
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth) continue;
    if (name.compare(i, 21, "(anonymous namespace)") == 0) i += 20;
    else if (c == '(') { end = i; break; }
    else if (c == ' ') begin = i + 1;
    else if (c == ':') begin = i + 1;
  }
  return name.substr(begin, end - begin);
}

}  // namespace

std::string source_line(const void* pc) {
  return remembered(pc, [](const void* address) {
    const Module module = module_of(address);
    if (!module.base) return std::string("?");
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - module.base - 1;  // inside the call
    std::string best;
    for (const auto& line : addr2line("-i", module, offset)) {
      if (line.find("?") == 0 || line.find(":?") != std::string::npos) continue;
      best = line;
      if (!is_ours(line)) break;
    }
    if (best.empty()) return fallback(module, offset);
    best = file_name(best);
    return best.substr(0, best.find(' '));  // without "(discriminator 2)"
  });
}

std::string kernel_name(const void* function) {
  return remembered(function, [](const void* address) {
    const Module module = module_of(address);
    if (!module.base) return std::string("?");
    const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(address) - module.base;
    const auto lines = addr2line("-f -C", module, offset);
    return lines.empty() || lines[0].find("?") == 0 ? fallback(module, offset) : short_name(lines[0]);
  });
}

}  // namespace patchbay::gpu::emulator

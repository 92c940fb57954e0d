#include "gpu/module_data.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <tuple>
#include <vector>

#include "gpu/source_line.h"
#include "patchbay/gpu/emulator_runtime.h"

extern PATCHBAY_API constinit thread_local uint3 threadIdx, blockIdx;
extern PATCHBAY_API constinit thread_local dim3 blockDim, gridDim;

namespace patchbay::gpu::emulator {
namespace {

using Variables = std::vector<ModuleVariable>;

/// `count` values at `offset` of a file; none when it ends before.
template <class T> std::vector<T> read_values(std::ifstream& file, std::uint64_t offset, std::uint64_t count) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 28;  // bytes: no table of symbols is larger
  if (count > kMost / sizeof(T)) return {};
  std::vector<T> values(count);
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(count * sizeof(T)));
  return file ? values : std::vector<T>{};
}

/// "a::(anonymous namespace)::counter" to "counter".
std::string plain_name(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  const std::string name = status == 0 ? demangled.get() : symbol;
  const std::size_t at = name.rfind("::");
  return at == std::string::npos ? name : name.substr(at + 2);
}

/// The data objects in a library's table of symbols; empty where it was stripped.
Variables symbols_of(const Module& module) {
  std::ifstream file(module.path, std::ios::binary);
  const auto header = read_values<ElfW(Ehdr)>(file, 0, 1);
  if (header.empty()) return {};
  const auto sections = read_values<ElfW(Shdr)>(file, header[0].e_shoff, header[0].e_shnum);
  Variables variables;
  for (const auto& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    auto names = read_values<char>(file, sections[table.sh_link].sh_offset, sections[table.sh_link].sh_size);
    names.push_back('\0');
    for (const auto& symbol : read_values<ElfW(Sym)>(file, table.sh_offset, table.sh_size / sizeof(ElfW(Sym)))) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0 || symbol.st_shndx >= sections.size()) continue;
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names.size()) continue;
      const std::uintptr_t begin = module.base + symbol.st_value;
      variables.push_back({begin, begin + symbol.st_size, plain_name(&names[symbol.st_name]), (sections[symbol.st_shndx].sh_flags & SHF_WRITE) != 0, nullptr});
    }
  }
  return variables;
}

/// What a library without symbols has: its segments of data.
Variables segments_of(const Module& module) {
  struct Search { std::uintptr_t base; Variables found; } search{module.base, {}};
  dl_iterate_phdr([](dl_phdr_info* info, std::size_t, void* data) {
    auto& wanted = *static_cast<Search*>(data);
    if (info->dlpi_addr != wanted.base) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || part.p_flags & PF_X) continue;
      const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
      wanted.found.push_back({begin, begin + part.p_memsz, "", (part.p_flags & PF_W) != 0, nullptr});
    }
    return 1;
  }, &search);
  return std::move(search.found);
}

/// Of the library that holds `kernel`, by address. Read once for each library.
Variables& variables_of(const void* kernel) {
  static std::map<std::pair<std::string, std::uintptr_t>, Variables> known;
  static const void* last_kernel = nullptr;
  static Variables* last = nullptr;
  if (kernel == last_kernel) return *last;
  const Module module = module_of(kernel);
  const auto [found, is_new] = known.try_emplace({module.path, module.base});
  if (is_new && module.base) {
    found->second = symbols_of(module);
    if (found->second.empty()) found->second = segments_of(module);
    std::ranges::sort(found->second, {}, [](const ModuleVariable& v) { return std::tuple(v.begin, v.end); });
  }
  last_kernel = kernel;
  return *(last = &found->second);
}

template <class T> bool is_part_of(const T& variable, std::uintptr_t address) {
  return address - reinterpret_cast<std::uintptr_t>(&variable) < sizeof(T);
}

}  // namespace

ModuleVariable* module_variable_at(const void* kernel, const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  Variables& variables = variables_of(kernel);
  const auto next = std::ranges::upper_bound(variables, address, {}, &ModuleVariable::begin);
  return next != variables.begin() && address < std::prev(next)->end ? &*std::prev(next) : nullptr;
}

bool is_thread_index(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return is_part_of(threadIdx, address) || is_part_of(blockIdx, address) || is_part_of(blockDim, address) || is_part_of(gridDim, address);
}

}  // namespace patchbay::gpu::emulator

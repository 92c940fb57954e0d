#include "nvcc_figures.h"

#include <cxxabi.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <regex>
#include <sstream>

#include "gpu/counters.h"
#include "registry.h"

namespace patchbay::app {
namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return text ? text.get() : name;
}

}  // namespace

void NvccReport::add(const std::string& text) {
  static const std::regex kEntry("Compiling entry function '([^']+)' for 'sm_(\\d+)"), kSpills("(\\d+) bytes spill stores, (\\d+) bytes spill loads"),
      kUsed("Used (\\d+) registers");
  NvccFigures* figures = nullptr;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, kEntry)) {
      const int architecture = std::atoi(match[2].str().c_str());
      figures = &(figures_[{gpu::short_kernel_name(demangled(match[1])), architecture}] = {architecture});
    } else if (figures && std::regex_search(line, match, kSpills)) {
      figures->spilled_bytes = std::atoi(match[1].str().c_str()) + std::atoi(match[2].str().c_str());
    } else if (figures && std::regex_search(line, match, kUsed)) {
      figures->registers = std::atoi(match[1].str().c_str());
    }
  }
}

std::optional<NvccFigures> NvccReport::find(const std::string& kernel, int architecture) const {
  for (int built = architecture; built >= architecture / 10 * 10; --built)
    if (const auto found = figures_.find({kernel, built}); found != figures_.end() && found->second.registers > 0) return found->second;
  return std::nullopt;
}

NvccReport NvccReport::beside_plugins() {
  NvccReport report;
  for (const std::string& plugin : Registry::instance().paths()) {
    std::ifstream file(plugin.substr(0, plugin.rfind('.')) + ".ptxas");
    if (!file) continue;
    std::stringstream text;
    text << file.rdbuf();
    report.add(text.str());
  }
  return report;
}

}  // namespace patchbay::app

#include "ncu_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "common.h"
#include "files.h"
#include "patchbay/error.h"

namespace patchbay::app {
namespace {

/// The cells of one line: in quotes or not, "" being a quote.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && line.substr(i + 1, 1) == "\"") cells.back() += line[++i];
      else quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else if (line[i] != '\r') {
      cells.back() += line[i];
    }
  }
  return cells;
}

/// "1,234.5" or "1234.5"; none for "n/a" and other words.
std::optional<double> number_of(std::string text) {
  std::erase(text, ',');
  std::size_t read = 0;
  try {
    const double value = std::stod(text, &read);
    if (read == text.size()) return value;
  } catch (const std::exception&) {
  }
  return std::nullopt;
}

/// "(8, 1, 1)"
std::optional<std::array<unsigned, 3>> shape_of(const std::string& text) {
  std::array<unsigned, 3> shape{};
  if (std::sscanf(text.c_str(), "(%u,%u,%u)", &shape[0], &shape[1], &shape[2]) == 3) return shape;
  return std::nullopt;
}

/// From the unit of a column to bytes, nanoseconds and hertz. ncu chooses units by size unless told --print-units base.
double scale_of(const std::string& unit) {
  static const std::map<std::string, double> kScales = {{"Kbyte", 1e3}, {"Mbyte", 1e6}, {"Gbyte", 1e9}, {"Tbyte", 1e12}, {"us", 1e3}, {"usecond", 1e3},
                                                        {"ms", 1e6}, {"msecond", 1e6}, {"s", 1e9}, {"second", 1e9}, {"Mhz", 1e6}, {"Ghz", 1e9}};
  const auto found = kScales.find(unit);
  return found == kScales.end() ? 1 : found->second;
}

double sum_of(const gpu::KernelCounters& kernel, gpu::Instruction what, bool shared, std::uint64_t gpu::SiteCounters::*figure) {
  double sum = 0;
  for (const auto& site : kernel.sites)
    if (site.what == what && site.shared == shared) sum += static_cast<double>(site.*figure);
  return sum;
}

}  // namespace

NcuFigures::NcuFigures(const std::string& file) : file_(file) {
  const std::string text = read_whole_file(file);
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') read_json(text);
  else read_csv(text);
  if (kernels_.empty()) throw Error(file, "holds no kernel", "`ncu --csv --page raw` or JSON of docs/profiling.md");
}

void NcuFigures::read_csv(const std::string& text) {
  std::vector<std::string> names, units;
  int number = 0;
  std::size_t name_at = 0, grid_at = 0, block_at = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const std::string where = fmt::format("{}:{}", file_, number);
    if (line.empty() || line.starts_with("==")) continue;  // what ncu says of its work
    auto cells = cells_of(line);
    if (names.empty()) {
      const auto column = [&](const char* name) { return static_cast<std::size_t>(std::ranges::find(cells, name) - cells.begin()); };
      name_at = column("Kernel Name"), grid_at = column("Grid Size"), block_at = column("Block Size");
      if (std::max({name_at, grid_at, block_at}) < cells.size()) names = std::move(cells);
      continue;  // the profiled program's own output may come before
    }
    if (cells.size() != names.size()) throw Error(where, fmt::format("has {} columns, and the first line of the table {}", cells.size(), names.size()));
    if (units.empty()) {
      units = std::move(cells);
      continue;
    }
    NcuKernel kernel{gpu::short_kernel_name(cells[name_at]), {}, {}, {}, 1};
    const auto grid = shape_of(cells[grid_at]), block = shape_of(cells[block_at]);
    if (!grid || !block) throw Error(where, "'" + printable((grid ? cells[block_at] : cells[grid_at])) + "' is no shape", "(x, y, z)");
    kernel.grid = *grid, kernel.block = *block;
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (names[i].find("__") != std::string::npos)
        if (const auto value = number_of(cells[i])) kernel.metrics[names[i]] = *value * scale_of(units[i]);
    add(std::move(kernel));
  }
  if (names.empty())
    throw Error(file_, "has no line with the columns \"Kernel Name\", \"Grid Size\" and \"Block Size\"", "the output of `ncu --csv --page raw`", "of a report: ncu -i REPORT --csv --page raw");
}

void NcuFigures::read_json(const std::string& text) {
  try {
    const nlohmann::json file = nlohmann::json::parse(text);
    for (const auto& one : file.at("kernels")) {
      NcuKernel kernel{gpu::short_kernel_name(one.at("kernel").get<std::string>()), one.at("grid"), one.at("block"), {}, 1};
      for (const auto& [name, value] : one.at("metrics").items()) kernel.metrics[name] = value.get<double>();
      add(std::move(kernel));
    }
  } catch (const nlohmann::json::exception& error) {
    throw Error(file_, std::string("is no JSON of kernels: ") + error.what(), R"({"kernels": [{"kernel", "grid", "block", "metrics"}]})");
  }
}

void NcuFigures::add(NcuKernel kernel) {
  const auto same = std::ranges::find_if(kernels_, [&](const NcuKernel& k) { return k.kernel == kernel.kernel && k.grid == kernel.grid && k.block == kernel.block; });
  if (same == kernels_.end()) return kernels_.push_back(std::move(kernel));
  ++same->launches;
  for (const auto& [name, value] : kernel.metrics) {
    double& mean = same->metrics.try_emplace(name, value).first->second;
    mean += (value - mean) / same->launches;
  }
}

const NcuKernel* NcuFigures::find(const gpu::KernelCounters& kernel) const {
  const std::array<unsigned, 3> grid{kernel.grid.x, kernel.grid.y, kernel.grid.z}, block{kernel.block.x, kernel.block.y, kernel.block.z};
  const auto found = std::ranges::find_if(kernels_, [&](const NcuKernel& k) { return k.kernel == kernel.kernel && k.grid == grid && k.block == block; });
  return found == kernels_.end() ? nullptr : &*found;
}

std::vector<BesideNcu> beside_ncu(const gpu::KernelCounters& kernel, const NcuKernel& ncu, double occupancy, double at_least_s) {
  using gpu::Instruction, gpu::SiteCounters;
  const double launches = static_cast<double>(std::max<std::uint64_t>(kernel.launches, 1));
  std::vector<BesideNcu> rows;
  const auto add = [&](const char* what, const char* metric, std::optional<double> emulated, double scale = 1) {
    const auto found = ncu.metrics.find(metric);
    if (found != ncu.metrics.end()) rows.push_back({what, metric, emulated, found->second * scale});
  };
  const auto sum = [&](Instruction what, bool shared, std::uint64_t SiteCounters::*figure) { return sum_of(kernel, what, shared, figure) / launches; };
  const auto shared = kernel.shared_traffic();
  const double mma = static_cast<double>(kernel.count(Instruction::mma)) / launches;
  add("global loads: requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", sum(Instruction::global_load, false, &SiteCounters::requests));
  add("global loads: sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", sum(Instruction::global_load, false, &SiteCounters::sectors));
  add("global stores: requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", sum(Instruction::global_store, false, &SiteCounters::requests));
  add("global stores: sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", sum(Instruction::global_store, false, &SiteCounters::sectors));
  add("shared: wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", static_cast<double>(shared.wavefronts) / launches);
  add("shared: bank conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", static_cast<double>(shared.wavefronts - shared.least_wavefronts) / launches);
  add("tensor instructions", "sm__inst_executed_pipe_tensor.sum", mma);
  add("divergent branches", "smsp__sass_branch_targets_threads_divergent.sum", static_cast<double>(kernel.all_branches().divergent) / launches);
  add("instructions of warps, all", "smsp__inst_executed.sum", std::nullopt);
  add("DRAM, bytes read", "dram__bytes_read.sum", static_cast<double>(kernel.read_bytes) / launches);
  add("DRAM, bytes written", "dram__bytes_write.sum", static_cast<double>(kernel.written_bytes) / launches);
  add("occupancy that fits, %", "sm__maximum_warps_per_active_cycle_pct", 100 * occupancy);
  add("occupancy reached, %", "sm__warps_active.avg.pct_of_peak_sustained_active", std::nullopt);
  add("registers of a thread", "launch__registers_per_thread", std::nullopt);
  add("time, us (emulated: at least)", "gpu__time_duration.sum", at_least_s * 1e6 / launches, 1e-3);
  return rows;
}

}  // namespace patchbay::app

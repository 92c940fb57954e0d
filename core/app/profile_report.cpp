#include "profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "experiment/text_table.h"
#include "gpu/source_line.h"

namespace patchbay::app {
namespace {

using gpu::Instruction;
using gpu::KernelCounters;
using gpu::SiteCounters;

std::string size_of(dim3 d) {
  return d.z > 1 ? fmt::format("{}x{}x{}", d.x, d.y, d.z) : d.y > 1 ? fmt::format("{}x{}", d.x, d.y) : fmt::format("{}", d.x);
}
std::string percent(double share) { return fmt::format("{:.0f}%", 100 * share); }
std::string bytes_text(double bytes) {
  return bytes < 10e3 ? fmt::format("{:.0f} B", bytes) : bytes < 10e6 ? fmt::format("{:.1f} kB", bytes / 1e3) : fmt::format("{:.1f} MB", bytes / 1e6);
}
std::string time_text(double seconds) { return seconds < 1e-3 ? fmt::format("{:.2f} us", seconds * 1e6) : fmt::format("{:.2f} ms", seconds * 1e3); }
constexpr std::size_t kLongestName = 36;
/// Beginning and end: kernels of one template differ there.
std::string shortened(const std::string& name) {
  constexpr std::size_t kEnd = 16;
  return name.size() <= kLongestName ? name : name.substr(0, kLongestName - 3 - kEnd) + "..." + name.substr(name.size() - kEnd);
}
/// Of each kernel a name for the table: whole where two would look alike.
std::vector<std::string> table_names(const std::vector<KernelCounters>& kernels) {
  std::vector<std::string> names;
  for (const KernelCounters& kernel : kernels) {
    const std::string name = shortened(kernel.kernel);
    const bool alone = std::ranges::all_of(kernels, [&](const KernelCounters& other) { return other.kernel == kernel.kernel || shortened(other.kernel) != name; });
    names.push_back(alone ? name : kernel.kernel);
  }
  return names;
}
double ratio(double a, double b) { return b > 0 ? a / b : 0; }

/// Two spaces before, four before what does not fit on a line of `columns`; 0: one line.
std::string paragraph(const std::string& text, std::size_t columns) {
  std::string result, line = " ";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    if (columns > 0 && width_of(line) + 1 + width_of(text.substr(begin, end - begin)) > columns && line.find_first_not_of(' ') != std::string::npos) {
      result += line + "\n";
      line = "   ";
    }
    line += " " + text.substr(begin, end - begin);
    begin = end + 1;
  }
  return result + line + "\n";
}

TextTable kernel_table(const std::vector<KernelCounters>& kernels, const ProfiledCase& profiled, const ProfileView& view) {
  TextTable table;
  table.header = {"kernel", "grid", "block", "launches", "requests", "sectors/request", "used", "bank conflicts", "divergent", "occupancy", "DRAM", "at least", "by"};
  table.right = {false, false, false, true, true, true, true, true, true, true, true, true, false};
  const auto names = table_names(kernels);
  for (const KernelCounters& kernel : kernels) {
    const auto global = kernel.global_traffic();
    const auto shared = kernel.shared_traffic();
    const auto branches = kernel.all_branches();
    const KernelView seen = view_of(kernel, profiled, kernels, view);
    table.rows.push_back({names[table.rows.size()], size_of(kernel.grid), size_of(kernel.block), std::to_string(kernel.launches), std::to_string(global.requests),
                          fmt::format("{:.1f}", ratio(static_cast<double>(global.sectors), static_cast<double>(global.requests))),
                          percent(ratio(static_cast<double>(global.unique_bytes), static_cast<double>(global.sectors * gpu::kSectorBytes))),
                          shared.requests ? fmt::format("{:.2f}x", ratio(static_cast<double>(shared.wavefronts), static_cast<double>(shared.least_wavefronts))) : "-",
                          branches.executed ? percent(ratio(static_cast<double>(branches.divergent), static_cast<double>(branches.executed))) : "-",
                          (seen.registers ? "" : "<= ") + percent(seen.occupancy.share),
                          bytes_text(static_cast<double>(kernel.read_bytes + kernel.written_bytes)), time_text(seen.bounds.longest()), std::string(seen.bounds.limit())});
  }
  return table;
}

TextTable line_table(const KernelCounters& kernel) {
  TextTable table;
  table.header = {"line", "instruction", "requests", "lanes", "sectors/request", "used", "wavefronts", "conflicts"};
  table.right = {false, false, true, true, true, true, true, true};
  constexpr std::size_t kLines = 12;
  for (const SiteCounters& site : kernel.sites) {
    if (table.rows.size() == kLines) break;
    const std::string what = std::string(name_of(site.what)) + (site.what == Instruction::async_copy ? site.shared ? " (to shared)" : " (from global)" : "");
    table.rows.push_back({site.line, what, std::to_string(site.requests),
                          fmt::format("{:.1f}", ratio(static_cast<double>(site.lanes), static_cast<double>(site.requests))),
                          site.shared ? "" : fmt::format("{:.1f}", site.sectors_per_request()), site.shared ? "" : percent(site.used()),
                          site.shared ? std::to_string(site.wavefronts) : "", site.shared ? fmt::format("{:.2f}x", site.conflict_degree()) : ""});
  }
  return table;
}

/// What ncu measured, where it did.
TextTable ncu_table(const std::vector<BesideNcu>& beside) {
  TextTable table;
  table.header = {"figure", "emulated", "ncu", "metric"};
  table.right = {false, true, true, false};
  const auto text = [](const std::optional<double>& value) { return value ? fmt::format("{:.6g}", *value) : std::string("-"); };
  for (const BesideNcu& row : beside) table.rows.push_back({row.what, text(row.emulated), text(row.ncu), row.metric});
  return table;
}

std::string instructions_text(const KernelCounters& kernel) {
  std::string text = "instructions of warps: ";
  const char* separator = "";
  for (int i = 0; i < gpu::kInstructions; ++i)
    if (const auto count = kernel.instructions[static_cast<std::size_t>(i)])
      text += fmt::format("{}{} {}", std::exchange(separator, ", "), count, name_of(static_cast<Instruction>(i)));
  return text + fmt::format("; {} basic blocks with {:.1f} of 32 lanes", kernel.basic_blocks,
                            ratio(static_cast<double>(kernel.basic_block_lanes), static_cast<double>(kernel.basic_blocks)));
}
std::string memory_text(const KernelCounters& kernel) {
  const auto global = kernel.global_traffic();
  return fmt::format("global memory: {} asked for, {} in sectors of requests; {} of sectors touched ({} read, {} written)",
                     bytes_text(static_cast<double>(global.bytes)), bytes_text(static_cast<double>(global.sectors * gpu::kSectorBytes)),
                     bytes_text(static_cast<double>(kernel.read_bytes + kernel.written_bytes)), bytes_text(static_cast<double>(kernel.read_bytes)),
                     bytes_text(static_cast<double>(kernel.written_bytes)));
}
std::string occupancy_text(const KernelCounters& kernel, const KernelView& seen, const ProfileView& view) {
  const std::string registers = seen.registers ? fmt::format("{} ({})", seen.registers->count, seen.registers->source) : "unknown: give --registers";
  return fmt::format("{}: {} of {} threads, {} of shared memory, registers: {}; {} on a multiprocessor, {}{} of its warps, limited by {}", view.gpu.name,
                     counted(static_cast<std::int64_t>(kernel.blocks()), "block"), kernel.threads(), bytes_text(static_cast<double>(kernel.shared_bytes)),
                     registers, counted(seen.occupancy.blocks, "block"), seen.registers ? "" : "at most ", percent(seen.occupancy.share), seen.occupancy.limit);
}
std::string bounds_text(const KernelCounters& kernel, const KernelView& seen, const ProfileView& view) {
  const auto& bounds = seen.bounds;
  std::string text = fmt::format("at least: memory {}, L1 {}, shared {}, tensor cores {}, fp32 {}", time_text(bounds.memory), time_text(bounds.cache),
                                 time_text(bounds.shared), time_text(bounds.tensor), time_text(bounds.fp32));
  const gpu::Peak peak = peak_of(view.gpu, kernel);
  if (peak.tflops == 0) return text + fmt::format("; {} has no {}", view.gpu.name, peak.what);
  if (seen.flops == 0) return text;
  return text + fmt::format("; {:.1f} operations per byte, where the {} of {} balance memory at {:.0f}",
                            ratio(seen.flops, static_cast<double>(kernel.read_bytes + kernel.written_bytes)), peak.what, view.gpu.name,
                            peak.tflops * 1e3 / view.gpu.memory_gb_per_s);
}

std::string details(const KernelCounters& kernel, const ProfiledCase& profiled, const std::vector<KernelCounters>& kernels, const ProfileView& view, bool utf8, std::size_t columns) {
  const KernelView seen = view_of(kernel, profiled, kernels, view);
  std::string text = fmt::format("\n{}\n", kernel.kernel);
  for (const std::string& line : {instructions_text(kernel), memory_text(kernel), occupancy_text(kernel, seen, view), bounds_text(kernel, seen, view)})
    text += paragraph(line, columns);
  text += "\n" + line_table(kernel).text(utf8, columns, 2);
  if (gpu::emulator::lacks_addr2line()) text += "  lines of the source need addr2line: install binutils\n";
  for (std::size_t i = 0; i < kernel.branches.size() && i < 6; ++i) {
    const auto& branch = kernel.branches[i];
    if (branch.divergent) text += fmt::format("  branch at {}: {} of {} divergent\n", branch.line, branch.divergent, branch.executed);
  }
  if (kernel.dropped) text += fmt::format("  {} accesses are missing: lanes of a warp were more than 262144 apart\n", kernel.dropped);
  if (!seen.beside.empty()) text += "\n" + ncu_table(seen.beside).text(utf8, columns, 1);
  return text;
}

}  // namespace

std::string profile_text(const std::vector<ProfiledCase>& cases, const ProfileView& view, bool utf8, std::size_t columns) {
  std::string text;
  for (const ProfiledCase& profiled : cases) {
    const auto kernels = merge_launches(profiled.launches);
    text += fmt::format("{}{}\nran: {}, emulated\n", text.empty() ? "" : "\n", profiled.title, profiled.path);
    if (profiled.bytes > 0)
      text += fmt::format("work: {}{} of operands and results\n", profiled.flops > 0 ? fmt::format("{:.3g} operations, ", profiled.flops) : "",
                          bytes_text(profiled.bytes));
    text += "\n" + kernel_table(kernels, profiled, view).text(utf8, columns, 1);
    double total = 0;
    for (const KernelCounters& kernel : kernels) total += time_bounds(view.gpu, kernel, flops_of(kernel, profiled, kernels)).longest();
    if (kernels.size() > 1) text += fmt::format("together at least {} on {}\n", time_text(total), view.gpu.name);
    if (view.details)
      for (const KernelCounters& kernel : kernels) text += details(kernel, profiled, kernels, view, utf8, columns);
  }
  return text;
}

}  // namespace patchbay::app

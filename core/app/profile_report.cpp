#include "profile_report.h"

#include <fmt/format.h>

#include "experiment/text_table.h"

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
std::string shortened(const std::string& name) {
  constexpr std::size_t kLongest = 36;
  return name.size() <= kLongest ? name : name.substr(0, kLongest - 3) + "...";
}
double ratio(double a, double b) { return b > 0 ? a / b : 0; }

std::optional<int> registers_of(const ProfileView& view) {
  return view.registers > 0 ? std::optional(view.registers) : std::nullopt;
}
double tensor_flops(const KernelCounters& kernel) {
  double sum = 0;
  for (const auto& [mma, flops] : kernel.tensor_flops) sum += static_cast<double>(flops);
  return sum;
}
/// The operations that a kernel is held to: its mma, or the whole case's where it is its one kernel.
double flops_of(const KernelCounters& kernel, const ProfiledCase& profiled, std::size_t kernels) {
  if (const double tensor = tensor_flops(kernel); tensor > 0) return tensor;
  return kernels == 1 ? profiled.flops : 0;
}

TextTable kernel_table(const std::vector<KernelCounters>& kernels, const ProfiledCase& profiled, const ProfileView& view) {
  TextTable table;
  table.header = {"kernel", "grid", "block", "launches", "requests", "sectors/request", "used", "bank conflicts", "divergent", "occupancy", "DRAM", "at least", "by"};
  table.right = {false, false, false, true, true, true, true, true, true, true, true, true, false};
  for (const KernelCounters& kernel : kernels) {
    const auto global = kernel.global_traffic();
    const auto shared = kernel.shared_traffic();
    const auto branches = kernel.all_branches();
    const auto registers = registers_of(view);
    const auto bounds = time_bounds(view.gpu, kernel, flops_of(kernel, profiled, kernels.size()));
    table.rows.push_back({shortened(kernel.kernel), size_of(kernel.grid), size_of(kernel.block), std::to_string(kernel.launches), std::to_string(global.requests),
                          fmt::format("{:.1f}", ratio(static_cast<double>(global.sectors), static_cast<double>(global.requests))),
                          percent(ratio(static_cast<double>(global.unique_bytes), static_cast<double>(global.sectors * gpu::kSectorBytes))),
                          shared.requests ? fmt::format("{:.2f}x", ratio(static_cast<double>(shared.wavefronts), static_cast<double>(shared.least_wavefronts))) : "-",
                          branches.executed ? percent(ratio(static_cast<double>(branches.divergent), static_cast<double>(branches.executed))) : "-",
                          (registers ? "" : "<= ") + percent(occupancy(view.gpu, kernel, registers).share),
                          bytes_text(static_cast<double>(kernel.read_bytes + kernel.written_bytes)), time_text(bounds.longest()), std::string(bounds.limit())});
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

std::string details(const KernelCounters& kernel, const ProfiledCase& profiled, std::size_t kernels, const ProfileView& view, bool utf8, std::size_t columns) {
  std::string text = fmt::format("\n{}\n", kernel.kernel);
  std::string instructions;
  for (int i = 0; i < gpu::kInstructions; ++i)
    if (const auto count = kernel.instructions[static_cast<std::size_t>(i)])
      instructions += fmt::format("{}{} {}", instructions.empty() ? "" : ", ", count, name_of(static_cast<Instruction>(i)));
  text += fmt::format("  instructions of warps: {}; {} basic blocks with {:.1f} of 32 lanes\n", instructions, kernel.basic_blocks,
                      ratio(static_cast<double>(kernel.basic_block_lanes), static_cast<double>(kernel.basic_blocks)));
  const auto global = kernel.global_traffic();
  text += fmt::format("  global memory: {} asked for, {} in sectors of requests; {} of sectors touched ({} read, {} written)\n",
                      bytes_text(static_cast<double>(global.bytes)), bytes_text(static_cast<double>(global.sectors * gpu::kSectorBytes)),
                      bytes_text(static_cast<double>(kernel.read_bytes + kernel.written_bytes)), bytes_text(static_cast<double>(kernel.read_bytes)),
                      bytes_text(static_cast<double>(kernel.written_bytes)));
  const auto registers = registers_of(view);
  const auto fits = occupancy(view.gpu, kernel, registers);
  text += fmt::format("  {}: {} of {} threads, {} of shared memory, {}: {} on a multiprocessor, {} of its warps, limited by {}\n", view.gpu.name,
                      counted(static_cast<std::int64_t>(kernel.blocks()), "block"), kernel.threads(), bytes_text(static_cast<double>(kernel.shared_bytes)),
                      registers ? fmt::format("{} registers", *registers) : std::string("registers unknown (not counted)"), counted(fits.blocks, "block"),
                      percent(fits.share), fits.limit);
  const double flops = flops_of(kernel, profiled, kernels);
  const auto bounds = time_bounds(view.gpu, kernel, flops);
  const double traffic = static_cast<double>(kernel.read_bytes + kernel.written_bytes);
  text += fmt::format("  at least: memory {}, L1 {}, shared {}, tensor cores {}, fp32 {}", time_text(bounds.memory), time_text(bounds.cache),
                      time_text(bounds.shared), time_text(bounds.tensor), time_text(bounds.fp32));
  if (flops > 0) {
    const double peak = kernel.tensor_flops.empty() ? view.gpu.fp32_tflops : view.gpu.half_tflops;
    text += fmt::format("; {:.1f} operations per byte, where {} balances at {:.0f}", ratio(flops, traffic), view.gpu.name, peak * 1e3 / view.gpu.memory_gb_per_s);
  }
  text += "\n\n" + line_table(kernel).text(utf8, columns, 2);
  for (std::size_t i = 0; i < kernel.branches.size() && i < 6; ++i) {
    const auto& branch = kernel.branches[i];
    if (branch.divergent) text += fmt::format("  branch at {}: {} of {} divergent\n", branch.line, branch.divergent, branch.executed);
  }
  if (kernel.dropped) text += fmt::format("  {} accesses are missing: lanes of a warp were more than 262144 apart\n", kernel.dropped);
  return text;
}

nlohmann::json pattern_json(const gpu::AccessPattern& pattern) {
  nlohmann::json lanes = nlohmann::json::array();
  for (unsigned lane = 0; lane < 32; ++lane)
    if (pattern.lanes >> lane & 1) lanes.push_back({{"lane", lane}, {"offset", pattern.offset[lane]}, {"bytes", pattern.bytes[lane]}});
  return {{"object", pattern.object}, {"block", pattern.block}, {"warp", pattern.warp}, {"lanes", lanes}};
}

nlohmann::json kernel_json(const KernelCounters& kernel, const ProfiledCase& profiled, std::size_t kernels, const ProfileView& view) {
  const auto registers = registers_of(view);
  const auto fits = occupancy(view.gpu, kernel, registers);
  const auto bounds = time_bounds(view.gpu, kernel, flops_of(kernel, profiled, kernels));
  const auto global = kernel.global_traffic();
  const auto shared = kernel.shared_traffic();
  const auto branches = kernel.all_branches();
  nlohmann::json json = {
      {"kernel", kernel.kernel}, {"launches", kernel.launches}, {"grid", {kernel.grid.x, kernel.grid.y, kernel.grid.z}},
      {"block", {kernel.block.x, kernel.block.y, kernel.block.z}}, {"shared_bytes", kernel.shared_bytes}, {"instructions", nlohmann::json::object()},
      {"basic_blocks", kernel.basic_blocks}, {"basic_block_lanes", kernel.basic_block_lanes}, {"tensor_flops", kernel.tensor_flops},
      {"global", {{"requests", global.requests}, {"sectors", global.sectors}, {"bytes", global.bytes}, {"unique_bytes", global.unique_bytes},
                  {"read_bytes", kernel.read_bytes}, {"written_bytes", kernel.written_bytes}}},
      {"shared", {{"requests", shared.requests}, {"wavefronts", shared.wavefronts}, {"least_wavefronts", shared.least_wavefronts}}},
      {"branches", {{"executed", branches.executed}, {"divergent", branches.divergent}}},
      {"registers", registers ? nlohmann::json(*registers) : nlohmann::json()},
      {"occupancy", {{"blocks", fits.blocks}, {"share", fits.share}, {"limit", fits.limit}}},
      {"at_least_s", {{"memory", bounds.memory}, {"l1", bounds.cache}, {"shared", bounds.shared}, {"tensor", bounds.tensor}, {"fp32", bounds.fp32},
                      {"longest", bounds.longest()}, {"limit", bounds.limit()}}},
      {"dropped", kernel.dropped}, {"lines", nlohmann::json::array()}, {"divergent_lines", nlohmann::json::array()}};
  for (int i = 0; i < gpu::kInstructions; ++i)
    if (const auto count = kernel.instructions[static_cast<std::size_t>(i)]) json["instructions"][name_of(static_cast<Instruction>(i))] = count;
  for (const SiteCounters& site : kernel.sites)
    json["lines"].push_back({{"line", site.line}, {"instruction", name_of(site.what)}, {"memory", site.shared ? "shared" : "global"},
                             {"requests", site.requests}, {"lanes", site.lanes}, {"bytes", site.bytes}, {"unique_bytes", site.unique_bytes},
                             {"sectors", site.sectors}, {"wavefronts", site.wavefronts}, {"least_wavefronts", site.least_wavefronts},
                             {"worst", pattern_json(site.worst)}});
  for (const auto& branch : kernel.branches)
    json["divergent_lines"].push_back({{"line", branch.line}, {"executed", branch.executed}, {"divergent", branch.divergent}});
  return json;
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
    for (const KernelCounters& kernel : kernels) total += time_bounds(view.gpu, kernel, flops_of(kernel, profiled, kernels.size())).longest();
    if (kernels.size() > 1) text += fmt::format("together at least {} on {}\n", time_text(total), view.gpu.name);
    if (view.details)
      for (const KernelCounters& kernel : kernels) text += details(kernel, profiled, kernels.size(), view, utf8, columns);
  }
  return text;
}

nlohmann::json profile_json(const std::vector<ProfiledCase>& cases, const ProfileView& view) {
  nlohmann::json result = {{"gpu", view.gpu.name}, {"cases", nlohmann::json::array()}};
  for (const ProfiledCase& profiled : cases) {
    const auto kernels = merge_launches(profiled.launches);
    nlohmann::json one = {{"title", profiled.title}, {"path", profiled.path}, {"flops", profiled.flops}, {"bytes", profiled.bytes}, {"kernels", nlohmann::json::array()}};
    for (const KernelCounters& kernel : kernels) one["kernels"].push_back(kernel_json(kernel, profiled, kernels.size(), view));
    result["cases"].push_back(one);
  }
  return result;
}

}  // namespace patchbay::app

// A profile as JSON: every figure, with the lines of the source and one warp's access pattern at each.
#include "profile_report.h"

namespace patchbay::app {
namespace {

using gpu::Instruction;
using gpu::KernelCounters;
using gpu::SiteCounters;

nlohmann::json pattern_json(const gpu::AccessPattern& pattern) {
  nlohmann::json lanes = nlohmann::json::array();
  for (unsigned lane = 0; lane < 32; ++lane)
    if (pattern.lanes >> lane & 1) lanes.push_back({{"lane", lane}, {"offset", pattern.offset[lane]}, {"bytes", pattern.bytes[lane]}});
  return {{"object", pattern.object}, {"block", pattern.block}, {"warp", pattern.warp}, {"lanes", lanes}};
}

nlohmann::json kernel_json(const KernelCounters& kernel, const ProfiledCase& profiled, const std::vector<KernelCounters>& kernels, const ProfileView& view) {
  const KernelView seen = view_of(kernel, profiled, kernels, view);
  const auto& bounds = seen.bounds;
  const gpu::Peak peak = peak_of(view.gpu, kernel);
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
      {"registers", seen.registers ? nlohmann::json(seen.registers->count) : nlohmann::json()},
      {"registers_from", seen.registers ? nlohmann::json(seen.registers->source) : nlohmann::json()},
      {"peak", {{"of", peak.what}, {"tflops", peak.tflops}}},
      {"occupancy", {{"blocks", seen.occupancy.blocks}, {"share", seen.occupancy.share}, {"limit", seen.occupancy.limit}}},
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
  for (const BesideNcu& row : seen.beside)
    json["ncu"][row.metric] = {{"what", row.what}, {"emulated", row.emulated ? nlohmann::json(*row.emulated) : nlohmann::json()}, {"ncu", *row.ncu}};
  return json;
}

}  // namespace

nlohmann::json profile_json(const std::vector<ProfiledCase>& cases, const ProfileView& view) {
  nlohmann::json result = {{"gpu", view.gpu.name}, {"cases", nlohmann::json::array()}};
  for (const ProfiledCase& profiled : cases) {
    const auto kernels = merge_launches(profiled.launches);
    nlohmann::json one = {{"title", profiled.title}, {"path", profiled.path}, {"flops", profiled.flops}, {"bytes", profiled.bytes}, {"kernels", nlohmann::json::array()}};
    for (const KernelCounters& kernel : kernels) one["kernels"].push_back(kernel_json(kernel, profiled, kernels, view));
    result["cases"].push_back(one);
  }
  return result;
}

}  // namespace patchbay::app

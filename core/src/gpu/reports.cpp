// What the emulator says when a kernel goes wrong.
#include <map>

#include "gpu/source_line.h"
#include "gpu/state.h"
#include "patchbay/error.h"

namespace patchbay::gpu::emulator {
namespace {

std::string text_of(uint3 v) { return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")"; }

/// "0-31,40": the numbers of threads, in ranges.
std::string ranges_of(const std::vector<unsigned>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(ranks[i]);
    if (end > i + 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace

std::string text_of(CallSite site) {
  const std::string file = site.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line);
}

std::string place_of(const Worker& w) {
  std::string place = "kernel " + (w.launch ? kernel_name(w.launch->call->function) : "?");
  if (w.current) place += ", block " + text_of(w.current->block->index) + ", thread " + text_of(w.current->index);
  return place;
}

void fail(const std::string& problem, const std::string& remedy) {
  if (!worker || !worker->launch) throw Error("emulator", problem, {}, remedy);
  worker->quiet = true;
  throw Error(place_of(*worker), worker->site ? problem + ", at " + text_of(*worker->site) : problem, {}, remedy);
}

void report_deadlock(Worker& w) {
  std::map<std::string, std::vector<unsigned>> waiting;
  int ended = 0;
  unsigned number = 0;
  for (const auto& block : w.blocks) {
    if (!block->live) continue;
    number = block->number;
    for (const auto& thread : block->threads) {
      if (thread.done) ++ended;
      else waiting[std::string(thread.waits_in ? thread.waits_in : "nothing") + " at " + text_of(thread.site)].push_back(thread.rank);
    }
    break;
  }
  std::string text = "deadlock";
  for (const auto& [what, ranks] : waiting)
    text += "; " + std::to_string(ranks.size()) + (ranks.size() == 1 ? " thread waits in " : " threads wait in ") + what + " (thread " +
            ranges_of(ranks) + ")";
  if (ended) text += "; " + std::to_string(ended) + " threads of the block have ended";
  w.current = nullptr;
  throw Error(place_of(w) + ", block " + std::to_string(number), text, {}, "every thread must reach the same barrier");
}

}  // namespace patchbay::gpu::emulator

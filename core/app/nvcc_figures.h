/// @file nvcc_figures.h
/// What nvcc said of the kernels that it built. A build with CUDA keeps its words beside each plugin: KIND/NAME.ptxas, as
/// `ptxas -v` prints them.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace patchbay::app {

/// Of one kernel, built for sm_<architecture>.
struct NvccFigures {
  int architecture = 0;
  int registers = 0;        ///< of a thread
  int spilled_bytes = 0;    ///< stores and loads of registers that did not fit
};

class NvccReport {
 public:
  /// Adds what a file says. What is no such line is passed over: warnings stand between them.
  void add(const std::string& text);
  /// For a GPU of sm_<architecture>: the build for it, or for the next lower one of the same generation, which runs there.
  std::optional<NvccFigures> find(const std::string& kernel, int architecture) const;
  /// The reports beside the plugins.
  static NvccReport beside_plugins();

 private:
  std::map<std::pair<std::string, int>, NvccFigures> figures_;  ///< by short name and architecture
};

}  // namespace patchbay::app

/// @file kernel_choice.h
/// Which kernels attention and weights run in a run: what its settings name, as far as the place where they run has it.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "run_config.h"

namespace patchbay {

/// Whose kernels run on a device (KernelInfo::backend): the emulator's are those of cuda.
PATCHBAY_API std::string_view kernel_backend(const std::string& device);
/// (phase, its kernel) of a setting such as weights.kernel; the phase is "" where one name serves both.
std::vector<std::pair<std::string, const Settings*>> asked_kernels(const Settings& kernel);

/// The attention of the layers that run on `backend`: of a model that is split, without the kernels that are another backend's; with
/// deterministic: true, on a GPU, with one for prefill and decoding, so that a row's bits do not depend on what came with it.
/// @throws Error where that one would be two.
PluginSpec attention_on(const RunConfig& config, std::string_view backend);
/// The same of the format of a weight that is multiplied on `backend`; weights.kernel counts where the format has it there and names none itself.
PluginSpec format_on(PluginSpec format, const RunConfig& config, std::string_view backend);
/// Whether one of these formats (by type) has the kernels that weights.kernel names, on a backend of the run's. @throws Error naming
/// those there are.
void check_weight_kernel(const RunConfig& config, const std::vector<std::string>& formats);

}  // namespace patchbay

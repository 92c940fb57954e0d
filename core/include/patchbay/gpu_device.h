/// @file gpu_device.h
/// A Device as launchers need it: its world and its stream.
#pragma once
#include "patchbay/backend.h"
#include "patchbay/gpu/host.h"

namespace patchbay::gpu {

/// Which of a launcher's functions runs on the device. @throws Error for the host.
inline World world_of(const Device& device) {
  switch (device.kind()) {
    case DeviceKind::cuda: return World::cuda;
    case DeviceKind::simt: return World::simt;
    case DeviceKind::simt_checked: return World::simt_checked;
    case DeviceKind::host: break;
  }
  throw Error("gpu kernel", "the host runs none");
}
inline Stream stream_of(const Device& device) { return {device.stream()}; }

}  // namespace patchbay::gpu

#include "experiment/emulated.h"

#include "gpu/streams.h"
#include "session.h"

namespace patchbay {
namespace {

int threads_of(gpu::Stream stream) {
  gpu::emulator::Streams& streams = gpu::emulator::Streams::instance();
  const std::lock_guard lock(streams.mutex());
  return streams.state_of(stream)->options.os_threads;
}

}  // namespace

std::string emulated_device(Session& session) {
  switch (session.device().kind()) {
    case DeviceKind::simt: return "simt";
    case DeviceKind::simt_checked: return "simt_checked";
    default: return "";
  }
}

int working_threads(Session& session) {
  switch (session.device().kind()) {
    case DeviceKind::simt: return threads_of(gpu::Stream{session.device().stream()});
    case DeviceKind::simt_checked: return 1;  // its checks are one thread's business
    default: return session.host().concurrency();
  }
}

}  // namespace patchbay

#include "gpu/streams.h"

#include <algorithm>
#include <utility>

#include "gpu/state.h"
#include "patchbay/error.h"

namespace patchbay::gpu::emulator {

thread_local int device_in_use = 0;

Streams& Streams::instance() {
  static Streams* streams = new Streams;  // never destroyed: statics of others may still use it
  return *streams;
}

Stream Streams::create() {
  const auto& state = others_.emplace_back(std::make_shared<StreamState>());
  state->device = device_in_use;
  state->options = {emulator_options().os_threads, emulator_options().architecture};
  return {state.get()};
}

std::shared_ptr<StreamState> Streams::state_of(Stream stream) {
  if (!stream.handle) return default_;
  for (const auto& state : others_)
    if (state.get() == stream.handle) return state;
  throw Error("gpu::Stream", "the stream does not exist, or was destroyed");
}

void Streams::destroy(Stream stream) {
  if (!stream.handle) return;
  const auto state = state_of(stream);
  settle(*state);  // what it was given is still done
  std::erase(others_, state);
  if (!default_->fault) default_->fault = state->fault;  // device_synchronize() tells it
}

void Streams::give(Stream stream, std::function<void()> work) {
  const auto state = state_of(stream);
  if (state->recording) return state->recording->work.push_back(std::move(work));
  state->queue.push_back(std::move(work));
  ++state->given;
  const EmulatorOptions& options = emulator_options();
  std::uint64_t draw = (options.seed * 1024 + ++decisions_) * 0x9E3779B97F4A7C15ull;
  draw = (draw ^ draw >> 29) * 0xBF58476D1CE4E5B9ull;
  if (options.order != Order::random || draw >> 63) run_until(*state, state->given);
}

void Streams::run_until(StreamState& stream, std::uint64_t ticket) {
  if (stream.fault) std::rethrow_exception(std::exchange(stream.fault, nullptr));
  while (stream.done < ticket && !stream.queue.empty()) {
    const auto work = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++stream.done;
    try {
      work();
    } catch (...) {
      stream.queue.clear();
      stream.done = stream.given;
      throw;
    }
  }
}

void Streams::run_all() {
  auto all = others_;
  all.push_back(default_);
  if (emulator_options().order == Order::random) std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(emulator_options().seed % all.size()), all.end());
  for (const auto& stream : all) run_until(*stream, stream->given);
}

void Streams::settle(StreamState& stream) noexcept {
  try {
    run_until(stream, stream.given);
  } catch (...) {
    stream.fault = std::current_exception();
  }
}
void Streams::settle_all() noexcept {
  const auto all = others_;
  for (const auto& stream : all) settle(*stream);
  settle(*default_);
}

void Streams::end_recording(const std::shared_ptr<GraphState>& recording) {
  for (const auto& stream : others_)
    if (stream->recording == recording) stream->recording = nullptr;
}

void launch(Dim grid, Dim block, std::size_t shared_bytes, Stream stream, KernelCall call) {
  Streams& streams = Streams::instance();
  const std::lock_guard lock(streams.mutex());
  if (worker && worker->launch) fail("a kernel launches a kernel", "launch from the host");
  const auto state = streams.state_of(stream);
  if (stream.handle && state->device != device_in_use)
    throw Error("gpu::launch", "the stream is one of device " + std::to_string(state->device) + ", and this thread uses device " +
                                   std::to_string(device_in_use), {}, "call gpu::device_use() before");
  const StreamOptions options =
      stream.handle ? state->options : StreamOptions{emulator_options().os_threads, emulator_options().architecture};
  require_shape(grid, block, shared_bytes, options.architecture, call);
  streams.give(stream, [=] { run_launch(grid, block, shared_bytes, options, call); });
}

}  // namespace patchbay::gpu::emulator

// A GPU as a Device. What crosses between host and device goes through pinned memory, so that the host need not wait for what it
// sends: two pieces take turns, one filled while the other travels.
#include "device.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr std::size_t kPieceBytes = 4 << 20;

/// The stream, shared by the device and every buffer, which may outlive it. A process may have several GPUs: whatever is asked of this
/// one begins with stream(), use() or quietly().
class Work {
 public:
  explicit Work(int ordinal) : ordinal_(ordinal) {
    use();
    stream_ = gpu::stream_create();
  }
  Work(const Work&) = delete;
  ~Work() {
    quietly([&] { gpu::stream_destroy(stream_); });
  }
  /// Makes this GPU the one that the calling thread's calls mean.
  void use() const { gpu::device_use(ordinal_); }
  gpu::Stream stream() const {
    use();
    return stream_;
  }
  /// @throws what failed on the device since the last wait.
  void wait() {
    if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
    gpu::stream_synchronize(stream());
  }
  /// For destructors, which may not throw: does body on this GPU; what fails is kept for the next wait().
  template <class Body>
  void quietly(Body body) noexcept {
    try {
      use();
      body();
    } catch (...) {
      if (!fault_) fault_ = std::current_exception();
    }
  }
  DeviceMemory held;

 private:
  int ordinal_;
  gpu::Stream stream_;
  std::exception_ptr fault_;
};

std::string mib(std::size_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20) + " MiB"; }

/// Pinned memory that is free again once its event has passed.
class Piece {
 public:
  explicit Piece(std::shared_ptr<Work> work)
      : work_(std::move(work)), memory_(static_cast<std::byte*>(gpu::host_alloc(kPieceBytes))), sent_(gpu::event_create()) {}
  Piece(const Piece&) = delete;
  ~Piece() {
    work_->quietly([&] {
      gpu::event_destroy(sent_);
      gpu::host_free(memory_);
    });
  }
  std::byte* memory() {
    if (used_) gpu::event_synchronize(sent_);
    return memory_;
  }
  void mark(gpu::Stream stream) {
    gpu::event_record(sent_, stream);
    used_ = true;
  }

 private:
  std::shared_ptr<Work> work_;
  std::byte* memory_;
  gpu::Event sent_;
  bool used_ = false;
};

class RecordedWork final : public Graph {
 public:
  RecordedWork(gpu::Graph graph, std::shared_ptr<Work> work) : graph_(graph), work_(std::move(work)) {}
  ~RecordedWork() override {
    work_->quietly([&] { gpu::graph_destroy(graph_); });
  }
  void replay() override { gpu::graph_launch(graph_, work_->stream()); }

 private:
  gpu::Graph graph_;
  std::shared_ptr<Work> work_;
};

/// A tensor as runs of adjacent bytes: how long one is, and where the others begin.
struct Runs {
  std::int64_t bytes, count[3] = {1, 1, 1}, stride[3] = {};
  explicit Runs(const TensorRef& tensor) : bytes(bytes_of(tensor.dtype)) {
    int axis = tensor.rank - 1;
    for (; axis >= 0 && (tensor.strides[axis] * bytes_of(tensor.dtype) == bytes || tensor.shape[axis] == 1); --axis) {
      bytes *= tensor.shape[axis];
    }
    if (axis > 2) throw Error("gpu copy", "the values of a row are not adjacent");
    for (int outer = 2; axis >= 0; --axis, --outer) {
      count[outer] = tensor.shape[axis];
      stride[outer] = tensor.strides[axis] * bytes_of(tensor.dtype);
    }
  }
  /// Where byte `at` of the tensor, counted as if it were dense, lies.
  std::int64_t place(std::int64_t at) const {
    const std::int64_t run = at / bytes;
    const std::int64_t k = run % count[2], j = run / count[2] % count[1], i = run / count[2] / count[1];
    return i * stride[0] + j * stride[1] + k * stride[2] + at % bytes;
  }
};

class GpuDevice final : public Device {
 public:
  explicit GpuDevice(const GpuOptions& options) : options_(options), work_(std::make_shared<Work>(options.ordinal)) {}

  Buffer allocate(std::int64_t bytes) override {
    if (bytes < 0) throw Error("gpu memory", "cannot allocate " + std::to_string(bytes) + " bytes");
    work_->use();
    std::byte* const pointer = take(bytes);
    work_->held.bytes += bytes;
    ++work_->held.allocations;
    const auto release = [work = work_, bytes](std::byte* pointer) {
      work->quietly([&] { work->wait(); });  // nothing that was given to the stream reads it any more
      work->quietly([&] { gpu::device_free(pointer); });
      work->held.bytes -= bytes;
    };
    const std::shared_ptr<std::byte> memory(pointer, release);
    if (bytes > 0) gpu::memset_async(pointer, 0, static_cast<std::size_t>(bytes), work_->stream());
    return {memory, bytes, 1 + options_.ordinal};
  }

  void copy(TensorRef from, TensorRef to) override {
    bool same = from.dtype == to.dtype && from.rank == to.rank;
    for (int axis = 0; axis < from.rank; ++axis) same = same && from.shape[axis] == to.shape[axis];
    if (!same) throw Error("gpu copy", "the two tensors differ in type or shape");
    const std::int64_t total = from.size() * bytes_of(from.dtype);
    const Runs source(from), target(to);
    const auto* read = static_cast<const std::byte*>(from.data);
    auto* write = static_cast<std::byte*>(to.data);
    // The longest stretches that are adjacent on both sides.
    const std::int64_t step = std::min(source.bytes, target.bytes);
    if (total == 0) return;
    if (from.device != 0 && to.device != 0) {
      for (std::int64_t at = 0; at < total; at += step) {
        gpu::memcpy_async(write + target.place(at), read + source.place(at), step, gpu::CopyKind::device_to_device, work_->stream());
      }
    } else if (from.device == 0 && to.device == 0) {
      for (std::int64_t at = 0; at < total; at += step) std::memcpy(write + target.place(at), read + source.place(at), step);
    } else if (from.device == 0) {
      send(source, read, target, write, total);
    } else {
      fetch(source, read, target, write, total);
    }
  }

  int concurrency() const override { return 1; }
  void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t, int)> body) override {
    for (std::int64_t begin = 0; begin < n; begin += grain) body(begin, std::min(n, begin + grain), 0);
  }
  DeviceKind kind() const override { return options_.kind; }
  DType activations() const override { return options_.activations; }
  void* stream() const override { return work_->stream().handle; }
  DeviceMemory memory() const override { return work_->held; }

  std::unique_ptr<patchbay::Graph> capture(FunctionRef<void()> body) override {
    const gpu::Stream stream = work_->stream();
    gpu::capture_begin(stream);
    try {
      body();
    } catch (...) {
      gpu::capture_cancel(stream);
      throw;
    }
    auto graph = std::make_unique<RecordedWork>(gpu::capture_end(stream), work_);
    graph->replay();  // a capture records and runs nothing
    return graph;
  }

 private:
  std::byte* take(std::int64_t bytes) const {
    try {
      return static_cast<std::byte*>(gpu::device_alloc(static_cast<std::size_t>(bytes)));
    } catch (const Error& error) {
      const gpu::MemoryRoom room = gpu::device_memory();
      throw Error("gpu memory", "cannot allocate " + std::to_string(bytes) + " bytes (" + mib(static_cast<std::size_t>(bytes)) + "): " +
                                    mib(room.free) + " of " + mib(room.total) + " are free (" + error.problem() + ")",
                  "", "this run holds " + mib(static_cast<std::size_t>(work_->held.bytes)) +
                          " already: take fewer gpu_layers, a shorter context (max_tokens), a smaller kv_store.format or weights of fewer "
                          "bits; nvidia-smi shows what other programs hold");
    }
  }
  Piece& next_piece() {
    work_->use();
    if (!pieces_[turn_]) pieces_[turn_] = std::make_unique<Piece>(work_);
    Piece& piece = *pieces_[turn_];
    turn_ = 1 - turn_;
    return piece;
  }
  /// Calls body(dense offset, bytes) for stretches of at most `most` bytes that are adjacent on the strided side.
  template <class Body>
  static void stretches(const Runs& runs, std::int64_t first, std::int64_t end, Body body) {
    while (first < end) {
      const std::int64_t bytes = std::min(end - first, runs.bytes - first % runs.bytes);
      body(first, bytes);
      first += bytes;
    }
  }
  void send(const Runs& source, const std::byte* from, const Runs& target, std::byte* to, std::int64_t total) {
    for (std::int64_t first = 0; first < total;) {
      const std::int64_t end = std::min(total, first + static_cast<std::int64_t>(kPieceBytes));
      Piece& piece = next_piece();
      std::byte* const memory = piece.memory();
      stretches(source, first, end, [&](std::int64_t at, std::int64_t bytes) { std::memcpy(memory + at - first, from + source.place(at), bytes); });
      stretches(target, first, end, [&](std::int64_t at, std::int64_t bytes) {
        gpu::memcpy_async(to + target.place(at), memory + at - first, bytes, gpu::CopyKind::host_to_device, work_->stream());
      });
      piece.mark(work_->stream());
      first = end;
    }
  }
  void fetch(const Runs& source, const std::byte* from, const Runs& target, std::byte* to, std::int64_t total) {
    for (std::int64_t first = 0; first < total;) {
      const std::int64_t end = std::min(total, first + static_cast<std::int64_t>(kPieceBytes));
      std::byte* const memory = next_piece().memory();
      stretches(source, first, end, [&](std::int64_t at, std::int64_t bytes) {
        gpu::memcpy_async(memory + at - first, from + source.place(at), bytes, gpu::CopyKind::device_to_host, work_->stream());
      });
      work_->wait();
      stretches(target, first, end, [&](std::int64_t at, std::int64_t bytes) { std::memcpy(to + target.place(at), memory + at - first, bytes); });
      first = end;
    }
  }

  GpuOptions options_;
  std::shared_ptr<Work> work_;
  std::array<std::unique_ptr<Piece>, 2> pieces_;
  int turn_ = 0;
};

/// The GPU's name. @throws Error saying what is missing: the driver, or the device.
std::string take_gpu(int ordinal) {
  int count = 0;
  std::string why = "none found";
  try {
    count = gpu::device_count();
  } catch (const Error& error) {
    why = error.problem();
  }
  if (count == 0) throw Error("backend cuda", "no GPU is at hand (" + why + ")", {}, "run on device simt, which runs the same kernels on the CPU, or on device cpu");
  if (ordinal >= count) throw Error("backend cuda: gpu", "there is no GPU " + std::to_string(ordinal), "0 to " + std::to_string(count - 1));
  gpu::device_use(ordinal);
  return gpu::device_name();
}

}  // namespace

std::unique_ptr<Device> make_gpu_device(const GpuOptions& options, std::string& device_name) {
  device_name = take_gpu(options.ordinal);
  return std::make_unique<GpuDevice>(options);
}

}  // namespace patchbay::PATCHBAY_GPU

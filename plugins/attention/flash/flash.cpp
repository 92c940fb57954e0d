// Flash attention: the softmax is computed tile by tile of keys and values, so that no row of scores is ever whole in memory.
// Here a step is cut into pieces for the threads; piece.cpp is the algorithm, tile_math.h its inner operations.
#include <algorithm>

#include "flash_gpu.h"
#include "patchbay/gpu_device.h"
#include "patchbay/plugin.h"
#include "piece.h"

namespace patchbay {
namespace {

using flash::Piece, flash::PieceSpec, flash::Scratch, flash::TileKernels;

constexpr std::int64_t kQueryRows = 96;        // query rows (positions x heads of a group) that share one decoded tile
constexpr std::int64_t kSerialWork = 1 << 18;  // multiply-adds below which waking other threads costs more than it saves

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
  return false;
#endif
}
bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

constexpr KernelInfo kKernels[] = {
    {"plain", "cpu", "both", "4 floats at a time, as any machine can: the definition"},
    {"avx2", "cpu", "both", "8 floats per instruction, fused multiply-add, halves decoded by the processor", has_avx2},
    {"avx512", "cpu", "both", "16 floats per instruction: half the instructions", has_avx512},
    {"tiled", "cuda", "both", "tiles in shared memory, read by 16 queries that share a head; sums by CUDA cores"},
    {"flash", "cuda", "both", "products on tensor cores, 64 queries at a time, weights in registers; loads beside the products"},
    {"split_kv", "cuda", "decode", "a row's slots spread over blocks of 128, put together at the end: one row fills the GPU"},
};

const TileKernels& kernels_named(std::string_view name) {
  return name == "avx512" ? flash::kAvx512 : name == "avx2" ? flash::kAvx2 : flash::kPlain;
}

class Flash final : public Attention {
 public:
  struct Params {
    KernelChoice kernel;
    void visit(Fields& f) {
      f.kernel("kernel", kernel, kKernels, {"how tiles are computed: on the host by which instruction set"});
    }
  };
  explicit Flash(const Params& params) : asked_(params.kernel) {}

  void prepare(Device& device) override {
    on_host_ = device.is_host();
    const std::string_view backend = on_host_ ? "cpu" : "cuda";
    prefill_ = pick_kernel(asked_.prefill, kKernels, "flash", "prefill", backend).name;
    decode_ = pick_kernel(asked_.decode, kKernels, "flash", "decode", backend).name;
  }

  bool reads(const KvLayout& layout) const override {
    if (layout == KvLayout{DType::i8, true}) return true;
    if (!layout.scaled && (layout.dtype == DType::f32 || layout.dtype == DType::f16)) return true;
    const bool narrow = layout.dtype == DType::bf16 || layout.dtype == DType::f8_e4m3 || layout.dtype == DType::f8_e5m2;
    return !on_host_ && narrow && !layout.scaled;
  }

  void run(const AttentionSpec& spec, std::span<const StepSequence> sequences, std::span<const KvView> views, TensorRef q,
           TensorRef out, Device& device) override {
    const auto queries = q.as<const float, 3>();
    const auto outputs = out.as<float, 3>();
    const std::int64_t work = plan(spec, sequences, views);
    const std::int64_t rows = std::max<std::int64_t>(kQueryRows, spec.heads / spec.kv_heads);
    const std::int64_t size = Scratch::size(rows, spec.head_size);
    const std::int64_t bytes = size * device.concurrency() * bytes_of(DType::f32);
    if (memory_.size() < bytes) memory_ = device.allocate(bytes);
    const std::int64_t pieces = static_cast<std::int64_t>(pieces_.size());
    device.parallel_for(pieces, work < kSerialWork ? pieces : 1, [&](std::int64_t begin, std::int64_t end, int worker) {
      const Scratch scratch(reinterpret_cast<float*>(memory_.data()) + worker * size, rows, spec.head_size);
      for (std::int64_t i = begin; i < end; ++i) {
        const StepSequence& sequence = sequences[pieces_[i].sequence];
        const TileKernels& kernels = kernels_named(sequence.rows == 1 ? decode_ : prefill_);
        Piece(kernels, spec, sequence, views[pieces_[i].sequence], pieces_[i], scratch).run(queries, outputs);
      }
    });
  }

  /// A sequence's kernel depends on its own rows alone, so that its bits do not depend on what else is in the step.
  void run_on_gpu(const AttentionSpec& spec, const GpuStep& step, int layer, TensorRef q, TensorRef out,
                  Device& device) override {
    const auto has = [&](bool several) {
      return std::any_of(step.host.begin(), step.host.end(), [&](const StepSequence& s) { return (s.rows > 1) == several; });
    };
    FlashJob job{spec, step, layer, q, out, {}, nullptr};
    if (prefill_ == decode_) return launch(prefill_, job, device);
    job.which = {.least = 2};
    if (has(true)) launch(prefill_, job, device);
    job.which = {.least = 1, .most = 1};
    if (has(false)) launch(decode_, job, device);
  }

  std::string path() const override {
    std::string text = "flash:";
    text += prefill_;
    return prefill_ == decode_ ? text : text.append("+").append(decode_);
  }

 private:
  void launch(std::string_view kernel, FlashJob& job, Device& device) {
    const gpu::World world = gpu::world_of(device);
    const gpu::Stream stream = gpu::stream_of(device);
    if (kernel == "tiled") return gpu::pick(gpu_launchers::tiled_attention, world)(job, stream);
    if (kernel == "flash") return gpu::pick(gpu_launchers::flash_attention, world)(job, stream);
    const std::int64_t bytes = split_kv_scratch(job.spec, job.step) * bytes_of(DType::f32);
    if (memory_.size() < bytes) memory_ = device.allocate(bytes);
    job.scratch = reinterpret_cast<float*>(memory_.data());
    gpu::pick(gpu_launchers::split_kv_attention, world)(job, stream);
  }

  /// Cuts the step into pieces, long ones first; returns its multiply-adds.
  std::int64_t plan(const AttentionSpec& spec, std::span<const StepSequence> sequences, std::span<const KvView> views) {
    const std::int64_t step = std::max<std::int64_t>(1, kQueryRows / (spec.heads / spec.kv_heads));
    pieces_.clear();
    std::int64_t work = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (!reads(views[i].layout)) throw Error("attention flash", "cannot read this cache's layout", "f32, f16, i8 with scales");
      work += 2 * sequences[i].rows * views[i].length * spec.heads * spec.head_size;
      for (std::int64_t end = sequences[i].rows; end > 0; end -= std::min(end, step)) {
        const std::int64_t begin = std::max<std::int64_t>(0, end - step);
        for (std::int64_t kv_head = 0; kv_head < spec.kv_heads; ++kv_head) {
          pieces_.push_back({static_cast<std::int64_t>(i), kv_head, begin, end - begin});
        }
      }
    }
    return work;
  }

  KernelChoice asked_;
  std::string_view prefill_, decode_;  ///< as they run, since prepare()
  std::vector<PieceSpec> pieces_;  ///< of this step; kept for its memory
  Buffer memory_;                  ///< one Scratch per worker; on a GPU what split_kv keeps between its two kernels
  bool on_host_ = true;
};

}  // namespace

PATCHBAY_PLUGIN(Attention, Flash, "flash", "softmax computed online over tiles of keys and values, shared by heads and rows",
                "Dao et al. 2022, FlashAttention; Milakov and Gimelshein 2018, Online normalizer calculation for softmax")

}  // namespace patchbay

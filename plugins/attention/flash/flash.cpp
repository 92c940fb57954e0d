// Flash attention: the softmax is computed tile by tile of keys and values, so that no row of scores is ever whole in memory.
// Here a step is cut into pieces for the threads; piece.cpp is the algorithm, tile_math.h its inner operations.
#include <algorithm>

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
};

const TileKernels& kernels_named(std::string_view name) {
  return name == "avx512" ? flash::kAvx512 : name == "avx2" ? flash::kAvx2 : flash::kPlain;
}

class Flash final : public Attention {
 public:
  struct Params {
    KernelChoice kernel;
    void visit(Fields& f) { f.kernel("kernel", kernel, kKernels, {"instruction set of the tile operations"}); }
  };
  explicit Flash(const Params& params) : asked_(params.kernel) {}

  void prepare(Device& device) override {
    Attention::prepare(device);
    prefill_ = pick_kernel(asked_.prefill, kKernels, "flash", "prefill").name;
    decode_ = pick_kernel(asked_.decode, kKernels, "flash", "decode").name;
  }

  bool reads(const KvLayout& layout) const override {
    return layout == KvLayout{DType::f32, false} || layout == KvLayout{DType::f16, false} || layout == KvLayout{DType::i8, true};
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

  std::string path() const override {
    std::string text = "flash:";
    text += prefill_;
    return prefill_ == decode_ ? text : text.append("+").append(decode_);
  }

 private:
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
  Buffer memory_;                  ///< one Scratch per worker
};

}  // namespace

PATCHBAY_PLUGIN(Attention, Flash, "flash", "softmax computed online over tiles of keys and values, shared by heads and rows",
                "Dao et al. 2022, FlashAttention; Milakov and Gimelshein 2018, Online normalizer calculation for softmax")

}  // namespace patchbay

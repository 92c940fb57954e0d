// Gated units: out = gate(g) * up with gate(g) = g * sigmoid(z): z = g for SiLU (SwiGLU), z = 2 sqrt(2/pi) (g + 0.044715 g^3) for
// GELU by tanh (GeGLU).
//   naive  one thread per value
//   fast   16 bytes per load and thread, so that fewer requests are in flight for the same bytes
#include "cuda_ops.h"
#include "patchbay/gpu/element.cuh"
#include "patchbay/gpu/vector.cuh"
#include "rows.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

using gpu::from_float, gpu::to_float;

template <Gate kGate>
__device__ float gate(float g) {
  const float z = kGate == Gate::silu ? g : 1.5957691216f * (g + 0.044715f * g * g * g);
  return g / (1.0f + expf(-z));
}

template <class T, Gate kGate>
__global__ void gated_naive(Rows<const T> g, Rows<const T> up, int cols, Rows<T> out) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (c >= cols) return;
  const float value = gate<kGate>(to_float(g.data[row * g.stride + c])) * to_float(up.data[row * up.stride + c]);
  out.data[row * out.stride + c] = from_float<T>(value);
}

template <class T, Gate kGate, int kWidth>
__global__ void gated_fast(Rows<const T> g, Rows<const T> up, int cols, Rows<T> out) {
  const int c = (blockIdx.x * blockDim.x + threadIdx.x) * kWidth, row = blockIdx.y;
  if (c >= cols) return;
  auto pack = gpu::load_pack<kWidth>(g.data + row * g.stride + c);
  const auto factors = gpu::load_pack<kWidth>(up.data + row * up.stride + c);
  for (int i = 0; i < kWidth; ++i) pack.at[i] = from_float<T>(gate<kGate>(to_float(pack.at[i])) * to_float(factors.at[i]));
  gpu::store_pack(out.data + row * out.stride + c, pack);
}

}  // namespace

void gated(Version version, Gate kind, TensorRef g, TensorRef up, TensorRef out, gpu::Stream stream) {
  require_version(version != Version::block, "gated");
  const std::int64_t rows = g.shape[0], cols = g.shape[1];
  with_type(g.dtype, "gated", [&]<class T>(std::type_identity<T>) {
    const auto gates = activations<const T>(g, "gated", rows, cols), factors = activations<const T>(up, "gated", rows, cols);
    const auto target = activations<T>(out, "gated", rows, cols);
    const int width = version == Version::fast ? pack_width(cols, gates, factors, target) : 1;
    const auto launch = [&](auto naive, auto fast, auto fast_unaligned) {
      const auto kernel = version == Version::naive ? naive : width > 1 ? fast : fast_unaligned;
      over_rows(rows, cols, width, [&](gpu::Dim grid, unsigned threads, std::int64_t first) {
        gpu::launch(grid, threads, 0, stream, kernel, gates.from(first), factors.from(first), static_cast<int>(cols),
                    target.from(first));
      });
    };
    constexpr int kWidth = 16 / sizeof(T);
    if (kind == Gate::silu) {
      launch(gated_naive<T, Gate::silu>, gated_fast<T, Gate::silu, kWidth>, gated_fast<T, Gate::silu, 1>);
    } else {
      launch(gated_naive<T, Gate::gelu_tanh>, gated_fast<T, Gate::gelu_tanh, kWidth>, gated_fast<T, Gate::gelu_tanh, 1>);
    }
  });
}

}  // namespace patchbay::PATCHBAY_GPU

// Decode attention, one new token per sequence, grouped-query heads, paged KV cache, online softmax.
// Grid (kv heads, sequences); warp g of a block serves query head kv * GROUP + g.
// cache layout: [page][kv head][PAGE tokens][D]
#include "gpu/kernels/kernels.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

constexpr int TILE = 32;  // tokens per step: one per lane

template <int D, int PAGE>
__global__ void attn_decode_kernel(const __half* q, const __half* kcache, const __half* vcache, const int* block_table,
                            const int* ctx_len, float* out, int kv_heads, int group, int max_pages, float scale) {
  PATCHBAY_DYNAMIC_SHARED(float, smem);  // K tile [TILE][D+1], V tile [TILE][D], q [group][D], p [group][TILE]
  float* ks = smem;
  float* vs = ks + TILE * (D + 1);
  float* qs = vs + TILE * D;
  float* ps = qs + group * D;
  const int kv = blockIdx.x, seq = blockIdx.y, lane = threadIdx.x % 32, g = threadIdx.x / 32;
  const int len = ctx_len[seq], head = kv * group + g;
  for (int i = lane; i < D; i += 32) qs[g * D + i] = __half2float(q[(seq * kv_heads * group + head) * D + i]) * scale;
  float m = -INFINITY, l = 0.0f, acc[D / 32] = {};
  for (int t0 = 0; t0 < len; t0 += TILE) {
    for (int i = threadIdx.x; i < TILE * D; i += blockDim.x) {
      int t = i / D, d = i % D, tok = t0 + t;
      if (tok < len) {
        int page = block_table[seq * max_pages + tok / PAGE];
        size_t at = ((size_t(page) * kv_heads + kv) * PAGE + tok % PAGE) * D + d;
        ks[t * (D + 1) + d] = __half2float(kcache[at]);
        vs[t * D + d] = __half2float(vcache[at]);
      } else {
        ks[t * (D + 1) + d] = 0.0f;
        vs[t * D + d] = 0.0f;
      }
    }
    __syncthreads();  // K and V tiles (and q) loaded
    float s = 0.0f;
    for (int d = 0; d < D; ++d) s += qs[g * D + d] * ks[lane * (D + 1) + d];
    if (t0 + lane >= len) s = -INFINITY;
    float mt = s;
    for (int d = 16; d > 0; d /= 2) mt = fmaxf(mt, __shfl_xor_sync(~0u, mt, d));
    const float m_new = fmaxf(m, mt), corr = __expf(m - m_new), p = __expf(s - m_new);
    float pt = p;
    for (int d = 16; d > 0; d /= 2) pt += __shfl_xor_sync(~0u, pt, d);
    l = l * corr + pt;
    m = m_new;
    ps[g * TILE + lane] = p;
    __syncwarp();  // p visible to the warp
    for (int i = 0; i < D / 32; ++i) {
      acc[i] *= corr;
      for (int t = 0; t < TILE; ++t) acc[i] += ps[g * TILE + t] * vs[t * D + lane + 32 * i];
    }
    __syncthreads();  // tiles used
  }
  for (int i = 0; i < D / 32; ++i)
    out[(seq * kv_heads * group + head) * D + lane + 32 * i] = len ? acc[i] / l : 0.0f;
}

}  // namespace

void attn_decode(const __half* q, const __half* k, const __half* v, const int* table, const int* len, float* out,
                     int seqs, int kv_heads, int group, int max_pages, gpu::Stream stream) {
  constexpr int D = 64, PAGE = 16;
  size_t smem = (TILE * (D + 1) + TILE * D + group * D + group * TILE) * sizeof(float);
  gpu::launch({kv_heads, seqs}, 32 * group, smem, stream, attn_decode_kernel<D, PAGE>, q, k, v, table, len, out,
               kv_heads, group, max_pages, 1.0f / sqrtf(float(D)));
}

}  // namespace patchbay::PATCHBAY_GPU

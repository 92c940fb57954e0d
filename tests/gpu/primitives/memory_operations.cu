#include "gpu/primitives/primitives.h"
#include "patchbay/gpu/async_copy.cuh"
#include "patchbay/gpu/vector.cuh"

namespace patchbay::PATCHBAY_GPU {
namespace {

__global__ void atomics_kernel(unsigned* out, float* floats) {
  const unsigned i = threadIdx.x;
  if (i == 0) {
    for (int k = 0; k < 9; ++k) out[k] = k == 3 ? 1000u : k == 4 ? ~0u : 0u;
    floats[0] = 0;
  }
  __syncthreads();
  atomicAdd(&out[0], i);
  atomicSub(&out[1], 1u);
  atomicMax(&out[2], i * 3);
  atomicMin(&out[3], 500 - i);
  atomicAnd(&out[4], ~(1u << i % 32));
  atomicOr(&out[5], 1u << i % 7);
  atomicXor(&out[6], i);
  atomicInc(&out[7], 9u);
  while (true) {  // out[8] += 2 by compare and swap
    const unsigned old = atomicAdd(&out[8], 0u);
    if (atomicCAS(&out[8], old, old + 2) == old) break;
  }
  atomicAdd(&floats[0], 0.5f);
}

__global__ void async_copies_kernel(const float* in, float* out, int valid_bytes) {
  PATCHBAY_SHARED(float, tile, [2][64]);
  const int i = threadIdx.x;
  if (i < 16) gpu::cp_async16(&tile[0][4 * i], &in[4 * i]);
  gpu::cp_async_commit();
  if (i < 16) gpu::cp_async16(&tile[1][4 * i], &in[64 + 4 * i], valid_bytes);
  gpu::cp_async_commit();
  gpu::cp_async_wait<1>();
  __syncthreads();
  out[i] = tile[0][i];
  gpu::cp_async_wait<0>();
  __syncthreads();
  out[64 + i] = tile[1][i];
  __syncthreads();
  gpu::cp_async4(&tile[0][i], &in[i + 1]);
  if (i % 2 == 0) gpu::cp_async8(&tile[1][i], &in[i]);
  gpu::cp_async_commit();
  gpu::cp_async_wait<0>();
  __syncthreads();
  out[128 + i] = tile[0][i] + tile[1][i];
}

__global__ void vectors_kernel(const __half* in, __half* out, int count) {
  const int i = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
  if (i >= count) return;
  auto eight = gpu::load_readonly<8>(in + i);
  const auto four = gpu::load<4>(in + i);
  for (int k = 0; k < 4; ++k) eight[k] = eight[k] + four[k];
  gpu::store(out + i, eight);
}

/// The pattern of split reductions: every block leaves its part, and the last to finish adds them up.
__global__ void last_block_sums_kernel(const float* in, float* parts, unsigned* ticket, float* out) {
  PATCHBAY_SHARED(unsigned, place, [1]);
  if (threadIdx.x == 0) {
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += in[blockIdx.x * 8 + i];
    parts[blockIdx.x] = sum;
    __threadfence();
    place[0] = atomicAdd(ticket, 1u);
  }
  __syncthreads();
  if (place[0] + 1 != gridDim.x || threadIdx.x != 0) return;
  float sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += parts[block];
  *out = sum;
}

/// Block b waits for block b + 1: legal only where all blocks run at once.
__global__ void blocks_in_turn_kernel(unsigned* turn, float* out) {
  if (threadIdx.x > 0) return;
  while (atomicAdd(turn, 0u) != gridDim.x - 1 - blockIdx.x) __nanosleep(100);
  out[0] += 1;
  __threadfence();
  atomicAdd(turn, 1u);
}

__global__ void add_one_kernel(float* x, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] += 1;
}

__constant__ const int kTable[4] = {3, 1, 4, 1};
__global__ void table_lookup_kernel(const int* in, int* out) { out[threadIdx.x] = kTable[in[threadIdx.x]]; }

}  // namespace

void atomics(unsigned* out, float* floats, gpu::Stream stream) { gpu::launch(1, 100, 0, stream, atomics_kernel, out, floats); }
void async_copies(const float* in, float* out, int valid_bytes, gpu::Stream stream) {
  gpu::launch(1, 64, 0, stream, async_copies_kernel, in, out, valid_bytes);
}
void vectors(const __half* in, __half* out, int count, gpu::Stream stream) {
  gpu::launch(gpu::ceil_div(count, 8 * 32), 32, 0, stream, vectors_kernel, in, out, count);
}
void last_block_sums(const float* in, float* parts, unsigned* ticket, float* out, int blocks, gpu::Stream stream) {
  gpu::launch(blocks, 32, 0, stream, last_block_sums_kernel, in, parts, ticket, out);
}
void blocks_in_turn(unsigned* turn, float* out, int blocks, gpu::Stream stream) { gpu::launch(blocks, 32, 0, stream, blocks_in_turn_kernel, turn, out); }
void add_one(float* x, int count, gpu::Stream stream) { gpu::launch(gpu::ceil_div(count, 128), 128, 0, stream, add_one_kernel, x, count); }
void table_lookup(const int* in, int* out, gpu::Stream stream) { gpu::launch(1, 32, 0, stream, table_lookup_kernel, in, out); }
void in_clusters(float* x, gpu::Stream stream) { gpu::launch_cluster(4, 32, 2, 0, stream, add_one_kernel, x, 1); }
void with_shape(float* x, gpu::Dim grid, gpu::Dim block, std::size_t shared_bytes, gpu::Stream stream) {
  gpu::launch(grid, block, shared_bytes, stream, add_one_kernel, x, 1);
}

}  // namespace patchbay::PATCHBAY_GPU

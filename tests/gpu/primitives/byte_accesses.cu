// Accesses of any size at any place of 16 bytes, one after another, for races_test.cpp.
#include "gpu/primitives/primitives.h"

namespace patchbay::PATCHBAY_GPU {
namespace {

template <class T> __device__ unsigned touch(char* bytes, const ByteAccess& access) {
  T& place = *reinterpret_cast<T*>(bytes + access.offset);
  if (!access.write) return static_cast<unsigned>(place);
  place = static_cast<T>(access.offset);
  return 0;
}

__global__ void byte_accesses_kernel(const ByteAccess* accesses, int count, char* global_bytes, bool shared, unsigned* out) {
  PATCHBAY_SHARED(char, shared_bytes, [16]);
  char* bytes = shared ? shared_bytes : global_bytes;
  if (threadIdx.x == 0)
    for (int i = 0; i < 16; ++i) bytes[i] = 0;
  __syncthreads();
  unsigned sum = 0;
  for (int i = 0; i < count; ++i) {
    const ByteAccess& access = accesses[i];
    if (access.after_barrier) __syncthreads();
    if (static_cast<int>(threadIdx.x) != access.thread) continue;
    if (access.bytes == 1) sum += touch<unsigned char>(bytes, access);
    if (access.bytes == 2) sum += touch<unsigned short>(bytes, access);
    if (access.bytes == 4) sum += touch<unsigned>(bytes, access);
    if (access.bytes == 8) sum += touch<unsigned long long>(bytes, access);
  }
  out[threadIdx.x] = sum;
}

}  // namespace

void byte_accesses(const ByteAccess* accesses, int count, char* bytes, bool shared, unsigned* out, gpu::Stream stream) {
  gpu::launch(1, 3, 0, stream, byte_accesses_kernel, accesses, count, bytes, shared, out);
}

}  // namespace patchbay::PATCHBAY_GPU

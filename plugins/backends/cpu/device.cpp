#include "device.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace patchbay::cpu {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = 2 << 20;

/// A tensor seen as four axes, the missing ones of extent 1 in front.
struct FourAxes {
  std::byte* data;
  std::int64_t shape[4] = {1, 1, 1, 1}, byte_strides[4] = {};
  explicit FourAxes(const TensorRef& tensor) : data(static_cast<std::byte*>(tensor.data)) {
    for (int axis = 4 - tensor.rank; axis < 4; ++axis) {
      shape[axis] = tensor.shape[axis - 4 + tensor.rank];
      byte_strides[axis] = tensor.strides[axis - 4 + tensor.rank] * bytes_of(tensor.dtype);
    }
  }
  std::byte* at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return data + i * byte_strides[0] + j * byte_strides[1] + k * byte_strides[2];
  }
};

void copy_row(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride, std::int64_t n,
              std::int64_t size) {
  if (from_stride == size && to_stride == size) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<std::size_t>(size));
}

/// Asks for 2 MiB pages where whole ones fit: decoding reads every weight once per token, and with 4 KiB pages it waits for the
/// address translation as much as for the memory. A kernel that gives none leaves the block as it is.
void ask_for_huge_pages(void* block, std::size_t bytes) {
  const auto begin = (reinterpret_cast<std::uintptr_t>(block) + kHugePage - 1) / kHugePage * kHugePage;
  const auto end = (reinterpret_cast<std::uintptr_t>(block) + bytes) / kHugePage * kHugePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

Buffer CpuDevice::allocate(std::int64_t bytes) {
  // calloc takes large blocks from the system as zeros, so that pages nobody writes cost nothing.
  void* block = bytes < 0 ? nullptr : std::calloc(static_cast<std::size_t>(bytes) + kAlignment, 1);
  if (!block) {
    throw Error("backend cpu: memory", "cannot allocate " + std::to_string(bytes) + " bytes", {},
                "use a smaller model, cache or context");
  }
  ask_for_huge_pages(block, static_cast<std::size_t>(bytes) + kAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  const std::size_t skip = kAlignment - address % kAlignment;
  return {std::shared_ptr<std::byte>(static_cast<std::byte*>(block) + skip, [block](std::byte*) { std::free(block); }), bytes, 0};
}

void CpuDevice::copy(TensorRef from, TensorRef to) {
  bool same = from.dtype == to.dtype && from.rank == to.rank && from.device == 0 && to.device == 0;
  std::int64_t items = 1;
  for (int axis = 0; axis < from.rank; ++axis) {
    same = same && from.shape[axis] == to.shape[axis];
    items *= from.shape[axis];
  }
  if (!same) throw Error("backend cpu: copy", "the two tensors differ in type, shape or device");
  if (items == 0) return;
  const FourAxes source(from), target(to);
  for (std::int64_t i = 0; i < source.shape[0]; ++i) {
    for (std::int64_t j = 0; j < source.shape[1]; ++j) {
      for (std::int64_t k = 0; k < source.shape[2]; ++k) {
        copy_row(source.at(i, j, k), source.byte_strides[3], target.at(i, j, k), target.byte_strides[3], source.shape[3],
                 bytes_of(from.dtype));
      }
    }
  }
}

}  // namespace patchbay::cpu

/// @file tensor.h
/// Views of numbers in memory. Nothing here owns memory but Buffer, and nothing here knows what the numbers mean.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <type_traits>

#include "patchbay/error.h"

namespace patchbay {

/// Element types that cross an interface. Packed codes travel as u8. The two of 8 bits are those of cached rows: one has more
/// digits (e4m3, largest 448), one more range (e5m2).
enum class DType : std::uint8_t { f32, f16, bf16, i8, u8, i32, f8_e4m3, f8_e5m2 };

/// Size of one element in bytes.
constexpr std::int64_t bytes_of(DType type) {
  switch (type) {
    case DType::f32: case DType::i32: return 4;
    case DType::f16: case DType::bf16: return 2;
    case DType::i8: case DType::u8: case DType::f8_e4m3: case DType::f8_e5m2: return 1;
  }
  return 0;
}
PATCHBAY_API std::string_view name_of(DType type);

/// IEEE binary16 and bfloat16 as storage: convert with the functions of half.h.
struct Half { std::uint16_t bits; };
struct BFloat16 { std::uint16_t bits; };

template <class T> struct dtype_of;
template <> struct dtype_of<float> { static constexpr DType value = DType::f32; };
template <> struct dtype_of<Half> { static constexpr DType value = DType::f16; };
template <> struct dtype_of<BFloat16> { static constexpr DType value = DType::bf16; };
template <> struct dtype_of<std::int8_t> { static constexpr DType value = DType::i8; };
template <> struct dtype_of<std::uint8_t> { static constexpr DType value = DType::u8; };
template <> struct dtype_of<std::int32_t> { static constexpr DType value = DType::i32; };

/// A typed view of an N-dimensional array: pointer, shape, strides in elements. Trivially copyable; owns nothing.
template <class T, int N>
struct View {
  T* data = nullptr;
  std::array<std::int64_t, N> shape{};
  std::array<std::int64_t, N> strides{};

  View() = default;
  /// A contiguous (row-major) view.
  View(T* pointer, std::array<std::int64_t, N> extents) : data(pointer), shape(extents) {
    std::int64_t step = 1;
    for (int i = N - 1; i >= 0; --i) { strides[i] = step; step *= extents[i]; }
  }
  View(T* pointer, std::array<std::int64_t, N> extents, std::array<std::int64_t, N> steps)
      : data(pointer), shape(extents), strides(steps) {}
  /// A view of T converts to a view of const T.
  template <class U> requires(std::is_same_v<const U, T> && !std::is_const_v<U>)
  View(const View<U, N>& other) : data(other.data), shape(other.shape), strides(other.strides) {}

  template <class... I> requires(sizeof...(I) == N)
  T& operator()(I... index) const {
    const std::int64_t at[] = {static_cast<std::int64_t>(index)...};
    std::int64_t offset = 0;
    for (int i = 0; i < N; ++i) offset += at[i] * strides[i];
    return data[offset];
  }
  /// The i-th slice along the first axis.
  View<T, N - 1> operator[](std::int64_t i) const requires(N > 1) {
    View<T, N - 1> part;
    part.data = data + i * strides[0];
    for (int k = 1; k < N; ++k) { part.shape[k - 1] = shape[k]; part.strides[k - 1] = strides[k]; }
    return part;
  }
  T& operator[](std::int64_t i) const requires(N == 1) { return data[i * strides[0]]; }
  /// Rows [begin, end) along the first axis.
  View rows(std::int64_t begin, std::int64_t end) const {
    View part = *this;
    part.data = data + begin * strides[0];
    part.shape[0] = end - begin;
    return part;
  }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (auto extent : shape) n *= extent;
    return n;
  }
  bool contiguous() const {
    std::int64_t step = 1;
    for (int i = N - 1; i >= 0; --i) {
      if (shape[i] != 1 && strides[i] != step) return false;
      step *= shape[i];
    }
    return true;
  }
};

/// A view without its type: what crosses interfaces, so that one signature serves fp32 on the CPU and fp16 on a GPU.
/// Rank at most 4; strides in elements; `device` 0 is host memory.
struct TensorRef {
  void* data = nullptr;
  DType dtype = DType::f32;
  int device = 0;
  int rank = 0;
  std::array<std::int64_t, 4> shape{};
  std::array<std::int64_t, 4> strides{};

  TensorRef() = default;
  template <class T, int N>
  TensorRef(const View<T, N>& view)  // NOLINT: implicit on purpose, a view is a tensor
      : data(const_cast<std::remove_const_t<T>*>(view.data)), dtype(dtype_of<std::remove_const_t<T>>::value), rank(N) {
    static_assert(N <= 4);
    for (int i = 0; i < N; ++i) { shape[i] = view.shape[i]; strides[i] = view.strides[i]; }
  }
  /// The typed view. @throws Error when type or rank differ (a fault of the caller, never of a user).
  template <class T, int N>
  View<T, N> as() const {
    if (dtype != dtype_of<std::remove_const_t<T>>::value || rank != N) fail(dtype_of<std::remove_const_t<T>>::value, N);
    View<T, N> view;
    view.data = static_cast<T*>(data);
    for (int i = 0; i < N; ++i) { view.shape[i] = shape[i]; view.strides[i] = strides[i]; }
    return view;
  }
  /// Rows [begin, end) along the first axis.
  TensorRef rows(std::int64_t begin, std::int64_t end) const {
    TensorRef part = *this;
    part.data = static_cast<std::byte*>(data) + begin * strides[0] * bytes_of(dtype);
    part.shape[0] = end - begin;
    return part;
  }
  /// The same elements under another shape. Only for a dense tensor; the caller sees to it that the sizes agree.
  TensorRef reshaped(std::initializer_list<std::int64_t> extents) const {
    TensorRef tensor = *this;
    tensor.rank = static_cast<int>(extents.size());
    std::int64_t step = 1;
    for (int i = tensor.rank - 1; i >= 0; --i) {
      tensor.shape[i] = extents.begin()[i];
      tensor.strides[i] = step;
      step *= tensor.shape[i];
    }
    return tensor;
  }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }

 private:
  [[noreturn]] PATCHBAY_API void fail(DType wanted, int wanted_rank) const;
};

/// Bytes on one device. Move-only; made by Device::allocate, released by the deleter it brings.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::shared_ptr<std::byte> bytes, std::int64_t size, int device)
      : bytes_(std::move(bytes)), size_(size), device_(device) {}
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;
  std::byte* data() const { return bytes_.get(); }
  std::int64_t size() const { return size_; }
  int device() const { return device_; }
  /// The first elements, seen as a contiguous array. The caller sees to it that they fit.
  template <class T, int N>
  View<T, N> view(std::array<std::int64_t, N> shape) const { return View<T, N>(reinterpret_cast<T*>(data()), shape); }
  /// The same, as a tensor of this buffer's device.
  TensorRef tensor(DType dtype, std::initializer_list<std::int64_t> shape) const {
    TensorRef tensor;
    tensor.data = data();
    tensor.dtype = dtype;
    tensor.device = device_;
    return tensor.reshaped(shape);
  }

 private:
  std::shared_ptr<std::byte> bytes_;
  std::int64_t size_ = 0;
  int device_ = 0;
};

/// A borrowed callable: as cheap as a function pointer, valid for the duration of the call it is passed to.
template <class Signature> class FunctionRef;
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F> requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f)  // NOLINT: implicit on purpose
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, A... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<A&&>(args)...);
        }) {}
  R operator()(A... args) const { return call_(object_, static_cast<A&&>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

}  // namespace patchbay

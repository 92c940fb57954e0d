/// @file backend.h
/// Interface of a backend: a device (memory, threads) and the dense operations on it.
/// T tokens of this step, H query heads, D head size, a weight is R x C (out x in).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "patchbay/tensor.h"

namespace patchbay {

/// Where bytes live and how work is spread. Methods may be called from one thread at a time.
class PATCHBAY_API Device {
 public:
  virtual ~Device();
  /// Zero-filled bytes, aligned to 64. @throws Error naming the size when memory is short.
  virtual Buffer allocate(std::int64_t bytes) = 0;
  virtual void copy(TensorRef from, TensorRef to) = 0;
  /// How many bodies of parallel_for run at once (CPU threads; 1 on a GPU, which parallelises inside its kernels).
  virtual int concurrency() const = 0;
  /// Calls body(begin, end, worker) until [0, n) is covered, in pieces of about `grain`, on several threads; returns when all
  /// are done. worker is in [0, concurrency()). Which worker takes which piece is not fixed, so a piece's result must not
  /// depend on it. An exception thrown by a body is rethrown here.
  virtual void parallel_for(std::int64_t n, std::int64_t grain,
                            FunctionRef<void(std::int64_t begin, std::int64_t end, int worker)> body) = 0;
};

/// How the CPU's matrix products see their input. One setting for a whole run.
enum class ActivationMode { fp32, q8 };

/// Rows rounded to 8-bit integers in blocks of 32 columns: x ~ scale * code, |code| <= 127, scale = max|x| / 127.
/// The last block of a row is padded with zeros.
struct Q8Rows {
  static constexpr std::int64_t kBlock = 32;
  std::int64_t rows = 0, cols = 0, blocks = 0;  ///< blocks per row = ceil(cols / 32)
  const std::int8_t* codes = nullptr;           ///< (rows, blocks * 32)
  const float* scales = nullptr;                ///< (rows, blocks)
  const std::int32_t* sums = nullptr;           ///< (rows, blocks): sum of a block's codes, for weights with an offset
};

/// What an integer matrix product needs of a weight: w[r][c] = scale * code + offset, scale and offset per block of 32 columns.
/// Codes are 0..15 (bits 4) or 0..255 (bits 8). Cols must be a multiple of 32.
class AffineSource {
 public:
  std::int64_t rows = 0, cols = 0;
  int bits = 8;
  virtual ~AffineSource() = default;
  /// Fills codes[cols], scales[cols/32] and offsets[cols/32] of one row. Thread-safe.
  virtual void read(std::int64_t row, std::uint8_t* codes, float* scales, float* offsets) const = 0;
};
/// A weight as the backend's integer kernel wants it: made by Ops::prepare_affine, opaque to everybody else.
class PATCHBAY_API AffineWeight {
 public:
  virtual ~AffineWeight();
  virtual std::int64_t bytes() const = 0;
};

enum class Gate { silu, gelu_tanh };

/// How one position turns pairs of a head's values (RoPE).
struct RopeSpec {
  int dims = 0;              ///< the first `dims` values of each head turn; the rest pass
  bool interleaved = false;  ///< pairs (2i, 2i+1); else halves (i, i + dims/2)
  const float* frequencies = nullptr;  ///< (dims/2) angle per position, in radians
  float magnitude = 1.0f;    ///< factor on the turned values (YaRN)
};

/// Dense operations. Tensors are fp32 on the CPU. Outputs may not overlap inputs unless said. Not thread-safe: one step at a time.
class PATCHBAY_API Ops {
 public:
  virtual ~Ops();
  virtual Device& device() = 0;
  /// y(T,R) = x(T,C) w^T, where decode(first_row, out(n,C)) yields rows of w on demand (thread-safe); each row is asked for once.
  virtual void matmul_decoded(TensorRef x, std::int64_t rows,
                              FunctionRef<void(std::int64_t first_row, View<float, 2> out)> decode, TensorRef y) = 0;
  virtual std::unique_ptr<AffineWeight> prepare_affine(const AffineSource& source) = 0;
  /// y(T,R) = x(T,C) w^T with integer products inside blocks of 32: exact up to the rounding of float sums.
  virtual void matmul_affine(const Q8Rows& x, const AffineWeight& w, TensorRef y) = 0;
  /// Rounds x(T,C) as Q8Rows says, into arrays of the sizes stated there.
  virtual void quantize_q8(TensorRef x, std::int8_t* codes, float* scales, std::int32_t* sums) = 0;
  /// out(T,C) = x / sqrt(mean(x^2) + epsilon) * weight(C). out may be x.
  virtual void rms_norm(TensorRef x, TensorRef weight, float epsilon, TensorRef out) = 0;
  /// Turns x(T,H,D) in place by positions[T].
  virtual void rope(TensorRef x, std::span<const std::int32_t> positions, const RopeSpec& spec) = 0;
  /// out(T,F) = gate(g) * up. out may be g.
  virtual void gated(Gate kind, TensorRef g, TensorRef up, TensorRef out) = 0;
  /// x += y, both (T,C).
  virtual void add(TensorRef x, TensorRef y) = 0;
  /// The name of the kernel set in use, as the record states it ("plain", "avx2").
  virtual std::string_view kernel() const = 0;

  /// y(T,R) = x(T,C) w^T for w(R,C) as stored: f32, f16 or bf16, rows of adjacent columns, at any byte. Equals matmul_decoded bit
  /// for bit; the default converts rows to f32 and calls it (core/src/ops_defaults.cpp).
  virtual void matmul_stored(TensorRef x, TensorRef w, TensorRef y);

  // What only some architectures need, plain on the host unless a backend has better (core/src/ops_defaults.cpp).

  /// out(T,C) = (x - mean) / sqrt(variance + epsilon) * weight(C) + bias(C). out may be x.
  virtual void layer_norm(TensorRef x, TensorRef weight, TensorRef bias, float epsilon, TensorRef out);
  /// x *= factor, (T,C).
  virtual void scale(TensorRef x, float factor);
  /// x = cap * tanh(x / cap), (T,C).
  virtual void soft_cap(TensorRef x, float cap);
};

/// A device and its operations, made from `backend:` in YAML.
class PATCHBAY_API Backend {
 public:
  virtual ~Backend();
  virtual Device& device() = 0;
  virtual Ops& ops() = 0;
};

}  // namespace patchbay

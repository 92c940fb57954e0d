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

/// What executes a device's kernels: host code; a GPU; or the emulator, which runs the same CUDA kernels on the host, at full
/// speed or under its checks.
enum class DeviceKind { host, cuda, simt, simt_checked };

/// What was allocated on a device so far, and is still held.
struct DeviceMemory {
  std::int64_t bytes = 0;
  std::int64_t allocations = 0;  ///< all there ever were: a graph made before the last may point to memory that is gone
};

/// Work recorded once and done again on the same memory: a CUDA graph.
class PATCHBAY_API Graph {
 public:
  virtual ~Graph();
  virtual void replay() = 0;
};

/// Where bytes live and how work is spread. Methods may be called from one thread at a time. A GPU does its work in order, on one
/// stream, and behind the caller's back: only a copy to the host waits for it.
class PATCHBAY_API Device {
 public:
  virtual ~Device();
  /// Zero-filled bytes, aligned to 64. @throws Error naming the size when memory is short.
  virtual Buffer allocate(std::int64_t bytes) = 0;
  /// Same type and shape, any strides; each side on this device or in host memory (tensor.device 0). On return, memory of the host
  /// has been read or written.
  virtual void copy(TensorRef from, TensorRef to) = 0;
  /// How many bodies of parallel_for run at once (threads of the host, on a GPU's device too).
  virtual int concurrency() const = 0;
  /// Calls body(begin, end, worker) until [0, n) is covered, in pieces of about `grain`, on several threads; returns when all
  /// are done. worker is in [0, concurrency()). Which worker takes which piece is not fixed, so a piece's result must not
  /// depend on it. An exception thrown by a body is rethrown here.
  virtual void parallel_for(std::int64_t n, std::int64_t grain,
                            FunctionRef<void(std::int64_t begin, std::int64_t end, int worker)> body) = 0;

  virtual DeviceKind kind() const { return DeviceKind::host; }
  bool is_host() const { return kind() == DeviceKind::host; }
  /// The type of activations: f32, or on a GPU f16 or bf16.
  virtual DType activations() const { return DType::f32; }
  /// Zeros on the host, which keeps no such books.
  virtual DeviceMemory memory() const { return {}; }
  /// The gpu::Stream (patchbay/gpu.h) that kernels are launched on; null on the host. Asked for before each launch: it makes its GPU the
  /// calling thread's.
  virtual void* stream() const { return nullptr; }
  /// Runs body, and gives back what it launched, to do it again. Null: this device has no graphs, and body has run all the same.
  virtual std::unique_ptr<Graph> capture(FunctionRef<void()> body);
};

/// How matrix products see their input: as it is (fp32 on the host), or, on the host alone, rounded to 8 bits. One setting for a
/// whole run.
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

/// How pairs of a head's values turn (RoPE).
struct RopeSpec {
  int dims = 0;              ///< the first `dims` values of each head turn; the rest pass
  bool interleaved = false;  ///< pairs (2i, 2i+1); else halves (i, i + dims/2)
  /// (P, dims) f32, one row per position: the cosines of its dims/2 angles, then their sines, times what YaRN multiplies by.
  TensorRef angles;
};

/// Products with weights that stay in host memory, in floats or in integers. Only a host's backend has them: a GPU multiplies
/// what was uploaded (WeightFormat::prepare).
class PATCHBAY_API HostProducts {
 public:
  virtual ~HostProducts();
  /// y(T,R) = x(T,C) w^T, where decode(first_row, out(n,C)) yields rows of w on demand (thread-safe); each row is asked for once.
  virtual void matmul_decoded(TensorRef x, std::int64_t rows,
                              FunctionRef<void(std::int64_t first_row, View<float, 2> out)> decode, TensorRef y) = 0;
  virtual std::unique_ptr<AffineWeight> prepare_affine(const AffineSource& source) = 0;
  /// y(T,R) = x(T,C) w^T with integer products inside blocks of 32: exact up to the rounding of float sums.
  virtual void matmul_affine(const Q8Rows& x, const AffineWeight& w, TensorRef y) = 0;
  /// Rounds x(T,C) as Q8Rows says, into arrays of the sizes stated there.
  virtual void quantize_q8(TensorRef x, std::int8_t* codes, float* scales, std::int32_t* sums) = 0;
};

struct GpuStep;  // attention.h

/// TokenDraw, on the device: one number per row, in arrays there.
struct SamplingRows {
  const float* temperature = nullptr;   ///< 0, or null: the largest logit
  const std::int32_t* top_k = nullptr;  ///< 0, or null: all
  const double* top_p = nullptr;        ///< 1, or null: all
  const double* uniform = nullptr;      ///< random numbers in [0, 1)
};

/// Dense operations. All tensors lie on the device. Activations have its type (Device::activations), norm weights, biases and
/// angles are f32. Outputs may not overlap inputs unless said. Not thread-safe: one step at a time.
class PATCHBAY_API Ops {
 public:
  virtual ~Ops();
  virtual Device& device() = 0;
  /// The name of the kernel set in use, as the record states it ("plain", "avx2").
  virtual std::string_view kernel() const = 0;
  /// @throws Error on a GPU.
  virtual HostProducts& host();

  /// out(T,C) = x / sqrt(mean(x^2) + epsilon) * weight(C). out may be x.
  virtual void rms_norm(TensorRef x, TensorRef weight, float epsilon, TensorRef out) = 0;
  /// Turns x(T,H,D) in place by the angles of positions(T) i32.
  virtual void rope(TensorRef x, TensorRef positions, const RopeSpec& spec) = 0;
  /// out(T,F) = gate(g) * up. out may be g.
  virtual void gated(Gate kind, TensorRef g, TensorRef up, TensorRef out) = 0;
  /// x += y, both (T,C). y may be f32 whatever x is, and one row for all (stride 0: a bias).
  virtual void add(TensorRef x, TensorRef y) = 0;

  // What follows is plain on the host unless a backend has better (core/src/ops_defaults.cpp). A GPU's has all of its own.

  /// y(T,R) = x(T,C) w^T for w(R,C) as stored: f32, f16 or bf16, rows of adjacent columns, on the host at any byte. Equals
  /// matmul_decoded bit for bit; the default converts rows to f32 and calls it. y may be f32 whatever x is (logits).
  virtual void matmul_stored(TensorRef x, TensorRef w, TensorRef y);
  /// out(T,C) = table(N,C)[ids(T)], ids i32. The table may be f32, f16 or bf16.
  virtual void take_rows(TensorRef table, TensorRef ids, TensorRef out);
  /// x(N,C)[ids(T)] += factors(T) * rows(T,C); ids i32, no two the same, factors f32.
  virtual void add_rows(TensorRef x, TensorRef ids, TensorRef factors, TensorRef rows);
  /// out(T,C) = (x - mean) / sqrt(variance + epsilon) * weight(C) + bias(C). out may be x.
  virtual void layer_norm(TensorRef x, TensorRef weight, TensorRef bias, float epsilon, TensorRef out);
  /// out(T,C) = exp(x - max) / sum of exp(x - max), row by row, both f32. out may be x.
  virtual void softmax(TensorRef x, TensorRef out);
  /// x *= factor, (T,C).
  virtual void scale(TensorRef x, float factor);
  /// x = cap * tanh(x / cap), (T,C).
  virtual void soft_cap(TensorRef x, float cap);
  /// x += y, then out = rms_norm(x). The default does one after the other; a backend that does both at once gives the same bits.
  virtual void add_rms_norm(TensorRef x, TensorRef y, TensorRef weight, float epsilon, TensorRef out);
  /// Of a GPU alone: stores k, v (T,G,D) of all rows of a step in a layer's cache, in its format.
  virtual void write_kv(TensorRef k, TensorRef v, const GpuStep& step, int layer);
  /// Likewise: rope of q(T,H,D) and k, then write_kv. k may be left as it was. The default, and the bits, as those of add_rms_norm.
  virtual void rope_write_kv(TensorRef q, TensorRef k, TensorRef v, TensorRef positions, const RopeSpec& spec, const GpuStep& step,
                             int layer);
  /// Likewise: tokens(T) i32 drawn from logits(T,V) f32; -1 where none can be (NaN, all -inf).
  virtual void sample(TensorRef logits, const SamplingRows& rows, TensorRef tokens);
};

/// Processors that this process may run on (affinity, and with it cpusets).
PATCHBAY_API int allowed_cores();

/// A device and its operations, made from `backend:` in YAML.
class PATCHBAY_API Backend {
 public:
  virtual ~Backend();
  virtual Device& device() = 0;
  virtual Ops& ops() = 0;
};

}  // namespace patchbay

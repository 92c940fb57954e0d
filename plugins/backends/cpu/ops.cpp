#include "ops.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace patchbay::cpu {
namespace {

// Below this many elements a loop is done before another thread has woken up.
constexpr std::int64_t kWorthThreads = 16 * 1024;
// Decoded rows of one piece: they stay in the second-level cache while all tokens pass by, or for one token in the first.
constexpr std::int64_t kScratchBytes = 256 * 1024, kScratchBytesOneToken = 16 * 1024;
constexpr std::int64_t kRowStep = 4;  // rows of the fp32 kernels' register tile
// Quantised tokens that go through a piece of an affine weight at a time, for the second-level cache as well.
constexpr std::int64_t kTokenBytes = 256 * 1024;
// Packed weight per piece: a few microseconds of memory traffic.
constexpr std::int64_t kPieceBytes = 32 * 1024;

[[noreturn]] void fail(const char* operation, const std::string& problem) {
  throw Error(std::string("backend cpu: ") + operation, problem);
}

/// Rows of floats whose columns lie side by side.
template <class T>
View<T, 2> matrix(const TensorRef& tensor, const char* operation, std::int64_t rows, std::int64_t cols) {
  const auto view = tensor.as<T, 2>();
  if (view.shape[0] != rows || view.shape[1] != cols) {
    fail(operation, "a tensor is " + std::to_string(view.shape[0]) + " x " + std::to_string(view.shape[1]) + ", expected " +
                        std::to_string(rows) + " x " + std::to_string(cols));
  }
  if (view.strides[1] != 1 && cols > 1) fail(operation, "the columns of a tensor are not adjacent");
  return view;
}
template <class T>
View<T, 2> matrix(const TensorRef& tensor, const char* operation) {
  return matrix<T>(tensor, operation, tensor.shape[0], tensor.shape[1]);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Rows of `row_bytes` in one piece: within a cache, enough pieces for every thread, whole register tiles.
std::int64_t rows_per_piece(std::int64_t rows, std::int64_t row_bytes, std::int64_t tokens, int threads) {
  const std::int64_t fitting = (tokens == 1 ? kScratchBytesOneToken : kScratchBytes) / std::max<std::int64_t>(row_bytes, 1);
  const std::int64_t share = ceil_div(rows, 2 * threads);
  return std::max(ceil_div(std::min(fitting, share), kRowStep), std::int64_t{1}) * kRowStep;
}

}  // namespace

template <class F>
void CpuOps::over_rows(std::int64_t rows, std::int64_t row_items, F body) {
  if (rows * row_items < kWorthThreads) return body(0, rows);
  const std::int64_t grain = std::max<std::int64_t>(1, kWorthThreads / 4 / std::max<std::int64_t>(row_items, 1));
  device_.parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end, int) { body(begin, end); });
}

void CpuOps::matmul_decoded(TensorRef x, std::int64_t rows, FunctionRef<void(std::int64_t, View<float, 2>)> decode, TensorRef y) {
  const auto in = matrix<const float>(x, "matmul_decoded");
  const std::int64_t tokens = in.shape[0], cols = in.shape[1];
  const auto out = matrix<float>(y, "matmul_decoded", tokens, rows);
  if (tokens == 0 || rows == 0) return;
  const std::int64_t step = rows_per_piece(rows, cols * static_cast<std::int64_t>(sizeof(float)), tokens, device_.concurrency());
  const std::int64_t scratch_bytes = step * cols * static_cast<std::int64_t>(sizeof(float));
  for (Buffer& scratch : scratch_) {
    if (scratch.size() < scratch_bytes) scratch = device_.allocate(scratch_bytes);
  }
  device_.parallel_for(rows, step, [&](std::int64_t begin, std::int64_t end, int worker) {
    auto* decoded = reinterpret_cast<float*>(scratch_[worker].data());
    decode(begin, View<float, 2>(decoded, {end - begin, cols}));
    kernels_.multiply({in.data, tokens, in.strides[0]}, {decoded, end - begin, cols, Stored::f32}, cols,
                      {out.data + begin, out.strides[0]});
  });
}

void CpuOps::matmul_stored(TensorRef x, TensorRef w, TensorRef y) {
  if (w.dtype != DType::f32 && w.dtype != DType::f16 && w.dtype != DType::bf16) {
    fail("matmul_stored", "the weight's type is none of f32, f16, bf16");
  }
  const Stored type = w.dtype == DType::f32 ? Stored::f32 : w.dtype == DType::f16 ? Stored::f16 : Stored::bf16;
  const auto in = matrix<const float>(x, "matmul_stored");
  const std::int64_t tokens = in.shape[0], cols = in.shape[1], rows = w.shape[0];
  if (w.rank != 2 || w.shape[1] != cols || (w.strides[1] != 1 && cols > 1)) {
    fail("matmul_stored", "the weight must be of rows of " + std::to_string(cols) + " adjacent columns");
  }
  const auto out = matrix<float>(y, "matmul_stored", tokens, rows);
  const std::int64_t row_bytes = w.strides[0] * bytes_of(w.dtype);
  const std::int64_t step = rows_per_piece(rows, row_bytes, tokens, device_.concurrency());
  device_.parallel_for(rows, step, [&](std::int64_t begin, std::int64_t end, int) {
    kernels_.multiply({in.data, tokens, in.strides[0]},
                      {static_cast<const std::byte*>(w.data) + begin * row_bytes, end - begin, w.strides[0], type}, cols,
                      {out.data + begin, out.strides[0]});
  });
}

std::unique_ptr<AffineWeight> CpuOps::prepare_affine(const AffineSource& source) {
  return pack_affine(source, kernels_.lanes, kernels_.compact, device_);
}

void CpuOps::matmul_affine(const Q8Rows& x, const AffineWeight& w, TensorRef y) {
  const auto* weight = dynamic_cast<const CpuAffineWeight*>(&w);
  if (!weight || weight->layout.lanes != kernels_.lanes || weight->layout.row_scales)
    fail("matmul_affine", "the weight was prepared by another backend, or for matmul_int8");
  const AffineLayout& layout = weight->layout;
  if (x.cols != layout.cols) {
    fail("matmul_affine", "the input has " + std::to_string(x.cols) + " columns, the weight " + std::to_string(layout.cols));
  }
  const auto out = matrix<float>(y, "matmul_affine", x.rows, layout.rows);
  const std::int64_t items = x.rows * x.blocks;
  offset_factors_.resize(items);
  starts_.resize(items);
  for (std::int64_t i = 0; i < items; ++i) {
    offset_factors_[i] = x.scales[i] * static_cast<float>(x.sums[i]);
    starts_[i] = -layout.zero * x.sums[i];
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(weight->data.data());
  const std::int64_t grain = std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(layout.tile_bytes, 1));
  const std::int64_t token_step = std::max<std::int64_t>(16, kTokenBytes / std::max<std::int64_t>(layout.cols, 1));
  device_.parallel_for(layout.tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = 0; t < x.rows; t += token_step) {
      const std::int64_t at = t * x.blocks;
      const AffineInput tokens = {std::min(token_step, x.rows - t), x.blocks,           x.codes + at * kBlock, x.scales + at,
                                  offset_factors_.data() + at,      starts_.data() + at};
      const OutRows target = {out.data + t * out.strides[0], out.strides[0]};
      for (std::int64_t tile = begin; tile < end; ++tile) kernels_.multiply_affine(tokens, layout, data, tile, target);
    }
  });
}

std::unique_ptr<AffineWeight> CpuOps::prepare_int8(View<const std::int8_t, 2> codes, View<const float, 1> scales) {
  return pack_int8(codes, scales, kernels_.lanes, device_);
}

void CpuOps::matmul_int8(const RoundedRows& x, const AffineWeight& w, TensorRef y) {
  const auto* weight = dynamic_cast<const CpuAffineWeight*>(&w);
  if (!weight || weight->layout.lanes != kernels_.lanes || !weight->layout.row_scales)
    fail("matmul_int8", "the weight was prepared by another backend, or for matmul_affine");
  const AffineLayout& layout = weight->layout;
  const std::int64_t tokens = x.codes.shape[0], stride = layout.blocks * kBlock;
  const auto in = matrix<const std::int8_t>(x.codes, "matmul_int8", tokens, layout.cols);
  if (tokens > 1 && in.strides[0] != stride) fail("matmul_int8", "rows of codes must lie a multiple of 32 columns apart");
  const auto factors = x.scales.as<const float, 1>();
  const auto out = matrix<float>(y, "matmul_int8", tokens, layout.rows);
  starts_.resize(tokens);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::int32_t sum = 0;
    for (std::int64_t c = 0; c < layout.cols; ++c) sum += in.data[t * stride + c];
    starts_[t] = -kInt8Zero * sum;
  }
  const auto* data = reinterpret_cast<const std::uint8_t*>(weight->data.data());
  const std::int64_t grain = std::max<std::int64_t>(1, kPieceBytes / std::max<std::int64_t>(layout.tile_bytes, 1));
  const std::int64_t token_step = std::max<std::int64_t>(16, kTokenBytes / std::max<std::int64_t>(layout.cols, 1));
  device_.parallel_for(layout.tiles, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = 0; t < tokens; t += token_step) {
      const Int8Input piece = {std::min(token_step, tokens - t), layout.blocks, in.data + t * stride, factors.data + t, starts_.data() + t};
      const OutRows target = {out.data + t * out.strides[0], out.strides[0]};
      for (std::int64_t tile = begin; tile < end; ++tile) kernels_.multiply_int8(piece, layout, data, tile, target);
    }
  });
}

void CpuOps::quantize_q8(TensorRef x, std::int8_t* codes, float* scales, std::int32_t* sums) {
  const auto in = matrix<const float>(x, "quantize_q8");
  const std::int64_t cols = in.shape[1], blocks = ceil_div(cols, kBlock);
  over_rows(in.shape[0], cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      kernels_.quantize(in.data + t * in.strides[0], cols, codes + t * blocks * kBlock, scales + t * blocks, sums + t * blocks);
    }
  });
}

void CpuOps::rms_norm(TensorRef x, TensorRef weight, float epsilon, TensorRef out) {
  const auto in = matrix<const float>(x, "rms_norm");
  const std::int64_t cols = in.shape[1];
  const auto factors = weight.as<const float, 1>();
  if (factors.shape[0] != cols || (factors.strides[0] != 1 && cols > 1)) {
    fail("rms_norm", std::to_string(factors.shape[0]) + " weights for rows of " + std::to_string(cols));
  }
  const auto target = matrix<float>(out, "rms_norm", in.shape[0], cols);
  over_rows(in.shape[0], cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      kernels_.rms_norm(in.data + t * in.strides[0], factors.data, cols, epsilon, target.data + t * target.strides[0]);
    }
  });
}

void CpuOps::rope(TensorRef x, TensorRef positions, const RopeSpec& spec) {
  const auto heads = x.as<float, 3>();
  const auto places = positions.as<const std::int32_t, 1>();
  const auto angles = spec.angles.as<const float, 2>();
  const std::int64_t pairs = spec.dims / 2;
  if (heads.shape[0] != places.shape[0]) {
    fail("rope", std::to_string(places.shape[0]) + " positions for " + std::to_string(heads.shape[0]) + " rows");
  }
  if (spec.dims < 0 || spec.dims % 2 != 0 || spec.dims > heads.shape[2]) {
    fail("rope", std::to_string(spec.dims) + " dims to turn in heads of " + std::to_string(heads.shape[2]));
  }
  if (heads.strides[2] != 1 && heads.shape[2] > 1) fail("rope", "the values of a head are not adjacent");
  if (angles.shape[1] != spec.dims || (angles.strides[1] != 1 && spec.dims > 1)) {
    fail("rope", "a row of angles must have a cosine and a sine for each pair, adjacent");
  }
  for (std::int64_t t = 0; t < places.shape[0]; ++t) {
    if (places[t] < 0 || places[t] >= angles.shape[0]) fail("rope", "no angles for position " + std::to_string(places[t]));
  }
  over_rows(heads.shape[0], heads.shape[1] * spec.dims, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const float* cosines = angles.data + places[t] * angles.strides[0];
      for (std::int64_t h = 0; h < heads.shape[1]; ++h) {
        kernels_.rotate(&heads(t, h, 0), cosines, cosines + pairs, pairs, spec.interleaved);
      }
    }
  });
}

void CpuOps::gated(Gate kind, TensorRef g, TensorRef up, TensorRef out) {
  const auto gate = matrix<const float>(g, "gated");
  const std::int64_t rows = gate.shape[0], cols = gate.shape[1];
  const auto factor = matrix<const float>(up, "gated", rows, cols);
  const auto target = matrix<float>(out, "gated", rows, cols);
  over_rows(rows, cols * 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      kernels_.gated(kind, gate.data + t * gate.strides[0], factor.data + t * factor.strides[0], cols,
                     target.data + t * target.strides[0]);
    }
  });
}

void CpuOps::add(TensorRef x, TensorRef y) {
  const auto target = matrix<float>(x, "add");
  const auto addend = matrix<const float>(y, "add", target.shape[0], target.shape[1]);
  over_rows(target.shape[0], target.shape[1], [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      kernels_.add(target.data + t * target.strides[0], addend.data + t * addend.strides[0], target.shape[1]);
    }
  });
}

}  // namespace patchbay::cpu

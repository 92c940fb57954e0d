// The Hessian is most of a calibration's time. It is the product of the transposed inputs with themselves, so the backend's fastest
// product of matrices computes it; of a symmetric matrix half is enough, in panels. A chunk of rows is summed in fp32 and the chunks
// are added up in fp32: against sums in fp64 the largest difference is a millionth of the diagonal (input_statistics_test.cpp).
#include "quantize/input_statistics.h"

#include <algorithm>
#include <cmath>

#include "patchbay/backend.h"

namespace patchbay {
namespace {

constexpr std::int64_t kPanel = 192;      // columns of the Hessian in one product
constexpr std::int64_t kChunkRows = 512;  // rows of x in one product

}  // namespace

InputStatistics::InputStatistics(std::int64_t cols, const Needs& needs, Ops& ops) : cols_(cols), needs_(needs), ops_(ops) {
  const auto size = static_cast<std::size_t>(cols);
  if (needs.moments) {
    squares_.resize(size);
    second_moment_.resize(size);
    largest_.resize(size);
  }
  if (needs.hessian) hessian_.resize(size * size);
}

void InputStatistics::add(View<const float, 2> x) {
  if (needs_.moments) add_moments(x);
  if (needs_.inputs > 0) keep_rows(x);
  if (needs_.hessian)
    for (std::int64_t first = 0; first < x.shape[0]; first += kChunkRows) add_hessian(x.rows(first, std::min(first + kChunkRows, x.shape[0])));
  rows_ += x.shape[0];
}

/// By columns, so that threads share nothing and each sum has its order.
void InputStatistics::add_moments(View<const float, 2> x) {
  ops_.device().parallel_for(cols_, 64, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t t = 0; t < x.shape[0]; ++t)
      for (std::int64_t c = begin; c < end; ++c) {
        const float value = x(t, c);
        squares_[c] += double{value} * value;
        largest_[c] = std::max(largest_[c], std::fabs(value));
      }
  });
}

/// Every stride_-th row. When there are too many, every second of them goes: so they lie evenly whatever number comes.
void InputStatistics::keep_rows(View<const float, 2> x) {
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    if ((rows_ + t) % stride_ != 0) continue;
    const auto kept = static_cast<std::int64_t>(kept_.size()) / cols_;
    if (kept == needs_.inputs) {
      for (std::int64_t i = 1; 2 * i < kept; ++i) std::copy_n(kept_.begin() + 2 * i * cols_, cols_, kept_.begin() + i * cols_);
      kept_.resize(static_cast<std::size_t>((kept + 1) / 2 * cols_));
      stride_ *= 2;
      if ((rows_ + t) % stride_ != 0) continue;
    }
    for (std::int64_t c = 0; c < cols_; ++c) kept_.push_back(x(t, c));
  }
}

void InputStatistics::add_hessian(View<const float, 2> x) {
  const std::int64_t rows = x.shape[0];
  transposed_.resize(static_cast<std::size_t>(cols_ * kChunkRows));
  products_.resize(static_cast<std::size_t>(std::min(kPanel, cols_) * cols_));
  const View<float, 2> transposed(transposed_.data(), {cols_, rows});
  Device& device = ops_.device();
  device.parallel_for(cols_, 64, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t c = begin; c < end; ++c)
      for (std::int64_t t = 0; t < rows; ++t) transposed(c, t) = x(t, c);
  });
  for (std::int64_t first = 0; first < cols_; first += kPanel) {
    const std::int64_t last = std::min(first + kPanel, cols_), width = last;  // columns past the panel follow by symmetry
    const View<float, 2> product(products_.data(), {last - first, width});
    ops_.matmul_stored(transposed.rows(first, last), transposed.rows(0, width), product);
    device.parallel_for(last - first, 16, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        float* const sums = hessian_.data() + (first + i) * cols_;
        for (std::int64_t j = 0; j < width; ++j) sums[j] += product(i, j);
      }
    });
  }
}

Statistics InputStatistics::result() {
  Statistics statistics;
  statistics.tokens = rows_;
  if (rows_ == 0) return statistics;
  const double factor = 1.0 / static_cast<double>(rows_);
  if (needs_.moments) {
    for (std::int64_t c = 0; c < cols_; ++c) second_moment_[c] = static_cast<float>(squares_[c] * factor);
    statistics.second_moment = {second_moment_.data(), {cols_}};
    statistics.largest = {largest_.data(), {cols_}};
  }
  if (needs_.hessian) {
    for (std::int64_t i = 0; i < cols_; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        float& below = hessian_[i * cols_ + j];
        below *= static_cast<float>(2 * factor);
        hessian_[j * cols_ + i] = below;
      }
    statistics.hessian = {hessian_.data(), {cols_, cols_}};
  }
  if (needs_.inputs > 0) statistics.inputs = {kept_.data(), {static_cast<std::int64_t>(kept_.size()) / cols_, cols_}};
  return statistics;
}

}  // namespace patchbay

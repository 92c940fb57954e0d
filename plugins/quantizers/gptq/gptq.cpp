// GPTQ: columns are rounded one after the other, and what is lost in one is made up for in those that follow, as the Hessian of the layer's
// error says. Formulas (G1)...(G5): README.md. R rows and C columns of the weight.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

constexpr int kDampingSteps = 10;  // each takes ten times as much

/// (C,C), row by row, in fp64.
using Square = std::vector<double>;

/// The lower Cholesky factor L of a = L L^T in place of a's lower half. False where a is not positive definite.
bool factorise(Square& a, std::int64_t n, Device& device) {
  for (std::int64_t j = 0; j < n; ++j) {
    double* const row = a.data() + j * n;
    double pivot = row[j];
    for (std::int64_t k = 0; k < j; ++k) pivot -= row[k] * row[k];
    if (!(pivot > 0) || !std::isfinite(pivot)) return false;
    row[j] = std::sqrt(pivot);
    device.parallel_for(n - j - 1, 64, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = j + 1 + begin; i < j + 1 + end; ++i) {
        double* const below = a.data() + i * n;
        double sum = below[j];
        for (std::int64_t k = 0; k < j; ++k) sum -= below[k] * row[k];
        below[j] = sum / row[j];
      }
    });
  }
  return true;
}

/// (G3) The upper factor U of the inverse, H^-1 = U^T U, from H. Turned round by rows and columns, H = L L^T has H^-1 = L^-T L^-1, and L^-1
/// turned back is upper: so U is the inverse of a triangle, and no inverse of H is ever made.
bool upper_of_inverse(const Square& h, std::int64_t n, Square& u, Device& device) {
  Square turned(h.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) turned[i * n + j] = h[(n - 1 - i) * n + (n - 1 - j)];
  if (!factorise(turned, n, device)) return false;
  u.assign(h.size(), 0.0);
  // Column c of L^-1, by forward substitution; as row of U it lies in one piece.
  device.parallel_for(n, 8, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<double> x(static_cast<std::size_t>(n));
    for (std::int64_t c = begin; c < end; ++c) {
      for (std::int64_t i = c; i < n; ++i) {
        double sum = i == c ? 1.0 : 0.0;
        for (std::int64_t k = c; k < i; ++k) sum -= turned[i * n + k] * x[k];
        x[i] = sum / turned[i * n + i];
      }
      for (std::int64_t i = c; i < n; ++i) u[(n - 1 - i) * n + (n - 1 - c)] = x[i];
    }
  });
  return true;
}

class Gptq final : public Quantizer {
 public:
  struct Params {
    double damp_percent = 0.01;
    int block_size = 128;
    bool true_sequential = true;
    void visit(Fields& f) {
      f.real("damp_percent", damp_percent, 0.0, 1.0, {"share of the Hessian's mean diagonal that is added to its diagonal; tenfold where that is too little"});
      f.integer("block_size", block_size, 1, 1 << 16, {"columns whose errors are passed on together", "column"});
      f.boolean("true_sequential", true_sequential, {"within a block, q, k and v first, then output, gate and up, down: each sees those before it quantised"});
    }
  };
  explicit Gptq(const Params& params) : params_(params) {}

  Needs needs() const override {
    Needs needs;
    needs.hessian = true;
    needs.sequential = params_.true_sequential;
    return needs;
  }

  void quantize(View<const float, 2> w, const Statistics& statistics, const WeightFormat& format, Device& device,
                PackedWeight& out) const override {
    const std::int64_t rows = w.shape[0], cols = w.shape[1];
    Work work{rows, cols, std::vector<float>(static_cast<std::size_t>(rows * cols)), {}, {}};
    for (std::int64_t r = 0; r < rows; ++r)  // columns lie in one piece: all below goes column by column
      for (std::int64_t c = 0; c < cols; ++c) work.columns[c * rows + r] = w(r, c);
    out.note = prepare(statistics, work, device);
    work.errors.resize(work.columns.size());
    round_all(work, format, device, out);
  }

 private:
  struct Work {
    std::int64_t rows, cols;
    std::vector<float> columns;  ///< (C,R): what is left to be rounded
    Square u;                    ///< (G3)
    std::vector<float> errors;   ///< (C,R): of (G4)
    float* column(std::int64_t c) { return columns.data() + c * rows; }
    float* error(std::int64_t c) { return errors.data() + c * rows; }
  };

  /// (G1), (G2): dead columns, damping, the factor. Returns what the record should say.
  std::string prepare(const Statistics& statistics, Work& work, Device& device) const {
    const std::int64_t n = work.cols;
    Square h(static_cast<std::size_t>(n * n), 0.0);
    double mean = 0;
    std::int64_t dead = 0;
    const bool known = statistics.hessian.size() > 0;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; known && j < n; ++j) h[i * n + j] = statistics.hessian(i, j);
      if (h[i * n + i] > 0) {
        mean += h[i * n + i] / static_cast<double>(n);
        continue;
      }
      ++dead;  // no input ever came: its weights change nothing, nor does what is passed on to them
      for (std::int64_t j = 0; j < n; ++j) h[i * n + j] = h[j * n + i] = 0;
      h[i * n + i] = 1;
    }
    double damping = params_.damp_percent;
    const double unit = mean > 0 ? mean : 1.0;
    for (int step = 0; step < kDampingSteps; ++step, damping = damping > 0 ? 10 * damping : 1e-4) {
      Square damped = h;
      for (std::int64_t i = 0; i < n; ++i) damped[i * n + i] += damping * unit;
      if (!upper_of_inverse(damped, n, work.u, device)) continue;
      char text[96];
      std::snprintf(text, sizeof text, "damping %g%s", damping, step > 0 ? ", raised until the Hessian had a factor" : "");
      return text + (known && dead > 0 ? ", dead columns " + std::to_string(dead) : std::string());
    }
    throw Error("gptq", "the Hessian of this layer's inputs is not positive definite however it is damped", {}, "give other calibration samples");
  }

  /// Tile after tile of the format; the scales of a tile are fitted to what its columns have become (G5).
  void round_all(Work& work, const WeightFormat& format, Device& device, PackedWeight& out) const {
    const std::int64_t width = format.tile_columns(work.cols);
    std::vector<std::int32_t> codes(static_cast<std::size_t>(work.rows * width));
    std::vector<float> decoded(static_cast<std::size_t>(work.rows));
    for (std::int64_t tile = 0; tile < work.cols; tile += width) {
      const auto grid = format.fit(View<const float, 2>(work.column(tile), {work.rows, width}, {1, work.rows}), {});
      for (std::int64_t first = tile; first < tile + width; first += params_.block_size) {
        const std::int64_t last = std::min(first + params_.block_size, tile + width);
        for (std::int64_t c = first; c < last; ++c) {
          grid->round(c - tile, View<const float, 1>(work.column(c), {work.rows}), {codes.data() + (c - tile) * work.rows, {work.rows}},
                      {decoded.data(), {work.rows}});
          const double pivot = work.u[c * work.cols + c];
          for (std::int64_t r = 0; r < work.rows; ++r) work.error(c)[r] = static_cast<float>((work.column(c)[r] - decoded[r]) / pivot);  // (G4)
          pass_on(work, c, c + 1, c + 1, last, device);
        }
        pass_on(work, first, last, last, work.cols, device);
      }
      format.pack(*grid, tile, View<const std::int32_t, 2>(codes.data(), {work.rows, width}, {1, work.rows}), out);
    }
  }

  /// (G4) Takes the errors of columns [from, to) off columns [begin, end).
  static void pass_on(Work& work, std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end, Device& device) {
    const auto body = [&](std::int64_t low, std::int64_t high) {
      for (std::int64_t j = low; j < high; ++j)
        for (std::int64_t c = from; c < to; ++c) {
          const auto factor = static_cast<float>(work.u[c * work.cols + j]);
          const float* const error = work.error(c);
          float* const column = work.column(j);
          for (std::int64_t r = 0; r < work.rows; ++r) column[r] -= factor * error[r];
        }
    };
    if (to - from == 1) return body(begin, end);
    device.parallel_for(end - begin, 4, [&](std::int64_t low, std::int64_t high, int) { body(begin + low, begin + high); });
  }

  Params params_;
};

}  // namespace

PATCHBAY_PLUGIN(Quantizer, Gptq, "gptq", "rounds column by column and makes up for each error in the columns that follow",
                "Frantar et al., GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers, ICLR 2023 (arXiv:2210.17323)")

}  // namespace patchbay

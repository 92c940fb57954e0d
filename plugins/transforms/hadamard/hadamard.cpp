// Hadamard rotations: a model in a basis in which no channel of the residual stream, and none of a head's values, is much larger than the
// others, since each is a sum over all with signs. Formulas (H1)...(H5): README.md. N rows, n columns.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "orthogonal.h"
#include "patchbay/plugin.h"
#include "patchbay/transform.h"

namespace patchbay {
namespace {

/// (H5) Q = diag(signs) (H x C): the signs that a seed draws, a Sylvester matrix H of order n / |C|, and a core C.
class HadamardRotation final : public Rotation {
 public:
  HadamardRotation(std::int64_t n, int seed) : core_(hadamard::core_of(n)), signs_(static_cast<std::size_t>(n), 1.0f) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));  // whose numbers the standard fixes
    for (float& sign : signs_) sign = random() >> 31 ? -1.0f : 1.0f;
  }

  void turn(View<float, 2> rows) const override {
    for (std::int64_t r = 0; r < rows.shape[0]; ++r) {
      std::vector<double> row = read(rows[r]);
      apply_signs(row);
      apply_core(row, false);
      apply_sylvester(row);
      write(row, rows[r]);
    }
  }
  void turn_back(View<float, 2> rows) const override {  // H is symmetric
    for (std::int64_t r = 0; r < rows.shape[0]; ++r) {
      std::vector<double> row = read(rows[r]);
      apply_sylvester(row);
      apply_core(row, true);
      apply_signs(row);
      write(row, rows[r]);
    }
  }
  std::string name() const {
    const std::int64_t power = static_cast<std::int64_t>(signs_.size()) / core_.order;
    if (core_.name.empty()) return "Sylvester " + std::to_string(power);
    return power > 1 ? "Sylvester " + std::to_string(power) + " x " + core_.name : core_.name;
  }

 private:
  std::vector<double> read(View<float, 1> row) const {
    const auto n = static_cast<std::int64_t>(signs_.size());
    if (row.shape[0] != n) throw Error("hadamard", "a rotation of " + std::to_string(n) + " columns is given rows of " + std::to_string(row.shape[0]));
    std::vector<double> values(signs_.size());
    for (std::int64_t c = 0; c < n; ++c) values[c] = row[c];
    return values;
  }
  static void write(const std::vector<double>& values, View<float, 1> row) {
    for (std::int64_t c = 0; c < row.shape[0]; ++c) row[c] = static_cast<float>(values[c]);
  }
  void apply_signs(std::vector<double>& row) const {
    for (std::size_t c = 0; c < row.size(); ++c) row[c] *= signs_[c];
  }
  /// (H1) Butterflies over pieces as long as the core: n log n additions in place of n^2 products.
  void apply_sylvester(std::vector<double>& row) const {
    const auto n = static_cast<std::int64_t>(row.size());
    for (std::int64_t step = core_.order; step < n; step *= 2)
      for (std::int64_t i = 0; i < n; ++i) {
        if (i / step % 2 != 0) continue;
        const double a = row[i], b = row[i + step];
        row[i] = a + b;
        row[i + step] = a - b;
      }
    const double length = std::sqrt(static_cast<double>(n / core_.order));
    for (double& value : row) value /= length;
  }
  /// Each piece times the core, or times its transpose.
  void apply_core(std::vector<double>& row, bool transposed) const {
    const std::int64_t m = core_.order;
    std::vector<double> piece(static_cast<std::size_t>(m));
    for (std::int64_t first = 0; first < static_cast<std::int64_t>(row.size()) && m > 1; first += m) {
      for (std::int64_t j = 0; j < m; ++j) {
        piece[j] = 0;
        for (std::int64_t i = 0; i < m; ++i) piece[j] += row[first + i] * core_.entries[transposed ? j * m + i : i * m + j];
      }
      std::copy(piece.begin(), piece.end(), row.begin() + first);
    }
  }

  const hadamard::Core core_;
  std::vector<float> signs_;
};

class Hadamard final : public Transform {
 public:
  struct Params {
    bool residual = true, values = true;
    int seed = 0;
    void visit(Fields& f) {
      f.boolean("residual", residual, {"turns the residual stream"});
      f.boolean("values", values, {"turns each head's values, between v and the attention's output"});
      f.integer("seed", seed, 0, 1 << 30, {"of the signs"});
    }
  };
  explicit Hadamard(const Params& params) : params_(params) {}

  std::shared_ptr<const Rotation> residual_rotation(std::int64_t hidden) const override {
    return params_.residual ? std::make_shared<HadamardRotation>(hidden, params_.seed) : nullptr;
  }
  std::shared_ptr<const Rotation> value_rotation(std::int64_t head_size) const override {
    return params_.values ? std::make_shared<HadamardRotation>(head_size, params_.seed) : nullptr;
  }
  /// Rotations are folded by the engine; what is left is to say which.
  std::string apply(LinearGroup& group, Device&) const override {
    if (group.norm_weight.size() == 0 || !params_.residual) return {};
    return "inputs turned by " + HadamardRotation(group.norm_weight.size(), params_.seed).name();
  }

 private:
  Params params_;
};

}  // namespace

PATCHBAY_PLUGIN(Transform, Hadamard, "hadamard", "turns the residual stream and each head's values by Hadamard matrices, which spread outliers over all channels",
                "Ashkboos et al., QuaRot: Outlier-Free 4-Bit Inference in Rotated LLMs, NeurIPS 2024 (arXiv:2404.00456)")

}  // namespace patchbay

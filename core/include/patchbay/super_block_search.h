/// @file super_block_search.h
/// Scales of least squared error for a super-block: whole multiples of one fp16 number (and minima of another) for all its groups.
/// Formulas (F6)...(F8): plugins/quantizers/scale_search/README.md.
#pragma once
#include "patchbay/scale_search.h"
#include "patchbay/super_block_format.h"

namespace patchbay {

/// Searches the steps of a super-block of `Block`, which says besides what SuperBlockFormat asks for
///   kMinCode, kMaxCode; kOffset; kMinScale, kMaxScale: the ends of a scale's whole multiples
template <class Block>
class StepSearch {
 public:
  static constexpr std::size_t kGroups = kSuperColumns / Block::kGroupColumns;
  using Fitted = Steps<kGroups>;

  /// w, importance: 256 of each.
  StepSearch(const float* w, const float* importance) : w_(w), importance_(importance) {}

  /// The best steps found; no worse than `covering`.
  Fitted best(const Fitted& covering) const {
    constexpr int kMostRefits = 2;
    Found found = from_groups();
    for (int i = 0; i < kMostRefits; ++i) {
      const Found next = with_multiples(refitted(found.steps));
      if (!(next.error < found.error)) break;
      found = next;
    }
    return found.error < error_of(covering) ? found.steps : covering;
  }

 private:
  struct Rounding {
    static constexpr float kLowest = Block::kMinCode - Block::kZeroCode, kHighest = Block::kMaxCode - Block::kZeroCode;
    static float level(float w, const GroupScale& scale) { return static_cast<float>(Block::round(w, scale) - Block::kZeroCode); }
  };
  struct Found {
    Fitted steps;
    double error = 0;
  };

  WeightGroup<Rounding> group(std::size_t g) const {
    const std::int64_t first = static_cast<std::int64_t>(g) * Block::kGroupColumns;
    return {w_ + first, importance_ + first, Block::kGroupColumns};
  }
  double error_of(const Fitted& steps) const {
    double sum = 0;
    for (std::size_t g = 0; g < kGroups; ++g) sum += group(g).squared_error(steps.group(g));
    return sum;
  }

  /// (F6) Each group's own best scale; steps such that the largest of them is the largest multiple.
  Found from_groups() const {
    std::array<GroupScale, kGroups> own;
    float largest = 0, lowest = 0;
    for (std::size_t g = 0; g < kGroups; ++g) {
      own[g] = group(g).searched(Block::kOffset);
      if (std::fabs(own[g].scale) > std::fabs(largest)) largest = own[g].scale;
      lowest = std::min(lowest, own[g].offset);
    }
    Fitted steps;
    steps.scale_step = stored(largest / (Block::kMinScale < 0 ? Block::kMinScale : Block::kMaxScale));
    steps.minimum_step = stored(-lowest / Block::kMaxScale);
    for (std::size_t g = 0; g < kGroups; ++g) {
      steps.scales[g] = nearest_multiple(own[g].scale, steps.scale_step, Block::kMinScale);
      steps.minima[g] = nearest_multiple(-own[g].offset, steps.minimum_step, 0);
    }
    return with_multiples(steps);
  }

  /// (F7) For each group the best multiples among those beside the present ones.
  Found with_multiples(Fitted steps) const {
    Found found{steps, 0};
    for (std::size_t g = 0; g < kGroups; ++g) {
      double least = std::numeric_limits<double>::infinity();
      for (int scale = steps.scales[g] - 1; scale <= steps.scales[g] + 1; ++scale)
        for (int minimum = steps.minima[g] - 1; minimum <= steps.minima[g] + 1; ++minimum) {
          if (scale < Block::kMinScale || scale > Block::kMaxScale || minimum < 0 || minimum > kMaxMinimum) continue;
          const double error = group(g).squared_error(steps.group_of(scale, minimum));
          if (!(error < least)) continue;
          least = error;
          found.steps.scales[g] = scale;
          found.steps.minima[g] = minimum;
        }
      found.error += least;
    }
    return found;
  }

  /// (F8) Least squares over the whole super-block: w is about scale_step * (scale * level) - minimum_step * minimum.
  Fitted refitted(Fitted steps) const {
    double aa = 0, ab = 0, bb = 0, wa = 0, wb = 0;  // sums of products of a = scale * level, b = -minimum and w
    for (std::size_t g = 0; g < kGroups; ++g) {
      const WeightGroup<Rounding> of_group = group(g);
      const GroupScale scale = steps.group(g);
      const double b = -steps.minima[g];
      for (std::int64_t i = 0; i < of_group.count; ++i) {
        const double w = of_group.w[i], importance = of_group.importance[i], a = steps.scales[g] * Rounding::level(of_group.w[i], scale);
        aa += importance * a * a;
        ab += importance * a * b;
        bb += importance * b * b;
        wa += importance * w * a;
        wb += importance * w * b;
      }
    }
    const double determinant = aa * bb - ab * ab, minimum_step = (aa * wb - ab * wa) / determinant;
    const bool both = determinant > 0 && minimum_step > 0;
    if (both) steps.minimum_step = stored(static_cast<float>(minimum_step));
    if (aa > 0) steps.scale_step = stored(static_cast<float>(both ? (bb * wa - ab * wb) / determinant : (wa - ab * steps.minimum_step) / aa));
    return steps;
  }

  static constexpr int kMaxMinimum = Block::kOffset == Offset::none ? 0 : Block::kMaxScale;

  static float stored(float step) { return to_float(to_half(step)); }
  static int nearest_multiple(float value, float step, int least) {
    const float count = value / step;  // 0 / 0 where all scales are 0
    return std::isfinite(count) ? std::clamp(static_cast<int>(std::lround(count)), least, Block::kMaxScale) : 0;
  }

  const float* w_;
  const float* importance_;
};

}  // namespace patchbay

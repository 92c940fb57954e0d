/// @file group_scaling.h
/// Scaling the inputs of a group: column c of all consumers times s[c], and what makes x[c] divided by it. For transforms that choose factors.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "patchbay/error.h"
#include "patchbay/transform.h"

namespace patchbay {

inline std::int64_t columns_of(const LinearGroup& group) { return group.consumers.empty() ? 0 : group.consumers.front().w.shape[1]; }

/// Whether anything that makes x can take factors.
inline bool can_be_scaled(const LinearGroup& group) { return group.norm_weight.size() > 0 || !group.producer.empty(); }

inline bool is_quantized(const LinearGroup& group) {
  return std::any_of(group.consumers.begin(), group.consumers.end(), [](const EditableMatrix& consumer) { return consumer.format != nullptr; });
}

/// Of columns that one row of the producer makes, each gets the largest of their values: what is computed from them is then equal too.
inline void share_largest(const LinearGroup& group, std::vector<float>& of_columns) {
  if (group.producer.empty()) return;
  std::vector<float> of_rows(static_cast<std::size_t>(group.producer.front().w.shape[0]), -std::numeric_limits<float>::infinity());
  for (std::size_t c = 0; c < of_columns.size(); ++c) {
    float& row = of_rows[static_cast<std::size_t>(group.producer_row[c])];
    row = std::max(row, of_columns[c]);
  }
  for (std::size_t c = 0; c < of_columns.size(); ++c) of_columns[c] = of_rows[static_cast<std::size_t>(group.producer_row[c])];
}

/// Makes the group an equal one. A row of the producer that no column reads stays.
/// @throws Error for a factor that is not finite and above 0, and for unequal ones of one producer row (a fault of the transform).
inline void scale_group(LinearGroup& group, const std::vector<float>& factors) {
  const auto cols = static_cast<std::int64_t>(factors.size());
  std::vector<float> of_rows;  // 0: no column yet
  if (!group.producer.empty()) of_rows.resize(static_cast<std::size_t>(group.producer.front().w.shape[0]));
  for (std::int64_t c = 0; c < cols; ++c) {
    const float factor = factors[c];
    if (!(factor > 0 && std::isfinite(factor)))
      throw Error(group.name, "column " + std::to_string(c) + " would be scaled by " + std::to_string(factor), "finite numbers above 0");
    if (of_rows.empty()) continue;
    float& row = of_rows[static_cast<std::size_t>(group.producer_row[c])];
    if (row != 0 && row != factor) throw Error(group.name, "columns of one producer row would be scaled by unequal factors");
    row = factor;
  }
  for (EditableMatrix& consumer : group.consumers)
    for (std::int64_t r = 0; r < consumer.w.shape[0]; ++r)
      for (std::int64_t c = 0; c < cols; ++c) consumer.w(r, c) *= factors[c];
  for (const View<float, 1>& norm : {group.norm_weight, group.norm_bias})
    for (std::int64_t c = 0; c < norm.size(); ++c) norm[c] /= factors[c];
  for (EditableMatrix& producer : group.producer)
    for (std::int64_t r = 0; r < producer.w.shape[0]; ++r) {
      if (of_rows[r] == 0) continue;
      for (std::int64_t c = 0; c < producer.w.shape[1]; ++c) producer.w(r, c) /= of_rows[r];
      if (producer.bias.size() > 0) producer.bias[r] /= of_rows[r];
    }
}

}  // namespace patchbay

// For tests against golden values in JSON.
#pragma once
#include <nlohmann/json.hpp>

#include "weight_support.h"

namespace patchbay::test {

/// Rows of numbers that were written as multiples of 1 / unit.
inline Matrix matrix_of(const nlohmann::json& rows, float unit) {
  Matrix matrix(static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size()));
  for (std::int64_t r = 0; r < matrix.rows; ++r)
    for (std::int64_t c = 0; c < matrix.cols; ++c) matrix.at(r, c) = rows[r][c].get<float>() / unit;
  return matrix;
}

}  // namespace patchbay::test

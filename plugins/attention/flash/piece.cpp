// The algorithm: tiles of keys and values in slot order, each taken by all rows of the piece.
#include "piece.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "patchbay/half.h"

namespace patchbay::flash {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }

}  // namespace

std::int64_t Scratch::size(std::int64_t rows, std::int64_t head_size) {
  return 2 * rows * round_up(head_size, kAlignment) + 2 * round_up(rows, kAlignment) + kRowGroup * kTile +
         3 * kTile * round_up(head_size, kAlignment);
}

Scratch::Scratch(float* memory, std::int64_t rows, std::int64_t head_size) : stride(round_up(head_size, kAlignment)) {
  const auto take = [&](std::int64_t floats) { return std::exchange(memory, memory + floats); };
  q = take(rows * stride);
  output = take(rows * stride);
  maximum = take(round_up(rows, kAlignment));
  sum = take(round_up(rows, kAlignment));
  scores = take(kRowGroup * kTile);
  k_rows = take(kTile * stride);
  k_columns = take(kTile * stride);
  v = take(kTile * stride);
}

void Piece::run(View<const float, 3> queries, View<float, 3> outputs) const {
  load_queries(queries);
  std::fill_n(scratch_.output, rows_ * scratch_.stride, 0.0f);
  std::fill_n(scratch_.maximum, rows_, -kInfinity);
  std::fill_n(scratch_.sum, rows_, 0.0f);
  const std::int64_t begin = visible(0).begin, end = visible(rows_ - 1).end;
  for (std::int64_t first = begin / kTile * kTile; first < end; first += kTile) {
    load_tile(first, std::min(kTile, end - first));
    for (std::int64_t row = 0; row < rows_; row += kRowGroup) take_tile(first, row, std::min(kRowGroup, rows_ - row));
  }
  store_outputs(outputs);
}

Piece::Visible Piece::visible(std::int64_t row) const {
  const bool chain = sequence_.tree.empty();
  const std::int64_t first_unseen = sequence_.committed + (chain ? position(row) : 0) - spec_.window;  // of a tree: by its root
  return {spec_.window > 0 ? std::max<std::int64_t>(0, first_unseen + 1) : 0,
          sequence_.committed + (chain ? position(row) + 1 : sequence_.rows)};
}

void Piece::load_queries(View<const float, 3> queries) const {
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto query = queries[sequence_.first_row + position(row)][head(row)];
    for (std::int64_t d = 0; d < spec_.head_size; ++d) scratch_.q[row * scratch_.stride + d] = query[d] * spec_.scale;
  }
}

/// Decodes the slots [first, first + count) of the head: keys transposed to (D, kTile), values (kTile, D). The rest of the tile
/// keeps what was there: its scores will be masked, its values not read.
void Piece::load_tile(std::int64_t first, std::int64_t count) const {
  const auto before = [&](const KvSegment& s) { return s.first + s.count <= first; };
  auto segment = std::partition_point(view_.segments.begin(), view_.segments.end(), before);
  for (std::int64_t t = 0; t < count; ++t) {
    while (first + t >= segment->first + segment->count) ++segment;
    const std::int64_t token = first + t - segment->first;
    const std::int64_t row = token * segment->token_stride + piece_.kv_head * segment->head_stride;
    const std::int64_t scale = token * segment->scale_token_stride + piece_.kv_head * segment->scale_head_stride;
    const float k_scale = view_.layout.scaled ? to_float(segment->k_scales[scale]) : 1.0f;
    const float v_scale = view_.layout.scaled ? to_float(segment->v_scales[scale]) : 1.0f;
    kernels_.decode(view_.layout.dtype, segment->k + row, k_scale, spec_.head_size, scratch_.k_rows + t * scratch_.stride);
    kernels_.decode(view_.layout.dtype, segment->v + row, v_scale, spec_.head_size, scratch_.v + t * scratch_.stride);
  }
  kernels_.transpose(scratch_.k_rows, scratch_.stride, round_up(count, 8), spec_.head_size, scratch_.k_columns);
}

/// The tile at slot `first`, for `rows` rows from `row`. Slots that none of them sees are not computed; a slot that only some of
/// them see has weight 0 in the others, which changes no bit of their sums.
void Piece::take_tile(std::int64_t first, std::int64_t row, std::int64_t rows) const {
  const std::int64_t begin = std::max<std::int64_t>(0, visible(row).begin - first);
  const std::int64_t end = std::min(kTile, visible(row + rows - 1).end - first);
  if (begin >= end) return;
  const std::int64_t stride = scratch_.stride, cols = round_up(spec_.head_size, kernels_.columns);
  float* const scores = scratch_.scores;
  float* const output = scratch_.output + row * stride;
  std::fill_n(scores, rows * kTile, 0.0f);
  kernels_.multiply_add(scratch_.q + row * stride, stride, scratch_.k_columns, kTile, scores, kTile, rows, spec_.head_size,
                        round_up(end, kernels_.columns));  // (F1)
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const row_scores = scores + i * kTile;
    kernels_.finish_scores(row_scores, spec_.soft_cap);
    mask(row + i, first, row_scores);
    kernels_.softmax_step(row_scores, scratch_.maximum[row + i], scratch_.sum[row + i], output + i * stride, cols);  // (F2), (F3)
  }
  kernels_.multiply_add(scores + begin, kTile, scratch_.v + begin * stride, stride, output, stride, rows, end - begin,
                        cols);  // (F4)
}

void Piece::mask(std::int64_t row, std::int64_t first, float* scores) const {
  const Visible range = visible(row);
  const std::int64_t begin = std::clamp<std::int64_t>(range.begin - first, 0, kTile);
  const std::int64_t end = std::clamp<std::int64_t>(range.end - first, 0, kTile);
  std::fill(scores, scores + begin, -kInfinity);
  std::fill(scores + end, scores + kTile, -kInfinity);
  if (sequence_.tree.empty()) return;
  // The window counts positions, and those of a tree's branches are not its slots.
  const std::int64_t unseen = spec_.window > 0 ? sequence_.depth(position(row)) - spec_.window : -sequence_.committed - 1;
  for (std::int64_t t = begin; t < end; ++t) {
    const std::int64_t tentative = first + t - sequence_.committed;
    const bool seen = tentative < 0 ? tentative > unseen
                                    : sequence_.sees(position(row), tentative) && sequence_.depth(tentative) > unseen;
    if (!seen) scores[t] = -kInfinity;
  }
}

void Piece::store_outputs(View<float, 3> outputs) const {
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto output = outputs[sequence_.first_row + position(row)][head(row)];
    const float factor = scratch_.sum[row] == 0.0f ? 0.0f : 1.0f / scratch_.sum[row];  // a row that saw nothing: zeros
    for (std::int64_t d = 0; d < spec_.head_size; ++d) output[d] = scratch_.output[row * scratch_.stride + d] * factor;  // (F6)
  }
}

}  // namespace patchbay::flash

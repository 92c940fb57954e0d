#include "engine/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "device_rows.h"

namespace patchbay {

void multiply(const Linear& linear, Activation& x, TensorRef y, Ops& ops) {
  linear.kernel->run(x, y);
  if (linear.bias.size() == 0) return;
  TensorRef bias = linear.bias.tensor({y.shape[0], y.shape[1]});
  bias.strides[0] = 0;  // the same for every row
  ops.add(y, bias);
}

void FeedForward::reserve(std::int64_t rows) {
  const auto room = [&](std::int64_t cols) { return ops_.device().allocate(rows * cols * bytes_of(type_)); };
  const Experts& experts = spec_.experts;
  const std::int64_t size = std::max({spec_.ffn, experts.ffn, experts.shared_ffn});
  gate_ = room(size);
  up_ = room(size);
  if (!spec_.gated) {  // act(up) * 1
    const std::vector<float> ones(static_cast<std::size_t>(size), 1.0f);
    write_rows(View<const float, 2>(ones.data(), {rows, size}, {0, 1}), view(gate_, rows, size), ops_.device());
  }
  if (experts.count == 0) return;
  router_ = ops_.device().allocate(rows * experts.count * bytes_of(DType::f32));
  zeros_ = room(spec_.hidden);
  gathered_ = room(spec_.hidden);
  result_ = room(spec_.hidden);
}

void FeedForward::run(const BlockWeights& block, TensorRef x, bool ready, TensorRef out, Sees sees) {
  if (!ready) activation_.reset(x);
  if (block.experts.empty()) return dense(block.ffn, spec_.ffn, out, sees);
  run_experts(block, x, out, sees);
  if (block.shared.up.kernel) add_shared_expert(block, x, out);
}

void FeedForward::dense(const FeedForwardWeights& w, std::int64_t size, TensorRef out, Sees sees) {
  const TensorRef gate = view(gate_, activation_.rows(), size), up = view(up_, activation_.rows(), size);
  const TensorRef inner = spec_.gated ? gate : up;
  if (spec_.gated) {
    multiply(w.gate, activation_, gate, ops_);
    sees("ffn_gate", gate);
  }
  multiply(w.up, activation_, up, ops_);
  sees("ffn_up", up);
  ops_.gated(spec_.gate, inner, spec_.gated ? up : gate, inner);
  sees("ffn_gated", inner);
  activation_.reset(inner);
  multiply(w.down, activation_, out, ops_);
}

/// Of a row's shares, the softmax over all experts, the best `used` stay (of equals, the first); the others become 0.
void FeedForward::choose_experts(View<float, 2> shares) {
  const std::int64_t count = shares.shape[1];
  for (std::int64_t t = 0; t < shares.shape[0]; ++t) {
    float* const row = &shares(t, 0);
    double kept = 0;
    const auto rank = [&](std::int64_t e) {  // how many come before expert e
      return std::count_if(row, row + count,
                           [&](const float& other) { return other > row[e] || (other == row[e] && &other < row + e); });
    };
    chosen_.assign(count, 0);
    for (std::int64_t e = 0; e < count; ++e) {
      if (rank(e) >= spec_.experts.used) continue;
      chosen_[e] = row[e];
      kept += chosen_[e];
    }
    for (std::int64_t e = 0; e < count; ++e)
      row[e] = static_cast<float>(spec_.experts.normalized ? chosen_[e] / kept : chosen_[e]);
  }
}

void FeedForward::add_rows(TensorRef out, const std::vector<std::int32_t>& rows, const std::vector<float>& factors, TensorRef added) {
  Device& device = ops_.device();
  const auto count = static_cast<std::int64_t>(rows.size());
  const TensorRef ids = on_device(View<const std::int32_t, 1>(rows.data(), {count}), chosen_rows_, device);
  ops_.add_rows(out, ids, on_device(View<const float, 1>(factors.data(), {count}), chosen_factors_, device), added);
}

/// A row's sum runs over its experts in their order, whatever rows are with it in the batch.
void FeedForward::run_experts(const BlockWeights& block, TensorRef x, TensorRef out, Sees sees) {
  const std::int64_t rows = x.shape[0], hidden = spec_.hidden;
  const TensorRef logits = router_.tensor(DType::f32, {rows, spec_.experts.count});
  multiply(block.router, activation_, logits, ops_);
  sees("ffn_router", logits);
  ops_.softmax(logits, logits);
  const View<float, 2> weights = read_rows(logits, weights_, ops_.device());
  choose_experts(weights);
  ops_.device().copy(view(zeros_, rows, hidden), out);
  for (std::size_t expert = 0; expert < block.experts.size(); ++expert) {
    rows_of_expert_.clear();
    factors_.clear();
    for (std::int64_t t = 0; t < rows; ++t) {
      if (!(weights(t, expert) > 0)) continue;
      rows_of_expert_.push_back(static_cast<std::int32_t>(t));
      factors_.push_back(weights(t, expert));
    }
    if (rows_of_expert_.empty()) continue;
    const auto count = static_cast<std::int64_t>(rows_of_expert_.size());
    const TensorRef gathered = view(gathered_, count, hidden), result = view(result_, count, hidden);
    const TensorRef ids = on_device(View<const std::int32_t, 1>(rows_of_expert_.data(), {count}), chosen_rows_, ops_.device());
    ops_.take_rows(x, ids, gathered);
    activation_.reset(gathered);
    dense(block.experts[expert], spec_.experts.ffn, result, [](std::string_view, TensorRef) {});
    add_rows(out, rows_of_expert_, factors_, result);
  }
}

void FeedForward::add_shared_expert(const BlockWeights& block, TensorRef x, TensorRef out) {
  const std::int64_t rows = x.shape[0];
  const TensorRef result = view(result_, rows, spec_.hidden);
  activation_.reset(x);
  dense(block.shared, spec_.experts.shared_ffn, result, [](std::string_view, TensorRef) {});
  std::vector<float> room;
  const View<float, 2> inputs = read_rows(x, room, ops_.device());
  const auto router = block.shared_router.values.view<const float, 1>({spec_.hidden});
  rows_of_expert_.resize(static_cast<std::size_t>(rows));
  std::iota(rows_of_expert_.begin(), rows_of_expert_.end(), 0);
  factors_.clear();
  for (std::int64_t t = 0; t < rows; ++t) {
    double logit = 0;
    for (std::int64_t c = 0; c < spec_.hidden; ++c) logit += double{inputs(t, c)} * router[c];
    factors_.push_back(static_cast<float>(1 / (1 + std::exp(-logit))));
  }
  add_rows(out, rows_of_expert_, factors_, result);
}

}  // namespace patchbay

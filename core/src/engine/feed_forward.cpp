#include "engine/feed_forward.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace patchbay {
namespace {


void add_times(View<float, 1> y, View<const float, 1> x, float factor) {
  for (std::int64_t c = 0; c < y.shape[0]; ++c) y[c] += factor * x[c];
}

}  // namespace

void multiply(const Linear& linear, Activation& x, View<float, 2> y, Ops& ops) {
  linear.kernel->run(x, y);
  if (linear.bias.size() == 0) return;
  View<float, 2> bias = linear.bias.view<float, 2>(y.shape);
  bias.strides[0] = 0;  // the same for every row
  ops.add(y, bias);
}

void FeedForward::reserve(std::int64_t rows) {
  const auto room = [&](std::int64_t cols) { return ops_.device().allocate(rows * cols * bytes_of(DType::f32)); };
  const Experts& experts = spec_.experts;
  const std::int64_t size = std::max({spec_.ffn, experts.ffn, experts.shared_ffn});
  gate_ = room(size);
  up_ = room(size);
  if (!spec_.gated) {  // act(up) * 1
    const auto ones = gate_.view<float, 2>({rows, size});
    std::fill_n(ones.data, ones.size(), 1.0f);
  }
  if (experts.count == 0) return;
  router_ = room(experts.count);
  gathered_ = room(spec_.hidden);
  result_ = room(spec_.hidden);
}

void FeedForward::run(const BlockWeights& block, View<float, 2> x, View<float, 2> out, Sees sees) {
  if (block.experts.empty()) return dense(block.ffn, spec_.ffn, x, out, sees);
  run_experts(block, x, out, sees);
  if (block.shared.up.kernel) add_shared_expert(block, x, out);
}

void FeedForward::dense(const FeedForwardWeights& w, std::int64_t size, View<float, 2> x, View<float, 2> out, Sees sees) {
  const auto gate = gate_.view<float, 2>({x.shape[0], size}), up = up_.view<float, 2>({x.shape[0], size});
  const View<float, 2> inner = spec_.gated ? gate : up;
  activation_.reset(x);
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

/// Turns a row's logits into weights: the softmax over all experts, kept for the best `used` of them (of equals, the first).
void FeedForward::choose_experts(View<float, 2> logits) {
  const std::int64_t count = logits.shape[1];
  for (std::int64_t t = 0; t < logits.shape[0]; ++t) {
    float* const row = &logits(t, 0);
    const float largest = *std::max_element(row, row + count);
    double sum = 0, kept = 0;
    for (std::int64_t e = 0; e < count; ++e) sum += std::exp(double{row[e]} - largest);
    const auto rank = [&](std::int64_t e) {  // how many come before expert e
      return std::count_if(row, row + count,
                           [&](const float& other) { return other > row[e] || (other == row[e] && &other < row + e); });
    };
    chosen_.assign(count, 0);
    for (std::int64_t e = 0; e < count; ++e) {
      if (rank(e) >= spec_.experts.used) continue;
      chosen_[e] = std::exp(double{row[e]} - largest) / sum;
      kept += chosen_[e];
    }
    for (std::int64_t e = 0; e < count; ++e)
      row[e] = static_cast<float>(spec_.experts.normalized ? chosen_[e] / kept : chosen_[e]);
  }
}

/// A row's sum runs over its experts in their order, whatever rows are with it in the batch.
void FeedForward::run_experts(const BlockWeights& block, View<float, 2> x, View<float, 2> out, Sees sees) {
  const std::int64_t rows = x.shape[0], hidden = spec_.hidden;
  const auto weights = router_.view<float, 2>({rows, spec_.experts.count});
  activation_.reset(x);
  multiply(block.router, activation_, weights, ops_);
  sees("ffn_router", weights);
  choose_experts(weights);
  for (std::int64_t t = 0; t < rows; ++t) std::fill_n(&out(t, 0), hidden, 0.0f);
  for (std::size_t expert = 0; expert < block.experts.size(); ++expert) {
    rows_of_expert_.clear();
    for (std::int64_t t = 0; t < rows; ++t) {
      if (weights(t, expert) > 0) rows_of_expert_.push_back(t);
    }
    if (rows_of_expert_.empty()) continue;
    const auto count = static_cast<std::int64_t>(rows_of_expert_.size());
    const auto gathered = gathered_.view<float, 2>({count, hidden}), result = result_.view<float, 2>({count, hidden});
    for (std::int64_t i = 0; i < count; ++i) std::copy_n(&x(rows_of_expert_[i], 0), hidden, &gathered(i, 0));
    dense(block.experts[expert], spec_.experts.ffn, gathered, result, [](std::string_view, TensorRef) {});
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t t = rows_of_expert_[i];
      add_times(out[t], result[i], weights(t, expert));
    }
  }
}

void FeedForward::add_shared_expert(const BlockWeights& block, View<float, 2> x, View<float, 2> out) {
  const auto result = result_.view<float, 2>({x.shape[0], spec_.hidden});
  dense(block.shared, spec_.experts.shared_ffn, x, result, [](std::string_view, TensorRef) {});
  const auto router = block.shared_router.view<const float, 1>({spec_.hidden});
  for (std::int64_t t = 0; t < x.shape[0]; ++t) {
    double logit = 0;
    for (std::int64_t c = 0; c < spec_.hidden; ++c) logit += double{x(t, c)} * router[c];
    add_times(out[t], result[t], static_cast<float>(1 / (1 + std::exp(-logit))));
  }
}

}  // namespace patchbay

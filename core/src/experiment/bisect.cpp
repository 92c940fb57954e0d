#include "experiment/bisect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "engine/model_spec.h"

namespace patchbay {
namespace {

constexpr std::int64_t kMaxTraceBytes = std::int64_t{2} << 30;  ///< of both sides together
constexpr std::int64_t kWeightRows = 256;                       ///< decoded at once

/// One intermediate of the whole prompt.
struct TraceEntry {
  std::string operation;
  int layer = -1;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Keeps every intermediate of a prompt, its chunks joined.
class Trace : public Probe {
 public:
  void saw(std::string_view name, int layer, TensorRef tensor) override {
    std::int64_t count = 1;
    for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
    TraceEntry& entry = entry_of(name, layer);
    const std::span<const float> values(static_cast<const float*>(tensor.data), static_cast<std::size_t>(count));
    const bool whole = name == "k_cached" || name == "v_cached";  // holds the earlier chunks too
    if (whole) entry.values.clear();
    entry.values.insert(entry.values.end(), values.begin(), values.end());
    const std::int64_t tokens_before = whole || entry.shape.empty() ? 0 : entry.shape[0];
    entry.shape.assign(tensor.shape.begin(), tensor.shape.begin() + tensor.rank);
    entry.shape[0] += tokens_before;
    bytes_ += count * static_cast<std::int64_t>(sizeof(float));
    if (bytes_ <= kMaxTraceBytes / 2) return;
    throw Error("prompt", fmt::format("the intermediates of this model take more than {} MiB", kMaxTraceBytes >> 20), "a shorter prompt",
                "a few dozen tokens show as much");
  }
  const std::vector<TraceEntry>& entries() const { return entries_; }

 private:
  /// In every chunk the operations come in the same order.
  TraceEntry& entry_of(std::string_view name, int layer) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.layer == layer && e.operation == name; });
    if (found != entries_.end()) return *found;
    entries_.push_back({std::string(name), layer, {}, {}});
    return entries_.back();
  }

  std::vector<TraceEntry> entries_;
  std::int64_t bytes_ = 0;
};

void run_prompt(Session& session, std::span<const Token> prompt, Probe& probe) {
  ModelRunner& runner = session.runner();
  const SeqId seq = runner.open();
  runner.set_probe(&probe);
  const auto length = static_cast<std::int64_t>(prompt.size());
  for (std::int64_t begin = 0; begin < length; begin += session.config().max_batched_tokens) {
    const auto count = std::min(session.config().max_batched_tokens, length - begin);
    std::vector<TokenRow> rows;
    for (std::int64_t i = 0; i < count; ++i)
      rows.push_back({seq, prompt[begin + i], static_cast<std::int32_t>(i) - 1, begin + i + 1 == length});
    if (runner.forward(rows, true).full) throw Error("prompt", fmt::format("{} tokens do not fit into the KV cache", length));
    std::vector<std::int32_t> path(static_cast<std::size_t>(count));
    std::iota(path.begin(), path.end(), 0);
    runner.commit(seq, path);
  }
  runner.set_probe(nullptr);
}

/// The tensor that an operation multiplies with, "" for those that have none.
std::string weight_of(const TraceEntry& entry, const ModelSpec& spec) {
  const std::pair<std::string_view, Role> applied[] = {
      {"embedding", Role::embedding}, {"attention_norm", Role::attention_norm}, {"q", Role::q}, {"k", Role::k}, {"v", Role::v},
      {"attention_output", Role::attention_output}, {"ffn_norm", Role::ffn_norm}, {"ffn_router", Role::router}, {"ffn_gate", Role::gate},
      {"ffn_up", Role::up}, {"ffn_output", Role::down}, {"final_norm", Role::output_norm},
      {"logits", spec.tied_head ? Role::embedding : Role::head}};
  for (const auto& [operation, role] : applied) {
    const TensorPlace* place = operation == entry.operation ? spec.place(role) : nullptr;
    if (place) return tensor_label(*place, entry.layer);
  }
  return {};
}

void must_be_alike(const ModelSpec& a, const ModelSpec& b) {
  const auto text = [](const ModelSpec& s) {
    return fmt::format("{} layers of {}, {} query and {} key/value heads of {}, feed-forward {}, {} tokens", s.layers, s.hidden, s.heads, s.kv_heads,
                       s.head_size, s.ffn, s.vocabulary);
  };
  if (text(a) != text(b)) throw Error("bisect", "the two models have other shapes: " + text(a) + "; " + text(b), "models of one shape");
}

std::vector<OperationDifference> compare(const Trace& a, const Trace& b, const ModelSpec& spec, std::int64_t prompt_length) {
  std::vector<OperationDifference> result;
  for (std::size_t i = 0; i < a.entries().size(); ++i) {
    const TraceEntry &first = a.entries()[i], &second = b.entries().at(i);
    DifferenceSum sum;
    sum.add(first.values, second.values);
    result.push_back({first.operation, first.layer, first.shape, prompt_length - first.shape[0], sum.result(), weight_of(first, spec)});
  }
  return result;
}

ArrayDifference compare(const WeightView& a, const WeightView& b) {
  DifferenceSum sum;
  const auto size = static_cast<std::size_t>(std::min(a.rows, kWeightRows) * a.cols);
  std::vector<float> first(size), second(size);
  for (std::int64_t row = 0; row < a.rows; row += kWeightRows) {
    const auto rows = std::min(kWeightRows, a.rows - row);
    const std::array<std::int64_t, 2> shape = {rows, a.cols};
    a.decode(row, View<float, 2>(first.data(), shape));
    b.decode(row, View<float, 2>(second.data(), shape));
    const auto count = static_cast<std::size_t>(rows * a.cols);
    sum.add({first.data(), count}, {second.data(), count});
  }
  return sum.result();
}

void compare_weights(const Session& a, const Session& b, Bisection& result) {
  const auto first = a.weights(), second = b.weights();
  result.weights_compared = std::ssize(first);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i].bytes == second.at(i).bytes && first[i].format == second[i].format) continue;
    const auto difference = compare(first[i], second[i]);
    if (difference.differing > 0) result.weights.push_back({first[i].tensor, first[i].format, second[i].format, difference});
  }
}

Token likeliest(const Trace& trace) {
  const auto& logits = trace.entries().back().values;
  const auto found = std::max_element(logits.begin(), logits.end());
  return std::isfinite(*found) ? static_cast<Token>(found - logits.begin()) : -1;
}

}  // namespace

std::vector<std::int64_t> OperationDifference::place(std::int64_t element) const {
  std::vector<std::int64_t> indices(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; element /= shape[i]) indices[i] = element % shape[i];
  indices[0] += first_token;
  return indices;
}

const WeightDifference* Bisection::weight(const std::string& tensor) const {
  const auto found = std::find_if(weights.begin(), weights.end(), [&](const auto& w) { return w.tensor == tensor; });
  return found == weights.end() ? nullptr : &*found;
}

Bisection bisect(const BisectSide& a, const BisectSide& b, std::span<const Token> prompt, double tolerance) {
  const ModelSpec spec = read_model_spec(*a.file);
  must_be_alike(spec, read_model_spec(*b.file));
  const SessionOptions room{static_cast<std::int64_t>(prompt.size()), 1};
  Session first(a.file, a.config, room), second(b.file, b.config, room);
  Trace trace_a, trace_b;
  run_prompt(first, prompt, trace_a);
  run_prompt(second, prompt, trace_b);

  Bisection result;
  result.operations = compare(trace_a, trace_b, spec, static_cast<std::int64_t>(prompt.size()));
  for (std::size_t i = 0; i < result.operations.size(); ++i) {
    const auto& difference = result.operations[i].difference;
    if (!result.first_bit && difference.differing > 0) result.first_bit = i;
    if (!result.first_beyond && difference.relative_rmse > tolerance) result.first_beyond = i;
  }
  compare_weights(first, second, result);
  result.next_a = likeliest(trace_a);
  result.next_b = likeliest(trace_b);
  return result;
}

}  // namespace patchbay

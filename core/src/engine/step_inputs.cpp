// A step's numbers on their way to a GPU: see StepInputs.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "engine/step_plan.h"

namespace patchbay {
namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::int64_t kShortest = 64;  // steps of shorter sequences are one shape

template <class T>
TensorRef host_tensor(const std::vector<T>& values) {
  return View<const T, 1>(values.data(), {static_cast<std::int64_t>(values.size())});
}

}  // namespace

template <class T>
std::size_t StepInputs::add(const std::vector<T>& values) {
  const std::size_t at = (packed_.size() + kAlignment - 1) / kAlignment * kAlignment;
  packed_.resize(at + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(packed_.data() + at, values.data(), values.size() * sizeof(T));
  return at;
}

/// The arrays of GpuStep but for trees and slabs, on the host.
void StepInputs::describe(const StepPlan& plan) {
  for (auto* array : {&row_sequence_, &row_slot_, &first_row_, &sequence_rows_, &committed_}) array->clear();
  std::int64_t longest = kShortest;
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const StepSequence& sequence = plan.sequences[i];
    for (std::int64_t row = 0; row < sequence.rows; ++row) {
      row_sequence_.push_back(static_cast<std::int32_t>(i));
      row_slot_.push_back(static_cast<std::int32_t>(sequence.committed + row));
    }
    first_row_.push_back(static_cast<std::int32_t>(sequence.first_row));
    sequence_rows_.push_back(static_cast<std::int32_t>(sequence.rows));
    committed_.push_back(static_cast<std::int32_t>(sequence.committed));
    longest = std::max(longest, sequence.committed + sequence.rows);
  }
  gpu_ = {};
  gpu_.host = plan.sequences;
  gpu_.rows = static_cast<std::int64_t>(plan.tokens.size());
  gpu_.sequences = static_cast<std::int64_t>(plan.sequences.size());
  gpu_.longest = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(longest)));
}

/// (T, tree_width): which tentative tokens each row sees; empty where every sequence is a chain.
std::vector<std::uint8_t> StepInputs::tree(const StepPlan& plan) {
  std::int64_t width = 0;
  bool any = false;
  for (const StepSequence& sequence : plan.sequences) {
    width = std::max(width, sequence.rows);
    any = any || !sequence.tree.empty();
  }
  if (!any) return {};
  gpu_.tree_width = width;
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(gpu_.rows * width), 0);
  for (const StepSequence& sequence : plan.sequences) {
    for (std::int64_t row = 0; row < sequence.rows; ++row) {
      for (std::int64_t j = 0; j < sequence.rows; ++j) seen[(sequence.first_row + row) * width + j] = sequence.sees(row, j);
    }
  }
  return seen;
}

std::vector<std::byte*> StepInputs::slabs(const StepPlan& plan, KvStore& store) {
  std::vector<std::byte*> all;
  for (std::size_t i = 0; i < plan.sequences.size(); ++i) {
    const KvSlabs slabs = store.slabs(plan.sequences[i].seq);
    gpu_.shape = slabs.shape;
    gpu_.slabs_per_sequence = (gpu_.longest + slabs.shape.tokens - 1) / slabs.shape.tokens;
    all.resize((i + 1) * gpu_.slabs_per_sequence, nullptr);
    const std::size_t count = std::min<std::size_t>(slabs.slabs.size(), gpu_.slabs_per_sequence);
    std::copy_n(slabs.slabs.begin(), count, all.begin() + i * gpu_.slabs_per_sequence);
  }
  return all;
}

void StepInputs::load(const StepPlan& plan, KvStore& store) {
  tokens_ = host_tensor(plan.tokens);
  positions_ = host_tensor(plan.positions);
  logit_rows_ = host_tensor(plan.logit_rows);
  if (device_.is_host()) return;
  describe(plan);
  packed_.clear();
  const std::size_t tokens = add(plan.tokens), positions = add(plan.positions), row_sequence = add(row_sequence_),
                    row_slot = add(row_slot_), first_row = add(first_row_), sequence_rows = add(sequence_rows_),
                    committed = add(committed_), slab_pointers = add(slabs(plan, store)), logit_rows = add(plan.logit_rows);
  const auto column = [&](auto member) {
    std::vector<std::remove_cvref_t<decltype(plan.draws.front().*member)>> values;
    for (const TokenDraw& draw : plan.draws) values.push_back(draw.*member);
    return add(values);
  };
  const std::size_t temperature = column(&TokenDraw::temperature), top_k = column(&TokenDraw::top_k),
                    top_p = column(&TokenDraw::top_p), uniform = column(&TokenDraw::uniform);
  const std::vector<std::uint8_t> seen = tree(plan);
  const std::size_t tree_bytes = add(seen);
  const auto size = static_cast<std::int64_t>(packed_.size());
  if (memory_.size() < size) memory_ = device_.allocate(2 * size);
  device_.copy(View<const std::uint8_t, 1>(reinterpret_cast<const std::uint8_t*>(packed_.data()), {size}),
               memory_.tensor(DType::u8, {size}));
  const auto there = [&](TensorRef& tensor, std::size_t at) {
    tensor.data = memory_.data() + at;
    tensor.device = memory_.device();
  };
  there(tokens_, tokens);
  there(positions_, positions);
  there(logit_rows_, logit_rows);
  const auto integers = [&](std::size_t at) { return reinterpret_cast<const std::int32_t*>(memory_.data() + at); };
  gpu_.row_sequence = integers(row_sequence);
  gpu_.row_slot = integers(row_slot);
  gpu_.row_position = integers(positions);
  gpu_.first_row = integers(first_row);
  gpu_.sequence_rows = integers(sequence_rows);
  gpu_.committed = integers(committed);
  gpu_.slabs = reinterpret_cast<std::byte* const*>(memory_.data() + slab_pointers);
  const auto reals = [&](std::size_t at) { return reinterpret_cast<const double*>(memory_.data() + at); };
  sampling_ = {reinterpret_cast<const float*>(memory_.data() + temperature), integers(top_k), reals(top_p), reals(uniform)};
  if (!seen.empty()) gpu_.tree = reinterpret_cast<const std::uint8_t*>(memory_.data() + tree_bytes);
}

}  // namespace patchbay

#include "quantize/outside_blocks.h"

#include <algorithm>

#include "patchbay/plugin.h"
#include "quantize/quantize_matrix.h"

namespace patchbay {
namespace {

View<const float, 2> matrix_of(const Linear& linear, const std::vector<float>& values) { return {values.data(), {linear.packed.rows, linear.packed.cols}}; }
View<float, 2> matrix_of(const Linear& linear, std::vector<float>& values) { return {values.data(), {linear.packed.rows, linear.packed.cols}}; }

}  // namespace

void OutsideBlocks::turn(const Rotations& rotations, QuantizedModel& result) {
  Device& device = ops_.device();
  Linear head;
  const Linear& stored = spec_.tied_head ? weights_.embedding : weights_.head;
  head.packed = stored.packed;
  head.packed.name = spec_.tied_head ? kHeadName : stored.packed.name;
  head.format = stored.format;
  std::vector<float> values = decoded(stored, device);
  const auto norm = weights_.output_norm.weight.values.view<float, 1>({spec_.hidden});
  rotations.fold_into_head(matrix_of(head, values), norm, device);
  std::fill_n(norm.data, norm.size(), 1.0f);
  result.vectors[tensor_label(*spec_.place(Role::output_norm), -1)].assign(static_cast<std::size_t>(spec_.hidden), 1.0f);
  result.untied_head = spec_.tied_head;
  keep_plain(head, values, result);
  weights_.head = std::move(head);
  for (Linear* table : {&weights_.embedding, &weights_.position_embedding}) {
    if (!table->format) continue;
    values = decoded(*table, device);
    rotations.turn_rows(matrix_of(*table, values), device);
    keep_plain(*table, values, result);
  }
}

void OutsideBlocks::keep_plain(Linear& linear, const std::vector<float>& values, QuantizedModel& result) {
  const auto kept = choice_of(linear).format ? make<WeightFormat>({"fp32", nullptr}) : linear.format;  // what will be quantised is not rounded before
  QuantizedMatrix plain = in_plain_numbers(linear.packed.name, matrix_of(linear, values), *kept, ops_.device());
  linear.packed = plain.packed;
  linear.format = plain.format;
  linear.kernel = linear.format->prepare(linear.packed, ops_, ActivationMode::fp32);
  result.matrices[plain.packed.name] = std::move(plain);
}

const WeightPlan::Choice& OutsideBlocks::choice_of(const Linear& linear) const {
  const bool only_here = spec_.tied_head && linear.packed.name == kHeadName;  // the file has the embedding alone
  return plan_.choice(only_here ? weights_.embedding.packed.name : label_of(linear.packed.name));
}

QuantizedModel OutsideBlocks::quantize(SampleRunner* samples) {
  QuantizedModel done;
  for (const Linear* linear : {&weights_.embedding, &weights_.position_embedding, &weights_.head}) {
    if (!linear->format || !choice_of(*linear).format) continue;
    const WeightPlan::Choice& choice = choice_of(*linear);
    const bool is_head = linear == &weights_.head || (linear == &weights_.embedding && !weights_.head.format);
    InputStatistics gathered(linear->packed.cols, choice.needs(), ops_);
    if (is_head && samples && choice.needs().any()) samples->run_final_norm([&](View<const float, 2> x) { gathered.add(x); });
    const std::vector<float> values = decoded(*linear, ops_.device());
    done.matrices[linear->packed.name] =
        quantize_matrix(linear->packed.name, matrix_of(*linear, values), gathered.result(), *choice.quantizer, choice.format, ops_.device());
  }
  return done;
}

}  // namespace patchbay

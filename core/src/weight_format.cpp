// What every weight format inherits: sizes, owned parts, and the two ways to multiply.
#include "patchbay/weight_format.h"

#include <algorithm>
#include <utility>

#include "device_rows.h"
#include "patchbay/rounded_inputs.h"

namespace patchbay {
namespace {

constexpr std::int64_t kPartAlignment = 64;

std::int64_t aligned(std::int64_t bytes) { return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment; }

/// A fault of the caller, never of a user; without the check it would read past the end of a row.
void expect_columns(const std::string& label, std::int64_t weight_cols, std::int64_t input_cols) {
  if (weight_cols != input_cols)
    throw Error(label, "an input of " + std::to_string(input_cols) + " columns meets a weight of " + std::to_string(weight_cols));
}

class DecodeThenMultiply final : public LinearKernel, public RoundsInputs {
 public:
  DecodeThenMultiply(const WeightFormat& format, const PackedWeight& w, Ops& ops, const std::optional<RowRounding>& rounding = {})
      : format_(format), w_(w), ops_(ops), rounding_(rounding) {}

  void run(Activation& x, TensorRef y) override {
    expect_columns(format_.label(), w_.cols, x.cols());
    ops_.host().matmul_decoded(rounding_ ? rounded_values(x, ops_, *rounding_) : x.values(), w_.rows,
                               [this](std::int64_t first_row, View<float, 2> out) { format_.decode(w_, first_row, out); }, y);
  }
  std::string path() const override { return format_.label() + ":decode/" + std::string(ops_.kernel()); }
  std::optional<RowRounding> input_rounding() const override { return rounding_; }

 private:
  const WeightFormat& format_;
  PackedWeight w_;  // a copy: it shares the bytes
  Ops& ops_;
  std::optional<RowRounding> rounding_;
};

class MultiplyAsStored final : public LinearKernel {
 public:
  /// how: what stands between the label and the kernel set in path().
  MultiplyAsStored(std::string label, std::string how, const PackedWeight& w, TensorRef part, Ops& ops)
      : label_(std::move(label)), how_(std::move(how)), w_(w), part_(part), ops_(ops) {}

  void run(Activation& x, TensorRef y) override {
    expect_columns(label_, w_.cols, x.cols());
    ops_.matmul_stored(x.values(), part_, y);
  }
  std::string path() const override { return label_ + how_ + std::string(ops_.kernel()); }
  bool takes_rows() const override { return !ops_.device().is_host(); }
  void take_rows(TensorRef ids, TensorRef out) override { ops_.take_rows(part_, ids, out); }

 private:
  std::string label_, how_;
  PackedWeight w_;  // a copy: it shares the bytes
  TensorRef part_;
  Ops& ops_;
};

class IntegerProducts final : public LinearKernel {
 public:
  IntegerProducts(std::string label, const AffineSource& source, Ops& ops)
      : label_(std::move(label)), cols_(source.cols), weight_(ops.host().prepare_affine(source)), ops_(ops) {}

  void run(Activation& x, TensorRef y) override {
    expect_columns(label_, cols_, x.cols());
    ops_.host().matmul_affine(x.q8(), *weight_, y);
  }
  std::string path() const override { return label_ + ":integer/" + std::string(ops_.kernel()); }

 private:
  std::string label_;
  std::int64_t cols_;
  std::unique_ptr<AffineWeight> weight_;
  Ops& ops_;
};

}  // namespace

std::int64_t PartSpec::bytes() const {
  std::int64_t count = 1;
  for (auto extent : shape) count *= extent;
  return count * bytes_of(dtype);
}

TensorRef PartSpec::at(std::byte* data) const {
  TensorRef part;
  part.data = data;
  part.dtype = dtype;
  part.rank = static_cast<int>(shape.size());
  std::int64_t step = 1;
  for (int i = part.rank - 1; i >= 0; --i) {
    part.shape[i] = shape[i];
    part.strides[i] = step;
    step *= shape[i];
  }
  return part;
}

std::unique_ptr<LinearKernel> WeightFormat::prepare(const PackedWeight& w, Ops& ops, ActivationMode) const {
  return decode_then_multiply(*this, w, ops);
}

std::int64_t WeightFormat::packed_bytes(std::int64_t rows, std::int64_t cols) const {
  std::int64_t bytes = 0;
  for (const auto& part : layout(rows, cols)) bytes += part.bytes();
  return bytes;
}

double WeightFormat::bits_per_weight(std::int64_t rows, std::int64_t cols) const {
  return 8.0 * static_cast<double>(packed_bytes(rows, cols)) / (static_cast<double>(rows) * static_cast<double>(cols));
}

PackedWeight WeightFormat::allocate(std::string name, std::int64_t rows, std::int64_t cols, Device& device) const {
  const auto specs = layout(rows, cols);
  std::int64_t total = 0;
  for (const auto& spec : specs) total += aligned(spec.bytes());
  const auto buffer = std::make_shared<const Buffer>(device.allocate(total));
  PackedWeight out{std::move(name), rows, cols, {}, buffer, {}};
  std::int64_t offset = 0;
  for (const auto& spec : specs) {
    out.parts.push_back(spec.at(buffer->data() + offset));
    out.parts.back().device = buffer->device();
    offset += aligned(spec.bytes());
  }
  return out;
}

PackedWeight upload(const PackedWeight& w, Device& device) {
  const auto bytes_in = [](const TensorRef& part) { return part.size() * bytes_of(part.dtype); };
  std::int64_t total = 0;
  for (const TensorRef& part : w.parts) total += aligned(bytes_in(part));
  const auto buffer = std::make_shared<const Buffer>(device.allocate(total));
  PackedWeight out{w.name, w.rows, w.cols, {}, buffer, {}};
  std::int64_t offset = 0;
  for (const TensorRef& part : w.parts) {
    TensorRef there = part;
    there.data = buffer->data() + offset;
    there.device = buffer->device();
    const auto as_bytes = [&](const TensorRef& tensor) {
      TensorRef bytes = tensor;
      bytes.dtype = DType::u8;
      return bytes.reshaped({bytes_in(tensor)});
    };
    device.copy(as_bytes(part), as_bytes(there));
    out.parts.push_back(there);
    offset += aligned(bytes_in(part));
  }
  return out;
}

namespace {

/// All of w in the type that the device computes in.
std::unique_ptr<LinearKernel> decode_and_upload(const WeightFormat& format, const PackedWeight& w, Ops& ops) {
  Device& device = ops.device();
  const auto buffer = std::make_shared<const Buffer>(device.allocate(w.rows * w.cols * bytes_of(device.activations())));
  const TensorRef all = buffer->tensor(device.activations(), {w.rows, w.cols});
  constexpr std::int64_t kRows = 256;  // at a time
  std::vector<float> values(static_cast<std::size_t>(kRows * w.cols));
  for (std::int64_t first = 0; first < w.rows; first += kRows) {
    const View<float, 2> rows(values.data(), {std::min(kRows, w.rows - first), w.cols});
    format.decode(w, first, rows);
    write_rows(rows, all.rows(first, first + rows.shape[0]), device);
  }
  const std::string how = ":decoded to " + std::string(name_of(all.dtype)) + "/";
  return std::make_unique<MultiplyAsStored>(format.label(), how, PackedWeight{w.name, w.rows, w.cols, {all}, buffer, {}}, all, ops);
}

}  // namespace

std::unique_ptr<LinearKernel> decode_then_multiply(const WeightFormat& format, const PackedWeight& w, Ops& ops) {
  if (!ops.device().is_host()) return decode_and_upload(format, w, ops);
  return std::make_unique<DecodeThenMultiply>(format, w, ops);
}

std::unique_ptr<LinearKernel> decode_then_multiply(const WeightFormat& format, const PackedWeight& w, Ops& ops, const RowRounding& how) {
  return std::make_unique<DecodeThenMultiply>(format, w, ops, how);
}

std::unique_ptr<LinearKernel> multiply_as_stored(std::string label, const PackedWeight& w, TensorRef part, Ops& ops) {
  return std::make_unique<MultiplyAsStored>(std::move(label), ":direct/", w, part, ops);
}

std::unique_ptr<LinearKernel> integer_kernel(std::string label, const AffineSource& source, Ops& ops) {
  return std::make_unique<IntegerProducts>(std::move(label), source, ops);
}

}  // namespace patchbay

// The input of matrix products, rounded once per reset however many products read it.
#include "patchbay/activation.h"

#include <algorithm>

namespace patchbay {

void Activation::reset(TensorRef x) {
  // Refused here rather than in a kernel.
  const bool numbers = x.dtype == DType::f32 || x.dtype == DType::f16 || x.dtype == DType::bf16;
  if (x.rank != 2 || !numbers || (x.device == 0 && x.dtype != DType::f32)) x.as<const float, 2>();
  input_ = x;
  quantized_ = rounded_ = false;
  for (Form& form : forms_) form.made = false;
}

const Q8Rows& Activation::q8() {
  if (mode_ != ActivationMode::q8) throw Error("activation", "the 8-bit form is asked for in a run with activations: fp32");
  if (quantized_) return q8_;
  q8_.rows = rows();
  q8_.cols = cols();
  q8_.blocks = (q8_.cols + Q8Rows::kBlock - 1) / Q8Rows::kBlock;
  codes_.resize(q8_.rows * q8_.blocks * Q8Rows::kBlock);
  scales_.resize(q8_.rows * q8_.blocks);
  sums_.resize(q8_.rows * q8_.blocks);
  ops_.host().quantize_q8(input_, codes_.data(), scales_.data(), sums_.data());
  q8_.codes = codes_.data();
  q8_.scales = scales_.data();
  q8_.sums = sums_.data();
  quantized_ = true;
  return q8_;
}

TensorRef Activation::values() {
  if (mode_ == ActivationMode::fp32) return input_;
  const Q8Rows& rounded = q8();
  if (!rounded_) {
    values_.resize(rounded.rows * rounded.cols);
    for (std::int64_t t = 0; t < rounded.rows; ++t) {
      for (std::int64_t c = 0; c < rounded.cols; ++c) {
        values_[t * rounded.cols + c] = rounded.scales[t * rounded.blocks + c / Q8Rows::kBlock] *
                                        static_cast<float>(rounded.codes[t * rounded.blocks * Q8Rows::kBlock + c]);
      }
    }
    rounded_ = true;
  }
  return View<const float, 2>(values_.data(), {rounded.rows, rounded.cols});
}

std::byte* Activation::form(std::string_view name, std::int64_t bytes, FunctionRef<void(TensorRef x, std::byte* out)> make) {
  auto form = std::find_if(forms_.begin(), forms_.end(), [&](const Form& each) { return each.name == name; });
  if (form == forms_.end()) form = forms_.insert(form, Form{std::string(name), {}, false});
  if (form->made) return form->memory.data();
  if (form->memory.size() < bytes) form->memory = ops_.device().allocate(bytes);
  make(input_, form->memory.data());
  form->made = true;
  return form->memory.data();
}

}  // namespace patchbay

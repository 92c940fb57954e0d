// Layer 0: errors and tensors.
#include "patchbay/error.h"
#include "patchbay/tensor.h"

namespace patchbay {
namespace {

std::string sentence(const std::string& where, const std::string& problem, const std::string& allowed, const std::string& remedy) {
  std::string text = where;
  if (!where.empty()) text += ": ";
  text += problem;
  if (!allowed.empty()) text += "; allowed: " + allowed;
  if (!remedy.empty()) text += "; " + remedy;
  return text;
}

}  // namespace

Error::Error(std::string where, std::string problem, std::string allowed, std::string remedy)
    : std::runtime_error(sentence(where, problem, allowed, remedy)),
      where_(std::move(where)), problem_(std::move(problem)), allowed_(std::move(allowed)), remedy_(std::move(remedy)) {}
Error::~Error() = default;

Error Error::at(const std::string& place) const {
  return {where_.empty() ? place : place + ": " + where_, problem_, allowed_, remedy_};
}

std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::i8: return "i8";
    case DType::u8: return "u8";
    case DType::i32: return "i32";
    case DType::f8_e4m3: return "f8_e4m3";
    case DType::f8_e5m2: return "f8_e5m2";
  }
  return "unknown";
}

void TensorRef::fail(DType wanted, int wanted_rank) const {
  throw Error("tensor", std::string(name_of(dtype)) + " of rank " + std::to_string(rank) + " where " +
                            std::string(name_of(wanted)) + " of rank " + std::to_string(wanted_rank) + " is expected");
}

}  // namespace patchbay

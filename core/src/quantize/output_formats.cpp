#include "quantize/output_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "layouts/folder_layout.h"
#include "patchbay/integer_codes.h"

namespace patchbay {
namespace {

constexpr const char* kFolderFormats = "int_grouped of 2, 3, 4 or 8 bits, fp8 of variant e4m3, w8a8";
constexpr const char* kExperimentsOnly = "take another format: this one runs in an experiment only (patchbay run)";

std::string gguf_formats() {
  std::set<std::string> names;
  for (std::uint32_t code = 0; const TensorType* type = find_tensor_type(code); ++code)
    if (!type->format.empty()) names.insert(std::string(type->format));
  return fmt::format("{}, and mixes of these such as q4_k_m", fmt::join(names, ", "));
}

bool folder_holds(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  if (const auto* integers = dynamic_cast<const HoldsIntegerCodes*>(&format)) return std::ranges::count(kLayoutBits, integers->code_bits()) > 0;
  return compressed_tensors_take(format, rows, cols);
}

[[noreturn]] void refuse(const OutputFormat& output, const char* problem, std::string allowed, std::string remedy) {
  const std::string mix = output.mix.empty() ? "" : ", which " + output.mix + " chooses here";
  throw Error(output.where, problem + output.format.label() + mix, std::move(allowed), std::move(remedy));
}

}  // namespace

const TensorType* gguf_type_of(const WeightFormat& format) {
  for (std::uint32_t code = 0; const TensorType* type = find_tensor_type(code); ++code)
    if (type->format == format.label() && type->bytes > 0) return type;  // integers come after the float type of their name
  return nullptr;
}

void require_gguf_holds(const OutputFormat& output, std::int64_t rows, std::int64_t cols) {
  if (gguf_type_of(output.format)) return;
  refuse(output, "GGUF has no type for format ", gguf_formats(), folder_holds(output.format, rows, cols) ? "take another format, or write a folder: OUT without .gguf" : kExperimentsOnly);
}

void require_folder_holds(const OutputFormat& output, std::int64_t rows, std::int64_t cols) {
  const WeightFormat& format = output.format;
  if (folder_holds(format, rows, cols)) return;
  std::string remedy = kExperimentsOnly;
  if (gguf_type_of(format)) remedy = "call OUT NAME.gguf, or take a format that folders have";
  else if (format.layout(rows, cols).at(0).dtype == DType::f8_e5m2) remedy = "format.variant=e4m3; e5m2 runs in an experiment only (patchbay run)";
  else if (dynamic_cast<const HoldsIntegerCodes*>(&format)) remedy = "format.bits=2, 3, 4 or 8; others run in an experiment only (patchbay run)";
  refuse(output, "no layout of a folder takes format ", kFolderFormats, remedy);
}

}  // namespace patchbay

#include "gguf_types.h"

#include <array>

namespace patchbay {
namespace {

// Codes, names and sizes as published with GGUF (ggml's list of types). A block holds its scales beside its codes.
// Integers and F64 are read as fp32 (engine/plain_numbers.h).
constexpr TensorType kTensorTypes[] = {
    {0, "F32", 1, 4, "fp32"},    {1, "F16", 1, 2, "fp16"},     {2, "Q4_0", 32, 18, "q4_0"}, {3, "Q4_1", 32, 20, "q4_1"},
    {4, "Q4_2"},                 {5, "Q4_3"},                  {6, "Q5_0", 32, 22, "q5_0"}, {7, "Q5_1", 32, 24, "q5_1"},
    {8, "Q8_0", 32, 34, "q8_0"}, {9, "Q8_1", 32, 36, ""},      {10, "Q2_K", 256, 84, "q2_k"},   {11, "Q3_K", 256, 110, "q3_k"},
    {12, "Q4_K", 256, 144, "q4_k"},  {13, "Q5_K", 256, 176, "q5_k"},   {14, "Q6_K", 256, 210, "q6_k"},  {15, "Q8_K", 256, 292, "q8_k"},
    {16, "IQ2_XXS", 256, 66, ""}, {17, "IQ2_XS", 256, 74, ""}, {18, "IQ3_XXS", 256, 98, ""}, {19, "IQ1_S", 256, 50, ""},
    {20, "IQ4_NL", 32, 18, "iq4_nl"},  {21, "IQ3_S", 256, 110, ""},  {22, "IQ2_S", 256, 82, ""},  {23, "IQ4_XS", 256, 136, "iq4_xs"},
    {24, "I8", 1, 1, "fp32"},        {25, "I16", 1, 2, "fp32"},        {26, "I32", 1, 4, "fp32"},       {27, "I64", 1, 8, "fp32"},
    {28, "F64", 1, 8, "fp32"},       {29, "IQ1_M", 256, 56, ""},   {30, "BF16", 1, 2, "bf16"},  {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},            {33, "Q4_0_8_8"},             {34, "TQ1_0", 256, 54, ""},  {35, "TQ2_0", 256, 66, ""},
    {36, "IQ4_NL_4_4"},          {37, "IQ4_NL_4_8"},           {38, "IQ4_NL_8_8"},          {39, "MXFP4", 32, 17, ""},
    {40, "NVFP4", 64, 36, ""},   {41, "Q1_0", 128, 18, ""},
};

constexpr bool in_order() {
  std::uint32_t code = 0;
  for (const TensorType& type : kTensorTypes) if (type.code != code++) return false;
  return true;
}
static_assert(in_order(), "a type is found by its code as index");

constexpr std::array<std::string_view, 13> kMetaTypes = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                         "bool", "string", "array", "u64", "i64", "f64"};

}  // namespace

const TensorType* find_tensor_type(std::uint32_t code) { return code < std::size(kTensorTypes) ? &kTensorTypes[code] : nullptr; }

const TensorType* find_tensor_type(std::string_view name) {
  for (const TensorType& type : kTensorTypes) if (type.name == name) return &type;
  return nullptr;
}

std::string computed_types() {
  std::string names;
  for (const TensorType& type : kTensorTypes) {
    if (!type.format.empty()) names += (names.empty() ? "" : ", ") + std::string(type.name);
  }
  return names;
}

std::string_view meta_type_name(std::uint32_t code) { return code < kMetaTypes.size() ? kMetaTypes[code] : std::string_view(); }

}  // namespace patchbay

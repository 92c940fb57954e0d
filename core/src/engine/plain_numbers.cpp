#include "engine/plain_numbers.h"

#include <cstring>

namespace patchbay {
namespace {

template <class T>
void read(const std::byte* from, View<float, 1> out) {
  for (std::int64_t i = 0; i < out.shape[0]; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<std::int64_t>(sizeof value), sizeof value);
    out[i] = static_cast<float>(value);
  }
}

struct PlainType {
  std::string_view name;
  std::int64_t bytes;
  void (*read)(const std::byte* from, View<float, 1> out);
};
constexpr PlainType kPlainTypes[] = {{"I8", 1, read<std::int8_t>},   {"I16", 2, read<std::int16_t>}, {"I32", 4, read<std::int32_t>},
                                     {"I64", 8, read<std::int64_t>}, {"F64", 8, read<double>}};

const PlainType* find(const FileTensor& tensor) {
  for (const PlainType& type : kPlainTypes) if (type.name == tensor.type_name) return &type;
  return nullptr;
}

}  // namespace

bool holds_plain_numbers(const FileTensor& tensor) { return find(tensor) != nullptr; }

void read_plain_numbers(const FileTensor& tensor, std::int64_t first, View<float, 1> out) {
  const PlainType* type = find(tensor);
  if (!type) throw Error("tensor " + std::string(tensor.name), "is of type " + std::string(tensor.type_name), "I8, I16, I32, I64, F64");
  type->read(tensor.data + first * type->bytes, out);
}

}  // namespace patchbay

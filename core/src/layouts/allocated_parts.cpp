#include "layouts/allocated_parts.h"

namespace patchbay {

PackedWeight allocated_parts(const WeightFormat& format, const std::string& name, std::int64_t rows, std::int64_t cols) {
  PackedWeight w;
  w.name = name;
  w.rows = rows;
  w.cols = cols;
  const std::vector<PartSpec> layout = format.layout(rows, cols);
  const auto aligned = [](std::int64_t size) { return (size + 63) / 64 * 64; };
  std::int64_t bytes = 0;
  for (const PartSpec& part : layout) bytes += aligned(part.bytes());
  const auto storage = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(bytes));
  std::byte* next = storage->data();
  for (const PartSpec& part : layout) {
    w.parts.push_back(part.at(next));
    next += aligned(part.bytes());
  }
  w.storage = storage;
  return w;
}

}  // namespace patchbay

// For tests of KV formats of one byte per value: a row of one value, there and back.
#pragma once
#include <cstddef>

#include "patchbay/half.h"
#include "patchbay/kv_store.h"

namespace patchbay::test {

inline unsigned stored(const KvFormat& format, float value) {
  std::byte byte{};
  format.encode(View<const float, 1>(&value, {1}), &byte, nullptr);
  return std::to_integer<unsigned>(byte);
}
inline float read(const KvFormat& format, unsigned pattern) {
  const std::byte byte{static_cast<unsigned char>(pattern)};
  float value = 0;
  format.decode(&byte, Half{}, View<float, 1>(&value, {1}));
  return value;
}

}  // namespace patchbay::test

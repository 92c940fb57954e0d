#include "device_rows.h"

#include "patchbay/half.h"

namespace patchbay {
namespace {

/// A dense tensor of the host over memory of 16-bit numbers.
TensorRef host_bits(std::vector<std::uint16_t>& bits, const TensorRef& like) {
  bits.resize(static_cast<std::size_t>(like.size()));
  TensorRef tensor = like;
  tensor.data = bits.data();
  tensor.device = 0;
  return tensor.reshaped({like.shape[0], like.shape[1]});
}

}  // namespace

void write_rows(View<const float, 2> from, TensorRef to, Device& device) {
  if (to.dtype == DType::f32) return device.copy(from, to);
  std::vector<std::uint16_t> bits;
  const TensorRef rounded = host_bits(bits, to);
  std::size_t at = 0;
  for (std::int64_t t = 0; t < from.shape[0]; ++t) {
    for (std::int64_t c = 0; c < from.shape[1]; ++c) {
      bits[at++] = to.dtype == DType::f16 ? to_half(from(t, c)).bits : to_bfloat16(from(t, c)).bits;
    }
  }
  device.copy(rounded, to);
}

View<float, 2> read_rows(TensorRef from, std::vector<float>& room, Device& device) {
  if (from.device == 0 && from.dtype == DType::f32) return from.as<float, 2>();
  room.resize(static_cast<std::size_t>(from.size()));
  const View<float, 2> values(room.data(), {from.shape[0], from.shape[1]});
  if (from.dtype == DType::f32) {
    device.copy(from, values);
    return values;
  }
  std::vector<std::uint16_t> bits;
  device.copy(from, host_bits(bits, from));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    room[i] = from.dtype == DType::f16 ? to_float(Half{bits[i]}) : to_float(BFloat16{bits[i]});
  }
  return values;
}

Buffer upload_values(View<const float, 2> values, DType type, Device& device) {
  Buffer buffer = device.allocate(values.size() * bytes_of(type));
  write_rows(values, buffer.tensor(type, {values.shape[0], values.shape[1]}), device);
  return buffer;
}

TensorRef on_device(TensorRef values, Buffer& room, Device& device) {
  if (device.is_host()) return values;
  const std::int64_t bytes = values.size() * bytes_of(values.dtype);
  if (room.size() < bytes) room = device.allocate(bytes);
  const TensorRef there = room.tensor(values.dtype, {values.size()});
  device.copy(values, there);
  return there;
}

}  // namespace patchbay

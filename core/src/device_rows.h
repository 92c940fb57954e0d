/// @file device_rows.h
/// Rows of floats between the host and a device, whatever number type the device keeps them in.
#pragma once
#include <vector>

#include "patchbay/backend.h"

namespace patchbay {

/// Stores from(T,C) in `to`, which has that shape and is f32, f16 or bf16, on `device` or the host.
PATCHBAY_API void write_rows(View<const float, 2> from, TensorRef to, Device& device);
/// (T,C) as floats of the host: the tensor's own memory where it is that, else a copy in `room`. Waits for the device.
PATCHBAY_API View<float, 2> read_rows(TensorRef from, std::vector<float>& room, Device& device);
/// A copy on the device of `values`, in one of those types.
PATCHBAY_API Buffer upload_values(View<const float, 2> values, DType type, Device& device);
/// Numbers of the host where the device's operations can read them: in place on the host, else in `room`, which grows.
PATCHBAY_API TensorRef on_device(TensorRef values, Buffer& room, Device& device);

}  // namespace patchbay

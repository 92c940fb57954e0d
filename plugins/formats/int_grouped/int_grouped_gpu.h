// What int_grouped's launchers on a GPU take.
#pragma once
#include "patchbay/gpu/host.h"
#include "patchbay/gpu/matmul.h"

namespace patchbay {

struct IntGroupedArgs {
  MatmulArgs product;  // parts: codes, scales, and zeros or null (symmetric)
  int bits = 4;
  int group_size = 64;
};

/// out(T,C) = x(T,C)[:, order], all on the device; numbers of 16 bits.
struct GatherArgs {
  const void* x = nullptr;
  const std::int32_t* order = nullptr;
  void* out = nullptr;
  int tokens = 0, cols = 0;
};

}  // namespace patchbay

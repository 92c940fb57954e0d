// What int_grouped's launcher on a GPU takes.
#pragma once
#include "patchbay/gpu/matmul.h"

namespace patchbay {

struct IntGroupedArgs {
  MatmulArgs product;  // parts: codes, scales, and zeros or null (symmetric)
  int bits = 4;
  int group_size = 64;
};

}  // namespace patchbay

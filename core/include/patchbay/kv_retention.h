/// @file kv_retention.h
/// Interface of a retention policy: which cached tokens stay.
#pragma once
#include <cstdint>
#include <vector>

#include "patchbay/kv_store.h"

namespace patchbay {

class PATCHBAY_API KvRetention {
 public:
  virtual ~KvRetention();
  /// Slots of `seq` (ascending, of `length` committed tokens) to drop after a step; empty: all stay.
  virtual std::vector<std::int32_t> victims(SeqId seq, std::int64_t length) = 0;
};

}  // namespace patchbay

/// @file kv_prefix.h
/// Interface of prefix reuse: which finished work a new sequence may begin with.
#pragma once
#include <cstdint>
#include <span>

#include "patchbay/kv_store.h"

namespace patchbay {

/// A finished sequence whose first `tokens` tokens equal the new one's. tokens == 0: nothing to reuse.
struct PrefixMatch {
  SeqId donor = -1;
  std::int64_t tokens = 0;  ///< always fewer than the prompt's, so that there is a row to compute logits from
};

class PATCHBAY_API KvPrefix {
 public:
  virtual ~KvPrefix();
  virtual PrefixMatch match(std::span<const std::int32_t> tokens) = 0;
  /// Offers a finished sequence. True: the policy keeps it and the caller must not close it.
  virtual bool donate(SeqId seq, std::span<const std::int32_t> tokens) = 0;
};

}  // namespace patchbay

// Prefix reuse that reuses nothing: every prompt is computed in full, the baseline of its kind.
#include "patchbay/kv_prefix.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class NoReuse final : public KvPrefix {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit NoReuse(const Params&) {}
  PrefixMatch match(std::span<const std::int32_t>) override { return {}; }
  bool donate(SeqId, std::span<const std::int32_t>) override { return false; }
};

}  // namespace

PATCHBAY_PLUGIN(KvPrefix, NoReuse, "none", "every prompt is computed from its first token", "")

}  // namespace patchbay

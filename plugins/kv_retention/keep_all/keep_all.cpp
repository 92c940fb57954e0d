// Retention that drops nothing: exact attention over the whole text, the baseline of its kind.
#include "patchbay/kv_retention.h"
#include "patchbay/plugin.h"

namespace patchbay {
namespace {

class KeepAll final : public KvRetention {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit KeepAll(const Params&) {}
  std::vector<std::int32_t> victims(SeqId, std::int64_t) override { return {}; }
};

}  // namespace

PATCHBAY_PLUGIN(KvRetention, KeepAll, "keep_all", "every cached token stays", "")

}  // namespace patchbay

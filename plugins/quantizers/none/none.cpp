// The quantizer that changes nothing: every weight stays as the model file stores it.
#include "patchbay/plugin.h"
#include "patchbay/quantizer.h"

namespace patchbay {
namespace {

class None final : public Quantizer {
 public:
  struct Params {
    void visit(Fields&) {}
  };
  explicit None(const Params&) {}

  bool keeps_stored() const override { return true; }
  void quantize(View<const float, 2>, const Statistics&, const WeightFormat&, Device&, PackedWeight& out) const override {
    throw Error("none", "asked to choose codes for " + out.name, "weights as stored", "use quantizer rtn to write another format");
  }
};

}  // namespace

PATCHBAY_PLUGIN(Quantizer, None, "none", "leaves every weight as the model file stores it", "")

}  // namespace patchbay

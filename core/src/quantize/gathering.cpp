// A matrix's kernel is where its input comes by, whatever part of whatever architecture the matrix is: for the time of one pass, a kernel
// that looks stands in its place. Matrices that read one input have one such. Products that nothing of the pass reads are left out.
#include "quantize/gathering.h"

#include <utility>
#include <vector>

namespace patchbay {
namespace {

/// Shows the input to statistics; then `inner` multiplies, if there is one.
class ObservingKernel final : public LinearKernel {
 public:
  ObservingKernel(InputStatistics* statistics, LinearKernel* inner) : statistics_(statistics), inner_(inner) {}
  void run(Activation& x, TensorRef y) override {
    if (statistics_) statistics_->add(x.values().as<const float, 2>());
    if (inner_) inner_->run(x, y);
  }
  std::string path() const override { return "observing"; }

 private:
  InputStatistics* statistics_;
  LinearKernel* inner_;
};

/// Puts observers in place of kernels, and these back again.
class Observers {
 public:
  Observers() = default;
  ~Observers() {
    for (auto& [linear, kernel] : kept_) linear->kernel = std::move(kernel);
  }
  Observers(const Observers&) = delete;
  Observers& operator=(const Observers&) = delete;
  void put(Linear& linear, InputStatistics* statistics, bool multiplies) {
    kept_.emplace_back(&linear, std::move(linear.kernel));
    linear.kernel = std::make_unique<ObservingKernel>(statistics, multiplies ? kept_.back().second.get() : nullptr);
  }

 private:
  std::vector<std::pair<Linear*, std::unique_ptr<LinearKernel>>> kept_;
};

}  // namespace

void gather(EditableBlock& block, SampleRunner& samples, const Gathering& wanted, Ops& ops) {
  const BlockStage last_stage = wanted.stage.value_or(BlockStage::ffn_out);
  {
    Observers observers;
    for (LayerInput& input : block.inputs()) {
      const bool looked_at = !wanted.stage || input.stage == *wanted.stage;
      const Needs needs = wanted.needs.any() ? wanted.needs : input.needs();
      if (looked_at && needs.any()) input.gathered = std::make_unique<InputStatistics>(input.readers.front()->stored.cols, needs, ops);
      for (BlockMatrix* reader : input.readers) {
        const bool observes = input.gathered && looked_at && reader == input.readers.front();
        const bool multiplies = input.stage < last_stage || reader->linear == &block.weights().router;  // which experts run hangs on the router
        if (observes || !multiplies) observers.put(*reader->linear, observes ? input.gathered.get() : nullptr, multiplies);
      }
    }
    samples.run(wanted.layer, wanted.first, wanted.last, false);
  }
  for (LayerInput& input : block.inputs())
    if (input.gathered && (!wanted.stage || input.stage == *wanted.stage)) input.statistics = input.gathered->result();
}

}  // namespace patchbay

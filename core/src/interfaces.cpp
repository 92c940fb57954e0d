// The destructors of every interface live here, so that core alone owns their type information.
#include <sched.h>

#include <thread>

#include "patchbay/attention.h"
#include "patchbay/backend.h"
#include "patchbay/decoder.h"
#include "patchbay/drafter.h"
#include "patchbay/integer_codes.h"
#include "patchbay/kv_prefix.h"
#include "patchbay/kv_retention.h"
#include "patchbay/kv_store.h"
#include "patchbay/model_runner.h"
#include "patchbay/params.h"
#include "patchbay/processor.h"
#include "patchbay/quantizer.h"
#include "patchbay/transform.h"
#include "patchbay/weight_format.h"

namespace patchbay {

int allowed_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  const unsigned cores = std::thread::hardware_concurrency();  // more than cpu_set_t holds
  return cores == 0 ? 1 : static_cast<int>(cores);
}

Graph::~Graph() = default;
Device::~Device() = default;
HostProducts::~HostProducts() = default;
Ops::~Ops() = default;
AffineWeight::~AffineWeight() = default;
Backend::~Backend() = default;
Grid::~Grid() = default;
LinearKernel::~LinearKernel() = default;
WeightFormat::~WeightFormat() = default;
HoldsIntegerCodes::~HoldsIntegerCodes() = default;
Quantizer::~Quantizer() = default;
Rotation::~Rotation() = default;
Transform::~Transform() = default;
KvFormat::~KvFormat() = default;
KvStore::~KvStore() = default;
KvRetention::~KvRetention() = default;
KvPrefix::~KvPrefix() = default;
Attention::~Attention() = default;
Probe::~Probe() = default;
ModelRunner::~ModelRunner() = default;
Decoder::~Decoder() = default;
Drafter::~Drafter() = default;
LogitsProcessor::~LogitsProcessor() = default;
Fields::~Fields() = default;

std::unique_ptr<Graph> Device::capture(FunctionRef<void()> body) {
  body();
  return nullptr;
}

// Faults of the engine, but for prepare(): what runs on which device is settled before the first step.
HostProducts& Ops::host() { throw Error("operations " + std::string(kernel()), "a GPU multiplies no weights of the host"); }
void Ops::write_kv(TensorRef, TensorRef, const GpuStep&, int) {
  throw Error("operations " + std::string(kernel()), "the host's caches are written by their stores");
}
void Ops::sample(TensorRef, const SamplingRows&, TensorRef) {
  throw Error("operations " + std::string(kernel()), "on the host decoders choose tokens");
}
void LinearKernel::take_rows(TensorRef, TensorRef) { throw Error(path(), "it takes no rows: the host decodes them"); }
Step ModelRunner::forward_and_draw(std::span<const TokenRow>, std::span<const TokenDraw>) {
  throw Error("model runner", "it gives logits and draws no tokens");
}
Accepted Decoder::accept_chosen(Sequence&, const Draft&, std::span<const Token>) {
  throw Error("decoder", "it chooses from logits alone");
}
KvSlabs KvStore::slabs(SeqId) {
  throw Error("kv_store", "this store's tokens do not lie in slabs, which the kernels of a GPU need", "contiguous, paged",
              "take one of these, or device cpu");
}
void Attention::prepare(Device& device) {
  if (!device.is_host()) throw Error("attention", "it has no kernel for a GPU", "device cpu");
}
void Attention::run_on_gpu(const AttentionSpec&, const GpuStep&, int, TensorRef, TensorRef, Device&) {
  throw Error("attention", "it has no kernel for a GPU");
}

std::shared_ptr<WeightFormat> WeightFormat::for_tensor(const TensorFacts&) const { return nullptr; }
std::shared_ptr<WeightFormat> WeightFormat::fitted_to(View<const float, 2>, const Statistics&) const { return nullptr; }
bool WeightFormat::store_column_order(View<const std::int32_t, 1>, PackedWeight&) const { return false; }
std::string Transform::apply(LinearGroup&, Device&) const { return {}; }
std::shared_ptr<const Rotation> Transform::residual_rotation(std::int64_t) const { return nullptr; }
std::shared_ptr<const Rotation> Transform::value_rotation(std::int64_t) const { return nullptr; }

std::vector<Draft> Decoder::propose(std::span<Sequence* const> sequences, ModelRunner&) {
  return std::vector<Draft>(sequences.size());
}

}  // namespace patchbay

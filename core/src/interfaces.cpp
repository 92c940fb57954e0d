// The destructors of every interface live here, so that core alone owns their type information.
#include "patchbay/attention.h"
#include "patchbay/backend.h"
#include "patchbay/decoder.h"
#include "patchbay/drafter.h"
#include "patchbay/kv_prefix.h"
#include "patchbay/kv_retention.h"
#include "patchbay/kv_store.h"
#include "patchbay/model_runner.h"
#include "patchbay/params.h"
#include "patchbay/processor.h"
#include "patchbay/quantizer.h"
#include "patchbay/weight_format.h"

namespace patchbay {

Device::~Device() = default;
Ops::~Ops() = default;
AffineWeight::~AffineWeight() = default;
Backend::~Backend() = default;
Grid::~Grid() = default;
LinearKernel::~LinearKernel() = default;
WeightFormat::~WeightFormat() = default;
Quantizer::~Quantizer() = default;
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

std::vector<Draft> Decoder::propose(std::span<Sequence* const> sequences, ModelRunner&) {
  return std::vector<Draft>(sequences.size());
}

}  // namespace patchbay

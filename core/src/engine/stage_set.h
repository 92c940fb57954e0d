/// @file stage_set.h
/// Which layers of a session run where, and with what: one stage, or the first layers on the host and the last on a GPU.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/split_store.h"
#include "engine/stage.h"
#include "run_config.h"

namespace patchbay {

class PATCHBAY_API StageSet {
 public:
  /// Makes backends, attention and stores. @throws Error for a device that is not at hand or lacks a kernel.
  StageSet(const ModelSpec& spec, const RunConfig& config);
  /// Reserves the caches.
  void configure(const ModelSpec& spec, std::int64_t max_tokens, int max_sequences);

  Backend& backend() { return *backend_; }
  Backend& host() { return *host_; }
  const Placement& placement() const { return placement_; }
  const std::vector<StageParts>& parts() const { return parts_; }
  KvStore& store() const { return split_ ? *split_ : *stores_.front(); }
  /// What runs, for the record: one entry per stage where there are two.
  std::string attention_path() const;
  std::string operations_path() const;
  /// "q8" or "fp32" on the host, what a GPU computes in: "f16".
  std::string activations(ActivationMode mode) const;

 private:
  void add_stage(const RunConfig& config, Backend& backend, int first, int count);

  std::shared_ptr<Backend> backend_, host_;  ///< host: what decodes and quantises weights; the backend itself where it is the host's
  Placement placement_;
  std::vector<std::shared_ptr<Attention>> attentions_;
  std::vector<std::shared_ptr<KvStore>> stores_;
  std::vector<StageParts> parts_;
  std::unique_ptr<SplitStore> split_;
};

}  // namespace patchbay

// Host memory and threads as a Device.
#pragma once
#include "patchbay/backend.h"
#include "thread_pool.h"

namespace patchbay::cpu {

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int threads) : pool_(threads) {}
  Buffer allocate(std::int64_t bytes) override;
  void copy(TensorRef from, TensorRef to) override;
  int concurrency() const override { return pool_.size(); }
  void parallel_for(std::int64_t n, std::int64_t grain,
                    FunctionRef<void(std::int64_t begin, std::int64_t end, int worker)> body) override {
    pool_.parallel_for(n, grain, body);
  }

 private:
  ThreadPool pool_;
};

}  // namespace patchbay::cpu

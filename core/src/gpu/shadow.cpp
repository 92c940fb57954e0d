#include "gpu/shadow.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "patchbay/error.h"

namespace patchbay::gpu::emulator {

Shadow::Shadow(std::size_t bytes) {
  const std::size_t words = (bytes + kWord - 1) / kWord;
  mapped_ = words * (1 + kWord) * sizeof(ShadowCell);
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error("emulator", "no memory for the shadow of " + std::to_string(bytes) + " bytes");
  words_ = static_cast<ShadowCell*>(memory);
  bytes_ = words_ + words;
}
Shadow::~Shadow() { munmap(words_, mapped_); }

void Shadow::split(std::size_t first) {
  ShadowCell& word = words_[first / kWord];
  std::fill_n(bytes_ + first, kWord, word);
  word.write = Stamp(kSplit, 0, 0, 0, false, false);
}
void Shadow::unite(std::size_t first) {
  const ShadowCell* cells = bytes_ + first;
  if (cells[0] == cells[1] && cells[0] == cells[2] && cells[0] == cells[3]) words_[first / kWord] = cells[0];
}

}  // namespace patchbay::gpu::emulator

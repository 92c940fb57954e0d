/// @file shadow.h
/// Who touched each byte last.
#pragma once
#include <cstddef>
#include <cstdint>

namespace patchbay::gpu::emulator {

/// A thread and its clock, its block by epoch, and where in the code (relative to the kernel: one module). Blocks count on from launch to
/// launch, so that what lies here from earlier is recognised as old and is never cleared.
class Stamp {
 public:
  Stamp() = default;
  Stamp(const Stamp&) = default;
  /// By fields: a stamp that was just made is in registers, and read back from memory in larger pieces it would have to wait for its stores.
  Stamp& operator=(const Stamp& other) {
    epoch_ = other.epoch_, code_ = other.code_, who_ = other.who_;
    return *this;
  }
  /// pending: an async copy that was not waited for.
  Stamp(std::uint32_t epoch, std::int32_t code, unsigned rank, std::uint32_t clock, bool atomic, bool pending)
      : epoch_(epoch), code_(code), who_((rank & kRank) | (clock & kClock) << 10 | std::uint32_t{atomic} << 30 | std::uint32_t{pending} << 31) {}
  std::uint32_t epoch() const { return epoch_; }
  std::int32_t code() const { return code_; }
  unsigned rank() const { return who_ & kRank; }
  std::uint32_t clock() const { return who_ >> 10 & kClock; }
  bool atomic() const { return who_ >> 30 & 1; }
  bool pending() const { return who_ >> 31; }
  bool same_thread(const Stamp& other) const { return epoch_ == other.epoch_ && ((who_ ^ other.who_) & kRank) == 0; }
  bool operator==(const Stamp&) const = default;

 private:
  static constexpr std::uint32_t kRank = 0x3FF, kClock = 0xFFFFF;
  std::uint32_t epoch_ = 0;
  std::int32_t code_ = 0;
  std::uint32_t who_ = 0;
};
struct ShadowCell {
  Stamp write, read, earlier_read;
  bool operator==(const ShadowCell&) const = default;
};

/// The cells of a piece of memory, empty at first; pages are taken as they are used. Four bytes that are touched together have one cell;
/// where an access took only some of them, each byte has its own, until all four say the same again.
class Shadow {
 public:
  /// @throws Error when there is no memory.
  explicit Shadow(std::size_t bytes);
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;
  ~Shadow();

  /// The cell of these bytes where they have one and it has no others; else null: visit() them.
  ShadowCell* only_cell(std::size_t offset, std::size_t bytes) {
    ShadowCell& word = words_[offset / kWord];
    if (is_split(word)) return bytes == 1 ? &bytes_[offset] : nullptr;
    return bytes == kWord && offset % kWord == 0 ? &word : nullptr;
  }
  /// Calls `visit(cell)` for the cells of the bytes [offset, offset + bytes).
  template <class Visit>
  void visit(std::size_t offset, std::size_t bytes, Visit&& visit) {
    for (const std::size_t end = offset + bytes; offset < end;) {
      ShadowCell& word = words_[offset / kWord];
      const std::size_t next = offset / kWord * kWord + kWord;
      if (offset % kWord == 0 && next <= end && !is_split(word)) {
        visit(word);
        offset = next;
        continue;
      }
      if (!is_split(word)) split(next - kWord);
      for (; offset < next && offset < end; ++offset) visit(bytes_[offset]);
      unite(next - kWord);
    }
  }

 private:
  static constexpr std::size_t kWord = 4;
  /// The epoch of a word's last write where its bytes have cells of their own.
  static constexpr std::uint32_t kSplit = ~0u;
  static bool is_split(const ShadowCell& word) { return word.write.epoch() == kSplit; }
  void split(std::size_t first);
  void unite(std::size_t first);

  std::size_t mapped_;
  ShadowCell *words_, *bytes_;
};

}  // namespace patchbay::gpu::emulator

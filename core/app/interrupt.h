/// @file interrupt.h
/// Ctrl-C and kill, where work in progress can stop at a good moment.
#pragma once
#include <exception>

namespace patchbay::app {

/// Thrown where the work stops.
struct Interrupted : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

/// While one lives, the first SIGINT or SIGTERM is only noted; the second ends the program as usual.
class InterruptGuard {
 public:
  /// `said`: what the first is answered with on stderr, at once; a literal.
  explicit InterruptGuard(const char* said = "");
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};
/// The signal that came, or 0.
int interrupt_signal();
/// Forgets the signal that came.
void clear_interrupt();
/// @throws Interrupted when one came.
void throw_if_interrupted();

}  // namespace patchbay::app

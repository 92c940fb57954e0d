#include "interrupt.h"

#include <csignal>
#include <initializer_list>

namespace patchbay::app {
namespace {

volatile std::sig_atomic_t received = 0;

void note_signal(int number) { received = number; }

}  // namespace

InterruptGuard::InterruptGuard() {
  struct sigaction action{}, before{};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESETHAND | SA_RESTART;  // RESTART: a write in progress is finished
  for (const int number : {SIGINT, SIGTERM})  // what is ignored (nohup, a job in the background) stays ignored
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  struct sigaction now{};
  for (const int number : {SIGINT, SIGTERM})
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == note_signal) std::signal(number, SIG_DFL);
}

int interrupt_signal() { return received; }
void clear_interrupt() { received = 0; }

void throw_if_interrupted() {
  if (received) throw Interrupted();
}

}  // namespace patchbay::app

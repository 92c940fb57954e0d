#include "interrupt.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <initializer_list>

namespace patchbay::app {
namespace {

volatile std::sig_atomic_t received = 0;
const char* volatile answer = "";

void note_signal(int number) {
  received = number;
  const char* const text = answer;
  const int kept = errno;
  if (*text && ::write(STDERR_FILENO, text, std::strlen(text)) < 0) errno = kept;  // then it goes unsaid
}

}  // namespace

InterruptGuard::InterruptGuard(const char* said) {
  answer = said;
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

// The program: reads the command line and runs what it says.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include "command_line.h"
#include "experiment/environment.h"
#include "failures.h"
#include "model_file.h"
#include "patchbay/build_id.h"
#include "patchbay/error.h"
#include "patchbay/gpu/emulator.h"
#include "usage_errors.h"

namespace patchbay::app {
namespace {

constexpr int kFailure = 1;

/// The program's build and that of the core library that it runs with: they differ in a tree that was rebuilt in part.
std::string version_text() {
  const Environment core = environment();
  return "patchbay " PATCHBAY_VERSION " (" PATCHBAY_BUILD_ID ")\ncore library " + core.version + " (" + core.build_id + "), commit " + core.commit;
}

void require_output_written() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw Error("standard output", "writing failed", "", "is the disk full?");
}

int run_command(int argc, char** argv) {
  CLI::App app("patchbay: a laboratory for LLM inference");
  Outcome outcome;
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text);
  for (const auto add_command : {add_list, add_describe, add_check, add_inspect, add_convert, add_quantize, add_tokenize, add_logits, add_generate, add_chat, add_template,
                                 add_perplexity, add_bench, add_profile, add_plan, add_run, add_calibrate, add_new, add_report, add_diff, add_bisect, add_tokens})
    add_command(app, outcome);
  if (const std::string wrong = unknown_command(app, argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "patchbay: %s\n", wrong.c_str());
    return kUsage;
  }
  try {
    app.parse(argc, argv);
    require_output_written();
    return outcome.code;
  } catch (const std::system_error&) {
    require_output_written();  // fmt's words for a failed write do not say of what
    throw;
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : usage_error(app, error);  // help and version are "errors" of code 0
  }
}

constexpr char kOutOfMemory[] = "patchbay: out of memory: a smaller model, cache or context needs less\n";  // needs none to be said

const std::terminate_handler standard_terminate = std::get_terminate();
std::atomic<bool> memory_ran_out{false};
void on_no_memory() {
  memory_ran_out = true;
  throw std::bad_alloc();
}

/// Some functions that may not throw take memory all the same (nlohmann::json's destructor, the file system library's iterators). Where that
/// fails the language ends the process: with our words, then.
[[noreturn]] void on_terminate() {
  if (!memory_ran_out) standard_terminate();
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, kOutOfMemory, sizeof kOutOfMemory - 1);
  ::_exit(kFailure);  // results are written so that this loses none
}

/// Started with a standard stream closed (`2>&-`): the next file to be opened would take its place, and what is printed would be written into it.
void hold_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDWR);  // the lowest number that is free: this one
}

int main(int argc, char** argv) {
  hold_standard_streams();
  report_shortened_models();
  std::set_new_handler(on_no_memory);
  std::set_terminate(on_terminate);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` is then an error like that of a full disk
  try {
    gpu::emulator_options();  // reads the environment: what is wrong there is no fault of an option or a file
    return run_command(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    std::fputs(kOutOfMemory, stderr);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "patchbay: %s\n", reason_of(error).c_str());
  }
  return kFailure;
}

}  // namespace
}  // namespace patchbay::app

int main(int argc, char** argv) { return patchbay::app::main(argc, argv); }

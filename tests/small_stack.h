// Work on a thread with a stack of 256 KiB, where recursion as deep as a text is long would end the process.
#pragma once
#include <pthread.h>

#include <catch2/catch.hpp>
#include <exception>
#include <functional>

namespace patchbay::test {

inline void on_small_stack(const std::function<void()>& work) {
  struct Job {
    const std::function<void()>& work;
    std::exception_ptr error;
  } job{work, nullptr};
  const auto run = [](void* argument) -> void* {
    Job& job = *static_cast<Job*>(argument);
    try {
      job.work();
    } catch (...) {
      job.error = std::current_exception();
    }
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, run, &job) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace patchbay::test

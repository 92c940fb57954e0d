/// @file limits.h
/// What a template may use up. A template is a stranger's program: each of these ends it with an error, so that none crashes or hangs.
#pragma once
#include <cstdint>
#include <string>

#include "patchbay/error.h"

namespace patchbay::jinja {

struct Limits {
  std::size_t template_bytes = 1 << 20;
  int nesting = 100;                    ///< of a template's statements and expressions in each other, and of lists and dicts in values
  int depth = 300;                      ///< of evaluation: nested expressions, statements and macro calls together
  std::size_t output_bytes = 16 << 20;  ///< of the rendered text, and of any other string
  std::int64_t work = 256 << 20;        ///< bytes of all values made, and 64 for each expression or statement that is run
};

inline constexpr std::size_t kStepUnits = 64;  ///< of Limits::work, for a statement or an expression

/// An error of the template; render() puts template and line before it.
[[noreturn]] inline void fail(std::string problem, std::string allowed = {}, std::string remedy = {}) {
  throw Error("", std::move(problem), std::move(allowed), std::move(remedy));
}

/// What is left of Limits::work and how deep the evaluation is.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits), work_left_(limits.work) {}
  const Limits& limits() const { return limits_; }
  void charge(std::size_t units) {
    work_left_ -= static_cast<std::int64_t>(units);
    if (work_left_ < 0) fail("the template does too much work", std::to_string(limits_.work) + " bytes and steps", "does a loop grow without end?");
  }
  void check_size(std::size_t bytes) const {
    if (bytes > limits_.output_bytes) fail("a text gets too long", "up to " + std::to_string(limits_.output_bytes) + " bytes");
  }
  /// While one lives, the evaluation is a level deeper.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.depth_ > budget_.limits_.depth) {
        --budget_.depth_;
        fail("expressions and macro calls go too deep", "up to " + std::to_string(budget_.limits_.depth) + " levels", "does a macro call itself without end?");
      }
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  Limits limits_;
  std::int64_t work_left_;
  int depth_ = 0;
};

}  // namespace patchbay::jinja

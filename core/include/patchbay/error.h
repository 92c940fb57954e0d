/// @file error.h
/// The one exception type of patchbay. Expected outcomes (cache full, draft rejected) are return values instead.
#pragma once
#include <stdexcept>
#include <string>

#if defined(__GNUC__)
#define PATCHBAY_API __attribute__((visibility("default")))
#else
#define PATCHBAY_API
#endif

namespace patchbay {

/// An error a person can act on: where; what is wrong; what is allowed; what to do.
/// `what()` reads "where: problem; allowed; remedy", leaving out the empty parts.
class PATCHBAY_API Error : public std::runtime_error {
 public:
  /// @param where    file and line, or key, tensor or parameter name ("awq.yaml:12: weights.format.bits")
  /// @param problem  what is wrong ("unknown parameter")
  /// @param allowed  what would be accepted ("one of 2, 3, 4, 8"); may be empty
  /// @param remedy   what the reader can do about it; may be empty
  Error(std::string where, std::string problem, std::string allowed = {}, std::string remedy = {});
  ~Error() override;

  const std::string& where() const { return where_; }
  const std::string& problem() const { return problem_; }
  const std::string& allowed() const { return allowed_; }
  const std::string& remedy() const { return remedy_; }

  /// The same error, placed: `place` is put before the present `where`, joined by ": ".
  Error at(const std::string& place) const;

 private:
  std::string where_, problem_, allowed_, remedy_;
};

}  // namespace patchbay

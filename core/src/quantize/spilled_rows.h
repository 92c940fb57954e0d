/// @file spilled_rows.h
/// Rows of floats on disk, for what is read and written from end to end and would take too much memory.
#pragma once
#include <cstdint>
#include <string>

#include "patchbay/tensor.h"

namespace patchbay {

/// A temporary file (in TMPDIR) without a name: it goes with the object or with the process, however that ends.
/// Every failure, such as a full disk, is an Error naming the folder.
class PATCHBAY_API SpilledRows {
 public:
  /// Takes the room for all rows at once, so that a disk too small is known before any work.
  SpilledRows(std::int64_t rows, std::int64_t cols);
  ~SpilledRows();
  SpilledRows(const SpilledRows&) = delete;
  SpilledRows& operator=(const SpilledRows&) = delete;

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  /// Rows [first, first + n) of x(n, cols), whose rows lie one behind the other.
  void read(std::int64_t first, View<float, 2> x) const;
  void write(std::int64_t first, View<const float, 2> x);
  /// All rows of another one of the same size.
  void copy(const SpilledRows& from);

 private:
  template <class Move> void move_all(const char* action, std::int64_t bytes, const Move& move) const;

  const std::int64_t rows_, cols_;
  const std::string folder_;
  int file_ = -1;
};

}  // namespace patchbay

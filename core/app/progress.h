/// @file progress.h
/// How far a long command is: a bar on a terminal, plain lines elsewhere.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "experiment/experiment.h"
#include "heartbeat.h"

namespace patchbay::app {

/// The time that is left, from the finished runs: until one has ended it is unknown.
class TimeLeft {
 public:
  void finished(double fraction, double seconds);
  std::optional<double> at(double fraction) const;

 private:
  double seconds_per_whole_ = 0;
};

/// "4:05", "2:04:05".
std::string clock_text(double seconds);
/// One line of at most `columns` ASCII characters: percent and time left first, then what is done, then a bar, as far as there is room.
std::string bar_line(double fraction, const std::string& what, std::optional<double> seconds_left, std::size_t columns);

/// What stands for the bar where none is drawn: "42% block 2 of 4: inputs (1:30, about 2:04 left)".
std::string plain_line(double fraction, const std::string& what, double seconds, std::optional<double> seconds_left);

/// Writes to stderr. The bar redraws itself and leaves no trace; TERM=dumb and whatever is no terminal get one line per finished run, and one after 30 s without any.
class TerminalProgress : public Progress {
 public:
  explicit TerminalProgress(bool quiet);
  ~TerminalProgress() override;
  /// As doing(), for work of one kind: the time that is left then follows from what has passed since the first second.
  void doing_evenly(double fraction, const std::string& what);

  void doing(double fraction, const std::string& what) override;
  void finished(double fraction, const std::string& line) override;
  void note(const std::string& line) override;
  void clear() const;

 private:
  double seconds() const;

  bool quiet_, terminal_;
  TimeLeft left_;
  double began_at_ = -1, began_seconds_ = 0;  ///< of what goes on evenly: the fraction, and when
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  Heartbeat heartbeat_;  ///< last: it looks at the others from its thread
};

}  // namespace patchbay::app

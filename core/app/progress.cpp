#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "common.h"

namespace patchbay::app {
namespace {

constexpr std::size_t kBarWidth = 24, kLeastWhatWidth = 12;

/// Every character that is not ASCII as one "?": the bar must not depend on the locale, nor its width on fonts.
std::string as_ascii(const std::string& text) {
  std::string out;
  for (const char letter : printable(text)) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x80) out += letter;
    else if (byte >= 0xC0) out += '?';  // the first byte of a character; the others are dropped
  }
  return out;
}

std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 3) + "...";
}

bool draws_bars() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && kind && std::string_view(kind) != "dumb";
}

}  // namespace

void TimeLeft::finished(double fraction, double seconds) {
  if (fraction > 0) seconds_per_whole_ = seconds / fraction;
}

std::optional<double> TimeLeft::at(double fraction) const {
  if (seconds_per_whole_ <= 0) return std::nullopt;
  return seconds_per_whole_ * std::clamp(1 - fraction, 0.0, 1.0);
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string bar_line(double fraction, const std::string& what, std::optional<double> seconds_left, std::size_t columns) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  // Cut off, not rounded: 100% is said when all is done.
  auto line = fmt::format("{:>3}%", static_cast<int>(100 * fraction));
  if (seconds_left) line += fmt::format(" about {} left", clock_text(*seconds_left));
  if (columns <= line.size()) return line.substr(0, columns);
  const auto room = columns - line.size();
  const auto doing = as_ascii(what);
  if (room > kBarWidth + 3 + kLeastWhatWidth) {
    const auto filled = static_cast<std::size_t>(fraction * kBarWidth);
    return fmt::format("[{:#<{}}{:.<{}}] {} {}", "", filled, "", kBarWidth - filled, line, cut(doing, room - kBarWidth - 4));
  }
  return room > kLeastWhatWidth ? line + " " + cut(doing, room - 1) : line;
}

std::string plain_line(double fraction, const std::string& what, double seconds, std::optional<double> seconds_left) {
  const std::string left = seconds_left ? fmt::format(", about {} left", clock_text(*seconds_left)) : "";
  return fmt::format("{}% {} ({}{})", static_cast<int>(100 * std::clamp(fraction, 0.0, 1.0)), printable(what), clock_text(seconds), left);
}

TerminalProgress::TerminalProgress(bool quiet) : quiet_(quiet), terminal_(!quiet && draws_bars()) {}
TerminalProgress::~TerminalProgress() { clear(); }

void TerminalProgress::doing(double fraction, const std::string& what) {
  if (!terminal_ && !quiet_) heartbeat_.doing([this, fraction, what, left = left_.at(fraction)] { return plain_line(fraction, what, seconds(), left); });
  if (!terminal_) return;
  clear();
  const auto columns = terminal_columns(STDERR_FILENO);
  // One column stays free: a terminal that wraps at the last one would leave lines behind.
  std::fputs(bar_line(fraction, what, left_.at(fraction), (columns ? columns : 80) - 1).c_str(), stderr);
  std::fflush(stderr);
}

void TerminalProgress::doing_evenly(double fraction, const std::string& what) {
  constexpr double kSettled = 1;  // before, what is kept from an earlier run flies by
  const double now = seconds();
  if (began_at_ < 0 && now >= kSettled) began_at_ = fraction, began_seconds_ = now;
  if (began_at_ >= 0) left_.finished(fraction - began_at_, now - began_seconds_);
  doing(fraction, what);
}

void TerminalProgress::finished(double fraction, const std::string& line) {
  left_.finished(fraction, seconds());
  if (quiet_) return;
  heartbeat_.said();
  if (fraction >= 1) heartbeat_.doing(nullptr);
  clear();
  const auto left = fraction < 1 ? left_.at(fraction) : std::nullopt;
  fmt::print(stderr, "{} ({}{})\n", printable(line), clock_text(seconds()), left ? ", about " + clock_text(*left) + " left" : "");
}

void TerminalProgress::note(const std::string& line) {
  if (quiet_) return;
  heartbeat_.said();
  clear();
  fmt::print(stderr, "{}\n", printable(line));
}

void TerminalProgress::clear() const {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

double TerminalProgress::seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count(); }

}  // namespace patchbay::app

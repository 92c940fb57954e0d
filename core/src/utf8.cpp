#include "utf8.h"

#include <fmt/format.h>

#include "tokenizer.h"
#include "utf8_prefix.h"

namespace patchbay {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// A lead byte says how long its character is and which second bytes it allows: overlong forms, surrogates and what lies past
/// U+10FFFF are shut out.
struct Lead { std::size_t bytes; unsigned char second_low, second_high; };

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

/// Moves all complete characters of `pending` to the result; stray bytes become U+FFFD. Leaves an unfinished tail.
std::string take_complete(std::string& pending) {
  std::string text;
  std::string_view rest = pending;
  while (!rest.empty()) {
    const Utf8Unit unit = first_utf8_unit(rest);
    if (unit.kind == Utf8Unit::Kind::unfinished) break;
    text += unit.kind == Utf8Unit::Kind::character ? rest.substr(0, unit.bytes) : kReplacement;
    rest.remove_prefix(unit.bytes);
  }
  pending = std::string(rest);
  return text;
}

}  // namespace

Utf8Unit first_utf8_unit(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.bytes == 0) return {Utf8Unit::Kind::invalid, 1};
  if (lead.bytes == 1) return {Utf8Unit::Kind::character, 1, byte(0)};
  char32_t code_point = byte(0) & (0x7Fu >> lead.bytes);
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Utf8Unit::Kind::unfinished, i};
    const unsigned char low = i == 1 ? lead.second_low : 0x80, high = i == 1 ? lead.second_high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8Unit::Kind::invalid, i};
    code_point = code_point << 6 | (byte(i) & 0x3Fu);
  }
  return {Utf8Unit::Kind::character, lead.bytes, code_point};
}

std::size_t utf8_prefix(std::string_view text) {
  std::size_t good = 0;
  while (good < text.size()) {
    const Utf8Unit unit = first_utf8_unit(text.substr(good));
    if (unit.kind != Utf8Unit::Kind::character) break;
    good += unit.bytes;
  }
  return good;
}

bool is_utf8(std::string_view text) { return utf8_prefix(text) == text.size(); }

bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || (c >= 0x200E && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

bool is_plain_text(std::string_view text) {
  while (!text.empty()) {
    const Utf8Unit unit = first_utf8_unit(text);
    if (unit.kind != Utf8Unit::Kind::character || is_control(unit.code_point)) return false;
    text.remove_prefix(unit.bytes);
  }
  return true;
}

std::string escaped(std::string_view text, std::size_t limit) {
  std::string shown;
  std::string_view rest = text;
  while (!rest.empty() && text.size() - rest.size() < limit) {
    const Utf8Unit unit = first_utf8_unit(rest);
    if (unit.kind != Utf8Unit::Kind::character) {
      for (std::size_t i = 0; i < unit.bytes; ++i) shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(rest[i]));
    } else if (unit.code_point == '\n') {
      shown += "\\n";
    } else if (unit.code_point == '\t') {
      shown += "\\t";
    } else if (unit.code_point == '\r') {
      shown += "\\r";
    } else if (unit.code_point == '\\') {
      shown += "\\\\";
    } else if (is_control(unit.code_point)) {
      shown += unit.bytes == 1 ? fmt::format("\\x{:02x}", static_cast<unsigned>(unit.code_point))
                               : fmt::format("\\u{{{:04x}}}", static_cast<unsigned>(unit.code_point));
    } else {
      shown += rest.substr(0, unit.bytes);
    }
    rest.remove_prefix(unit.bytes);
  }
  return rest.empty() ? shown : shown + "...";
}

void append_utf8(std::string& text, char32_t c) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [&](int shift) { add(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6), tail(0);
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12), tail(6), tail(0);
  } else {
    add(0xF0 | c >> 18), tail(12), tail(6), tail(0);
  }
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_ += bytes;
  return take_complete(pending_);
}

std::string Utf8Stream::finish() {
  if (pending_.empty()) return {};
  pending_.clear();  // never more than one unfinished character
  return std::string(kReplacement);
}

}  // namespace patchbay

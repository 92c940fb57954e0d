// Checks on the bytes of a YAML text: yaml-cpp takes bad UTF-8, NUL, other encodings and any directive without a word.
#include "yaml_check.h"

#include <algorithm>
#include <vector>

#include "patchbay/error.h"

namespace patchbay {
namespace {

constexpr std::size_t kMaxScalarBytes = 4096;

std::string place(const std::string& file_name, std::string_view text, std::size_t offset) {
  return file_name + ":" + std::to_string(1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

std::string hex(unsigned char byte) {
  constexpr char kHex[] = "0123456789abcdef";
  return {'0', 'x', kHex[byte >> 4], kHex[byte & 15]};
}

/// Length of the well-formed UTF-8 character that begins at `at` (Unicode 15, table 3-7), or 0.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  const auto tail = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i)
      if ((byte(i) & 0xC0) != 0x80) return false;
    return true;
  };
  const unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1, 2) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && second < 0xA0, surrogate = first == 0xED && second > 0x9F;
    return tail(1, 3) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && second < 0x90, past_end = first == 0xF4 && second > 0x8F;
    return tail(1, 4) && !overlong && !past_end ? 4 : 0;
  }
  return 0;
}

/// Directives stand before the document. Only %YAML 1.1 and 1.2 mean something here.
void check_directives(std::string_view text, const std::string& file_name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  int line_number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    ++line_number;
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r' || line.back() == '\t')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with('%')) return;
    if (line == "%YAML 1.1" || line == "%YAML 1.2") continue;
    const bool version = line.starts_with("%YAML");
    throw Error(file_name + ":" + std::to_string(line_number), version ? "unsupported YAML version" : "unsupported directive",
                "%YAML 1.1, %YAML 1.2", "remove the line");
  }
}

}  // namespace

void check_yaml_text(std::string_view text, const std::string& file_name) {
  if (text.size() > kMaxYamlBytes) {
    throw Error(file_name, std::to_string(text.size()) + " bytes is too large for a config", "at most 1 MiB");
  }
  for (std::size_t at = 0; at < text.size();) {
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = character_length(text, at);
    if (length == 0) throw Error(place(file_name, text, at), "bad UTF-8: byte " + hex(byte), "", "save the file as UTF-8");
    const bool line_end = byte == '\r' && at + 1 < text.size() && text[at + 1] == '\n';
    if ((byte < 0x20 && byte != '\n' && byte != '\t' && !line_end) || byte == 0x7F) {
      throw Error(place(file_name, text, at), "bad character: control byte " + hex(byte), "", "remove it");
    }
    at += length;
  }
  check_directives(text, file_name);
}

void check_scalar_text(std::string_view text, const std::string& where) {
  if (text.size() > kMaxScalarBytes) {
    throw Error(where, "value too long: " + std::to_string(text.size()) + " bytes", "at most " + std::to_string(kMaxScalarBytes));
  }
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) {
      throw Error(where, "bad character: control byte " + hex(byte) + " in text", "", "remove it");
    }
  }
}

}  // namespace patchbay

#include "jinja/text_tools.h"

#include <algorithm>

#include "jinja/space.h"

namespace patchbay::jinja {

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  const std::string_view first = text.substr(0, first_utf8_unit(text).bytes);
  return title_first(first) + lower(text).substr(lower(first).size());  // the lower case of a sigma depends on what stands before it
}

std::string titled(std::string_view text) {
  std::string result;
  const auto cased = [](char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); };
  while (!text.empty()) {
    std::size_t end = 0;
    bool in_word = false;
    while (end < text.size()) {
      const Utf8Unit unit = first_utf8_unit(text.substr(end));
      if (end > 0 && cased(unit.code_point) != in_word) break;
      in_word = cased(unit.code_point);
      end += unit.bytes;
    }
    result += in_word ? capitalized(text.substr(0, end)) : std::string(text.substr(0, end));
    text.remove_prefix(end);
  }
  return result;
}

Text stripped(const Text& text, const std::string* chars, bool left, bool right) {
  const auto goes = [&](std::string_view character) {
    return chars == nullptr ? is_space(first_utf8_unit(character).code_point) : chars->find(character) != std::string::npos;
  };
  std::size_t begin = 0, end = text.size();
  while (left && begin < end) {
    const std::size_t bytes = first_utf8_unit(text.view().substr(begin)).bytes;
    if (!goes(text.view().substr(begin, bytes))) break;
    begin += bytes;
  }
  while (right && end > begin) {
    const std::size_t last = last_character(text.view().substr(0, end));
    if (!goes(text.view().substr(last, end - last))) break;
    end = last;
  }
  return text.slice(begin, end);
}

Text replaced(const Text& text, const Text& old, const Text& by, std::int64_t limit, Budget& budget) {
  Text result;
  std::size_t at = 0;
  const auto put = [&](std::size_t kept_to) {
    budget.charge(8 + by.size() + kept_to - at);
    result.append(text, at, kept_to);
    result.append(by);
    budget.check_size(result.size());
  };
  budget.charge(text.size());
  while (limit != 0) {
    std::size_t found = at;
    if (!old.empty()) {
      found = text.view().find(old.view(), at);
      if (found == std::string_view::npos) break;
    } else if (limit > 0) {
      --limit;
    }
    put(found);
    if (!old.empty()) {
      at = found + old.size();
      if (limit > 0) --limit;
    } else {  // between all characters, and at both ends
      if (at >= text.size()) break;
      const std::size_t bytes = first_utf8_unit(text.view().substr(at)).bytes;
      result.append(text, at, at + bytes);
      at += bytes;
    }
  }
  result.append(text, at, text.size());
  return result;
}

std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t limit, bool from_right) {
  std::vector<Text> pieces;
  std::size_t begin = 0, end = text.size();
  while (limit < 0 || static_cast<std::int64_t>(pieces.size()) < limit) {
    const std::size_t found = from_right ? (end < separator.size() ? std::string_view::npos : text.view().rfind(separator, end - separator.size()))
                                         : text.view().find(separator, begin);
    if (found == std::string_view::npos) break;
    pieces.push_back(from_right ? text.slice(found + separator.size(), end) : text.slice(begin, found));
    (from_right ? end : begin) = from_right ? found : found + separator.size();
  }
  pieces.push_back(text.slice(begin, end));
  if (from_right) std::ranges::reverse(pieces);
  return pieces;
}

std::vector<Text> split_at_spaces(const Text& text, std::int64_t limit, bool from_right) {
  std::vector<Text> pieces;
  Text rest = stripped(text, nullptr, true, true);
  std::size_t begin = 0, end = rest.size();
  const auto space_at = [&](std::size_t at) { return is_space(first_utf8_unit(rest.view().substr(at)).code_point); };
  while (begin < end && (limit < 0 || static_cast<std::int64_t>(pieces.size()) < limit)) {
    std::size_t at = from_right ? end : begin;
    if (from_right) {
      while (at > begin && !space_at(last_character(rest.view().substr(0, at)))) at = last_character(rest.view().substr(0, at));
      pieces.push_back(rest.slice(at, end));
      end = at - trailing_space(rest.view().substr(0, at));
    } else {
      while (at < end && !space_at(at)) at += first_utf8_unit(rest.view().substr(at)).bytes;
      pieces.push_back(rest.slice(begin, at));
      begin = at + leading_space(rest.view().substr(at));
    }
  }
  if (begin < end) {  // what the limit left together: with the white space at its far end
    const Text far = stripped(text, nullptr, !from_right, from_right);
    pieces.push_back(from_right ? far.slice(0, end + (far.size() - rest.size())) : far.slice(begin, far.size()));
  }
  if (from_right) std::ranges::reverse(pieces);
  return pieces;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Unit unit = first_utf8_unit(text.view().substr(at));
    std::size_t next = at + unit.bytes;
    if (is_line_end(unit.code_point)) {
      if (unit.code_point == '\r' && next < text.size() && text.bytes()[next] == '\n') ++next;
      lines.push_back(text.slice(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) lines.push_back(text.slice(begin, text.size()));
  return lines;
}

Value list_of(std::vector<Text> texts, Budget& budget) {
  std::vector<Value> items;
  for (Text& text : texts) {
    budget.charge(sizeof(Text) + text.size());
    items.emplace_back(std::move(text));
  }
  return Value::list(budget, std::move(items));
}

}  // namespace patchbay::jinja

/// @file text_tools.h
/// What filters and methods of strings share. All results keep the origins of their bytes.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.h"

namespace patchbay::jinja {

/// A text rewritten as a whole, as in upper(). Where it is of both origins, all of the result counts as data.
template <class Map>
Text rewritten(const Text& text, Budget& budget, Map map) {
  budget.charge(2 * text.size());
  std::string bytes = map(text.view());
  budget.check_size(bytes.size());
  return Text(std::move(bytes), text.data().empty() ? Origin::frame : Origin::data);
}
std::string capitalized(std::string_view text);
/// str.title(): each run of letters begins with a capital.
std::string titled(std::string_view text);

/// Without the characters of a set at its ends (white space where `chars` is null).
Text stripped(const Text& text, const std::string* chars, bool left, bool right);
/// At most `limit` occurrences replaced; limit < 0: all.
Text replaced(const Text& text, const Text& old, const Text& by, std::int64_t limit, Budget& budget);
/// The pieces between separators; `limit` < 0: all. From the right, the first pieces stay together.
std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t limit, bool from_right);
std::vector<Text> split_at_spaces(const Text& text, std::int64_t limit, bool from_right);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
Value list_of(std::vector<Text> texts, Budget& budget);
/// str.format(): {} {0} {name}, and the doubled braces.
Text format_braces(const Text& format, const Arguments& arguments, Budget& budget);

}  // namespace patchbay::jinja

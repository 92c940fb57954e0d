/// @file text.h
/// A string that knows which of its bytes came from data (message texts, tools) and which the template wrote itself. All that templates do
/// with strings keeps this: so the program can tell a control token of the template from a text that spells one.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "text_range.h"

namespace patchbay::jinja {

enum class Origin { frame, data };

class Text {
 public:
  Text() = default;
  Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
    if (origin == Origin::data && !bytes_.empty()) data_.push_back({0, bytes_.size()});
  }

  const std::string& bytes() const { return bytes_; }
  std::string_view view() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  /// Where bytes came from data: in order, apart from each other.
  const std::vector<TextRange>& data() const { return data_; }

  void append(std::string_view bytes, Origin origin);
  void append(const Text& other) { append(other, 0, other.size()); }
  /// The bytes [begin, end) of another text, with their origins.
  void append(const Text& other, std::size_t begin, std::size_t end);
  Text slice(std::size_t begin, std::size_t end) const;
  Origin origin_at(std::size_t byte) const;
  /// Calls part(bytes, origin) for each stretch of one origin.
  template <class Part>
  void for_each_part(Part&& part) const;

 private:
  void mark(std::size_t begin, std::size_t end);

  std::string bytes_;
  std::vector<TextRange> data_;
};

template <class Part>
void Text::for_each_part(Part&& part) const {
  std::size_t done = 0;
  for (const TextRange& range : data_) {
    if (range.begin > done) part(view().substr(done, range.begin - done), Origin::frame);
    part(view().substr(range.begin, range.end - range.begin), Origin::data);
    done = range.end;
  }
  if (done < size()) part(view().substr(done), Origin::frame);
}

// Python counts characters (code points), UTF-8 bytes.
std::size_t character_count(std::string_view text);
/// The byte at which character `index` begins; the text's size for one past the end.
std::size_t byte_of_character(std::string_view text, std::size_t index);

}  // namespace patchbay::jinja

#include "jinja/text.h"

#include <algorithm>

namespace patchbay::jinja {

void Text::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!data_.empty() && data_.back().end == begin) {
    data_.back().end = end;
  } else {
    data_.push_back({begin, end});
  }
}

void Text::append(std::string_view bytes, Origin origin) {
  bytes_ += bytes;
  if (origin == Origin::data) mark(size() - bytes.size(), size());
}

void Text::append(const Text& other, std::size_t begin, std::size_t end) {
  const std::size_t shift = size();
  bytes_.append(other.bytes_, begin, end - begin);
  auto range = std::ranges::upper_bound(other.data_, begin, {}, &TextRange::end);
  for (; range != other.data_.end() && range->begin < end; ++range) {
    mark(shift + std::max(range->begin, begin) - begin, shift + std::min(range->end, end) - begin);
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text part;
  part.append(*this, begin, end);
  return part;
}

Origin Text::origin_at(std::size_t byte) const {
  const auto range = std::ranges::upper_bound(data_, byte, {}, &TextRange::end);
  return range != data_.end() && range->begin <= byte ? Origin::data : Origin::frame;
}

std::size_t character_count(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::size_t byte_of_character(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((text[at] & 0xC0) == 0x80) continue;
    if (index-- == 0) break;
  }
  return at;
}

}  // namespace patchbay::jinja

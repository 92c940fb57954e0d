#include "tokenizer/charsmap.h"

#include <fmt/format.h>

#include <cstring>

#include "tokenizer/unicode.h"

namespace patchbay {
namespace {

constexpr std::size_t kWholeGraphemeBytes = 6;

// A unit of a Darts-clone double array: the label that leads to it, where its children are, and whether a key ends here.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::size_t offset_of(std::uint32_t unit) { return std::size_t{unit >> 10} << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  std::uint32_t bytes = 0;
  if (blob.size() >= sizeof bytes) std::memcpy(&bytes, blob.data(), sizeof bytes);
  if (blob.size() < sizeof bytes || bytes % sizeof(std::uint32_t) != 0 || bytes == 0 || bytes > blob.size() - sizeof bytes) {
    throw Error("precompiled_charsmap", fmt::format("its trie of {} bytes does not fit into {} bytes", bytes, blob.size()));
  }
  units_.resize(bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), blob.data() + sizeof bytes, bytes);
  texts_ = blob.substr(sizeof bytes + bytes);
}

std::optional<Charsmap::Match> Charsmap::match(std::string_view text, bool first) const {
  std::optional<Match> best;
  std::size_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || label_of(units_[node]) != byte) break;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size() || value_of(units_[node]) >= texts_.size()) break;  // a damaged table
    best = Match{i + 1, texts_.c_str() + value_of(units_[node])};
    if (first) break;
  }
  return best;
}

std::string Charsmap::replaced(std::string_view text) const {
  std::string result;
  while (!text.empty()) {
    const auto found = longest(text);
    const std::size_t bytes = found ? found->bytes : first_utf8_unit(text).bytes;
    result += found ? found->replacement : text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return result;
}

std::string Charsmap::replaced_by_grapheme(std::string_view text) const {
  std::string result;
  for_each_grapheme(text, [&](std::string_view grapheme) {
    if (grapheme.size() < kWholeGraphemeBytes) {
      if (const auto found = shortest(grapheme)) {
        result += found->replacement;
        return;
      }
    }
    for_each_character(grapheme, [&](char32_t, std::string_view character) {
      const auto found = shortest(character);
      result += found ? found->replacement : character;
    });
  });
  return result;
}

}  // namespace patchbay

/// @file trie.h
/// A prefix tree over byte strings: which of them begin a text.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// Nodes lie in the order of a breadth-first walk, so that the children of one are neighbours.
class Trie {
 public:
  struct Key { std::string text; std::int32_t value; };

  Trie() : Trie(std::vector<Key>()) {}
  /// Values are 0 or more. Of equal keys the first counts; an empty key is never found.
  explicit Trie(std::vector<Key> keys);

  /// Calls found(length, value) for each key that begins `text`, the shortest first.
  template <class Found>
  void prefixes(std::string_view text, Found&& found) const {
    std::size_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char* first = labels_.data() + nodes_[node].first_child;
      const void* child = std::memchr(first, text[i], nodes_[node].children);
      if (child == nullptr) return;
      node = nodes_[node].first_child + static_cast<std::size_t>(static_cast<const char*>(child) - first);
      if (nodes_[node].value >= 0) found(i + 1, nodes_[node].value);
    }
  }

 private:
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t children = 0;  ///< up to 256
    std::int32_t value = -1;     ///< -1: no key ends here
  };
  std::vector<Node> nodes_;
  std::string labels_;  ///< of each node: the byte that leads to it
};

}  // namespace patchbay

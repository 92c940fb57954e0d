#include "tokenizer/trie.h"

#include <algorithm>

namespace patchbay {

Trie::Trie(std::vector<Key> keys) {
  std::ranges::stable_sort(keys, {}, &Key::text);
  struct Range { std::size_t begin, end, depth; };  // the keys below a node
  std::vector<Range> ranges = {{0, keys.size(), 0}};
  nodes_.emplace_back();
  labels_ += '\0';
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    for (; begin < end && keys[begin].text.size() == depth; ++begin) {
      if (depth > 0 && nodes_[node].value < 0) nodes_[node].value = keys[begin].value;
    }
    nodes_[node].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const char label = keys[begin].text[depth];
      std::size_t next = begin;
      while (next < end && keys[next].text[depth] == label) ++next;
      ++nodes_[node].children;
      nodes_.emplace_back();
      labels_ += label;
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
  }
}

}  // namespace patchbay

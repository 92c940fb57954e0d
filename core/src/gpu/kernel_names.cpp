// The short name of a kernel, the same whoever says its long one: binutils, nvcc's compiler or ncu.
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "gpu/counters.h"

namespace patchbay::gpu {
namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)";

/// "a::Dense<a::(anonymous namespace)::B> >" to "Dense<B>>".
std::string unqualified(const std::string& name) {
  std::string text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name.compare(i, 2, "::") == 0) {
      if (text.ends_with(kAnonymous)) text.resize(text.size() - kAnonymous.size());
      else while (!text.empty() && (std::isalnum(static_cast<unsigned char>(text.back())) || text.back() == '_')) text.pop_back();
      ++i;
    } else if (!(name[i] == ' ' && text.ends_with('>') && name.compare(i + 1, 1, ">") == 0)) {
      text += name[i];
    }
  }
  return text;
}

}  // namespace

std::string short_kernel_name(std::string name) {
  for (const auto& [ncus, ours] : {std::pair<std::string_view, std::string_view>{"<unnamed>", kAnonymous}, {"(int)", ""}, {"(bool)1", "true"}, {"(bool)0", "false"}})
    for (std::size_t at = 0; (at = name.find(ncus, at)) != std::string::npos; at += ours.size()) name.replace(at, ncus.size(), ours);
  int depth = 0;
  std::size_t begin = 0, end = name.size();
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (c == '<') ++depth;
    if (c == '>') --depth;
    if (depth) continue;
    if (name.compare(i, kAnonymous.size(), kAnonymous) == 0) i += kAnonymous.size() - 1;
    else if (c == '(') { end = i; break; }
    else if (c == ' ') begin = i + 1;
    else if (c == ':') begin = i + 1;
  }
  return unqualified(name.substr(begin, end - begin));
}

}  // namespace patchbay::gpu
